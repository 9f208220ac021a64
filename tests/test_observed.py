"""Observed variables: measured, not chosen; what is said holds for their present values, or is a policy."""

from pathlib import Path

import numpy as np
import pytest

from pied import Choice, Observed, Problem, SettingError, StatementError, Study, UnknownName, Variable
from shells import data, pied_

VARIABLES = {"T": (40.0, 100.0), "air": Observed(-5, 35, unit="degC")}


def plant(x: dict[str, float]) -> dict[str, float]:
    """An output whose best setting follows the air: T = 60 + air / 2 gives 1."""
    return {"y": 1.0 - ((x["T"] - 60.0 - 0.5 * x["air"]) / 30.0) ** 2, "w": x["T"] / 100.0}


def stated(**words: object) -> Problem:
    return Problem(VARIABLES, ["y", "w"], maximize="y", subject_to={"load": "w <= 0.74"}, noise=0, **words)


@pytest.fixture(scope="module")
def told() -> Study:
    study = Study(stated(), seed=0)
    rng = np.random.default_rng(0)
    for row in range(14):
        x = {"T": 40.0 + 60.0 * (row * 0.618 % 1.0), "air": float(rng.uniform(-5, 35))}
        study.add(x, plant(x))
    return study


def test_a_proposal_needs_the_present_value_and_has_it(told: Study) -> None:
    with pytest.raises(SettingError, match=r"'air' is measured, not chosen: say what it is now, given=\{'air': 15"):
        Study(stated(), seed=0).ask()
    assert Study(stated(), seed=0).initial == 3  # 2d + 1: the air varies by itself
    with pytest.raises(SettingError, match="one value now, not a range"):
        Study(stated(), seed=0).ask(given={"air": (0, 10)})
    assert told.ask(given={"air": 12.5}).x["air"] == 12.5


def test_an_answer_is_about_the_last_measured_value_or_a_given_one(told: Study) -> None:
    assert told.result().given == {"air": told.trials[13].x["air"]}
    best = told.result(given={"air": 20})
    assert best.x is not None
    assert best.x["T"] == pytest.approx(70.0, abs=0.1)
    assert "Given air = 20" in str(best)


def test_a_policy_follows_the_observed_variable_and_ends_at_the_limit(told: Study) -> None:
    policy = told.policy(air=[0, 10, 20, 34])
    assert [row["air"] for row in policy.rows()] == [0, 10, 20, 34]
    assert [row["T"] for row in policy.rows()] == pytest.approx([60, 65, 70, 74], abs=0.1)
    for each in policy.results:
        low, high = each.bounds["y"]
        assert low - 1e-6 <= plant(each.x)["y"] <= high + 1e-6
    assert str(policy).splitlines()[0].split() == ["air", "T", "y", "probably", "limits", "met", "known"]
    assert len(policy.to_csv().splitlines()) == 5
    assert policy.to_dict()["points"][1]["known"] == "yes"


def test_a_policy_says_where_nothing_was_measured() -> None:
    study = Study(stated(), seed=0)
    for row in range(6):
        x = {"T": 45.0 + 9.0 * row, "air": 0.5 * row}
        study.add(x, plant(x))
    near, far = study.policy(air=[1, 30]).rows()
    assert (near["known"], far["known"]) == ("yes", "nothing measured near these values")


def test_who_asks_for_a_policy_of_what_is_chosen_is_told_so(told: Study) -> None:
    with pytest.raises(UnknownName, match="'T' is not an observed variable"):
        told.policy(T=[50, 60])
    with pytest.raises(SettingError, match="a policy needs observed variables"):
        Study(Problem({"a": (0, 1)}, ["y"], maximize="y")).policy()


def test_the_value_may_be_told_to_have_been_another() -> None:
    study = Study(stated(), seed=0)
    trial = study.ask(given={"air": 10})
    study.tell(trial, {"y": 0.5, "w": 0.6}, at={"air": 11.5})
    assert study.trials[0].x["air"] == 11.5
    assert study.trials[0].proposed is not None


def test_a_run_takes_what_the_hour_brings() -> None:
    hours = [3.0, 9.0, 14.0, 21.0]
    study = Study(stated(blackbox=lambda x: plant(dict(x))), seed=1)
    study.run(4, given=lambda number: {"air": hours[number - 1]})
    assert [trial.x["air"] for trial in study.trials] == hours
    with pytest.raises(SettingError, match="'air' is measured"):
        study.run(1)


def test_kinds_of_variables_can_be_observed_and_are_restored(tmp_path: Path) -> None:
    kinds = {
        "a": (0, 1), "n": Variable(1, 9, step=2, observed=True), "feed": Choice("Brent", "Urals", observed=True),
    }  # fmt: skip
    problem = Problem(kinds, ["y"], maximize="y", noise=0)
    assert problem.observed == ("n", "feed")
    store = tmp_path / "observed.db"
    with Study(problem, store=store, name="s", seed=0) as study:
        trial = study.ask(given={"n": 3, "feed": "Urals"})
        study.tell(trial, {"y": 1.0})
    with Study(problem, store=store, name="s") as again:
        assert again.trials[0].x["feed"] == "Urals"
        assert again.result().given == {"n": 3.0, "feed": "Urals"}
    with pytest.raises(SettingError, match=r"feed.*measured variables need one objective"):
        Study(Problem(kinds, ["y"], maximize={"p": "y", "q": "a"}))


def test_the_shell_asks_for_the_value_and_writes_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "plant.toml"
    file.write_text(
        'maximize = "y"\n[variables]\nT = [40, 100]\nair = { lo = -5, hi = 35, observed = true, forget = 90 }\n'
        "[outputs]\ny = {}\n[study]\nseed = 0\n"
    )
    assert "say what it is now, --given air=15" in pied_("ask", str(file), code=2).output
    table = tmp_path / "old.csv"
    points = [{"T": 40.0 + 60.0 * (row * 0.618 % 1.0), "air": 5.0 * row} for row in range(8)]
    table.write_text("T,air,y\n" + "".join(f"{x['T']},{x['air']},{plant(x)['y']}\n" for x in points))
    pied_("add", str(file), str(table))
    assert data("ask", str(file), "--given", "air=7")["x"]["air"] == 7
    made, picture = tmp_path / "policy.csv", tmp_path / "policy.png"
    words = ["policy", str(file), "air=0:30:3", "--csv", str(made), "--plot", str(picture)]
    assert pied_(*words).output.split()[:2] == ["air", "T"]
    assert len(made.read_text().splitlines()) == 4
    assert picture.stat().st_size > 1000
    assert [row["air"] for row in data("policy", str(file), "air=12")["points"]] == [12]
    file.write_text(file.read_text().replace("observed = true", "observed = 1"))
    assert "observed is true or false, got 1" in pied_("check", str(file), code=2).output


def test_the_page_has_present_values_and_the_policy(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from test_web import client, post

    (tmp_path / "plant.toml").write_text(
        'maximize = "price*y"\n[constants]\nprice = 2\n[variables]\nT = [40, 100]\n'
        "air = { lo = -5, hi = 35, observed = true }\n[outputs]\ny = { noise = 0 }\n[study]\nseed = 0\n"
    )
    points = [{"T": 40.0 + 60.0 * (row * 0.618 % 1.0), "air": 5.0 * row} for row in range(8)]
    table = tmp_path / "old.csv"
    table.write_text("T,air,y\n" + "".join(f"{x['T']},{x['air']},{plant(x)['y']}\n" for x in points))
    pied_("add", str(tmp_path / "plant.toml"), str(table))
    web = client(tmp_path, str(tmp_path / "plant.toml"))
    about = web.get("/api/studies/plant").json()
    assert about["present"] == {"air": 35.0}
    assert [each["name"] for each in about["variables"] if each["observed"]] == ["air"]
    found = post(web, "/api/studies/plant/policy", values={"air": "10:30:3"})
    assert [row["T"] for row in found["points"]] == pytest.approx([65, 70, 75], abs=3.0)
    assert [len(line) for line in found["texts"]] == [len(found["texts"][0])] * 4
    there = post(web, "/api/studies/plant/what-if", given={"air": 20}, constants={"price": 3})
    assert there["x"]["T"] == pytest.approx(70, abs=3.0)
    assert "say what it is now" in post(web, "/api/studies/plant/ask", 422)["error"]
    (trial,) = post(web, "/api/studies/plant/ask", given={"air": 7})["trials"]
    assert trial["x"]["air"] == 7


def test_time_is_forgotten_at_least_as_fast_as_stated() -> None:
    def length(forget: float | None) -> float:
        times = {"a": (0, 1), "day": Observed(0, 100, forget=forget)}
        study = Study(Problem(times, ["y"], maximize="y", noise=0), seed=0)
        for day in range(12):
            a = day * 0.618 % 1.0
            study.add({"a": a, "day": 2 * day}, {"y": 1.0 - (a - 0.4) ** 2 + 0.001 * day})
        (choice,) = study._snapshot().belief.choices
        return 100.0 * float(np.exp(choice.theta[1]))

    assert length(None) > 40
    assert length(20) == pytest.approx(20)
    with pytest.raises(StatementError, match="forget is a time above 0, and says how long"):
        Variable(0, 1, forget=3)
    assert (
        Problem({"day": Observed(0, 9, forget=2)}, ["y"], maximize="y").statement()["variables"]["day"]["forget"] == 2
    )
