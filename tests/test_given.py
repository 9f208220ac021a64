"""Slices: proposals and answers with given settings, over all kinds of spaces."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import (
    Choice,
    Infeasible,
    Integer,
    Levels,
    Mixture,
    Problem,
    SettingError,
    SolverDone,
    StatementError,
    Status,
    Study,
    TellError,
    UnknownName,
    Variable,
)
from pied.problem import SAME
from pied.rng import Stream
from pied.search import Search, search_of
from shells import data, pied_

MIXED = {"solvent": Choice("EtOH", "DMF"), "n": Integer(1, 30), "d": Levels(10, 15, 22, 40), "T": (20.0, 80.0)}
BLEND = {"blend": Mixture("a", "b", "c", bounds={"a": (0, 0.6)}), "T": (20, 80)}
TABLE = {"T": [10.0, 20.0, 30.0] * 4, "p": [1.0] * 3 + [2.0] * 3 + [3.0] * 3 + [4.0] * 3}
SPACES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "box": ({"variables": {"T": (20, 100), "p": (1, 10)}}, [{"T": 80}, {"T": 33.3, "p": 2}, {"p": (2, 3)}]),
    "logarithm": ({"variables": {"T": Variable(1e-3, 10, log=True), "p": (1, 10)}}, [{"T": 0.07}]),
    "mixed": ({"variables": MIXED}, [{"T": 31.7}, {"solvent": "DMF", "n": 7}, {"d": 22}, {"n": (3, 9)}]),
    "grid": ({"variables": {"n": Integer(1, 9), "s": Variable(0, 1, step=0.1)}}, [{"s": 0.3}, {"n": 4}]),
    "mixture": ({"variables": BLEND}, [{"a": 0.3}, {"b": 0.25}, {"c": 0.4}, {"a": 0.2, "c": 0.3}]),
    "curve": ({"variables": {"a": (0, 2), "b": (0, 2), "e": (0, 2)}, "subject_to": ["a*b + e^2 == 1"]}, [{"a": 0.5}]),
    "candidates": ({"candidates": TABLE}, [{"T": 30}, {"p": 2}]),
}
ALL = [(name, given) for name, (_, slices) in SPACES.items() for given in slices]


def problem_of(name: str, **words: Any) -> Problem:
    return Problem(outputs=["y"], maximize="y", **({"noise": 0} | SPACES[name][0] | words))


def measured(x: Any) -> dict[str, float]:
    numbers = np.array([float(len(each)) if isinstance(each, str) else float(each) for each in x.values()])
    return {"y": float(-np.square(numbers / (1 + abs(numbers)) - 0.4).sum())}


def is_kept(x: Any, given: dict[str, Any]) -> bool:
    return all(
        value[0] <= x[name] <= value[1] if isinstance(value, tuple) else x[name] == value
        for name, value in given.items()
    )


@pytest.mark.parametrize(("name", "given"), ALL)
def test_points_of_a_slice_have_the_given_values_exactly_and_can_be_set(name: str, given: dict[str, Any]) -> None:
    whole = problem_of(name)
    part = whole.sliced(given)
    pool = part.settled(part.drawn(Stream(1).uniform(200, part.d)), Stream(2))
    if part.candidates is not None:
        pool = part.candidates.U
    points = [part.natural(part.onto(u)) for u in pool]
    assert all(is_kept(part.named_x(point), given) for point in points)
    assert whole.settable(np.array(points)).all()
    if name == "mixture":
        assert np.abs(np.array(points)[:, :3].sum(1) - 1).max() <= 1e-12
    if name == "curve":
        assert max(abs(x[0] * x[1] + x[2] ** 2 - 1) for x in points) <= 1e-8


@pytest.mark.parametrize(("name", "given"), ALL)
def test_the_initial_design_keeps_what_is_given(name: str, given: dict[str, Any]) -> None:
    with Study(problem_of(name), seed=1) as study:
        for _ in range(1 if given == {"T": 33.3, "p": 2} else 2):
            trial = study.ask(given=given)
            assert trial.why.aim == "initial"
            assert is_kept(trial.x, given)
            assert trial.why.given == {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
            assert "given" in trial.summary
            study.tell(trial, measured(trial.x))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "noise"), [(name, 0) for name in SPACES] + [("box", None)])
def test_proposals_and_answers_keep_what_is_given(name: str, noise: float | None) -> None:
    slices = SPACES[name][1]
    with Study(problem_of(name, noise=noise), seed=3, initial=4) as study:
        for _ in range(5):
            trial = study.ask()
            study.tell(trial, measured(trial.x))
        for given in (slices[0], slices[-1]):
            trial = study.ask(given=given)
            assert trial.why.aim != "initial"
            assert is_kept(trial.x, given)
            assert study.problem.settable(np.array([trial.x.array])).all()
            study.tell(trial, measured(trial.x))
        given = slices[-1]
        found = study.result(given=given)
        assert found.x is not None
        assert is_kept(found.x, given)
        assert found.given
        assert str(found).startswith("Given ")
        low, high = found.bounds["y"]
        assert high - low <= np.ptp([trial.y["y"] for trial in study.trials if trial.y is not None])


def test_measurements_off_the_slice_tell_where_its_optimum_is() -> None:
    problem = Problem({"T": (0, 1), "p": (0, 1)}, ["y"], maximize="y", noise=0)
    with Study(problem, seed=1) as study:
        for T in np.linspace(0, 1, 5).tolist():
            for p in np.linspace(0, 1, 5).tolist():
                study.add({"T": T, "p": p}, {"y": -((p - 0.2 - 0.5 * T) ** 2) - T})
        for T in (0.1, 0.6, 0.9):
            found = study.result(given={"T": T})
            assert found.x is not None
            assert found.trial is None
            assert found.x["p"] == pytest.approx(0.2 + 0.5 * T, abs=0.02)
            assert found.bounds["y"][0] <= -T + 1e-3
            assert found.bounds["y"][1] >= -T - 1e-3
            assert study.ask(given={"T": T}).x["p"] == pytest.approx(0.2 + 0.5 * T, abs=0.1)
        assert study.recommend(given={"T": 0.6}).x == study.result(given={"T": 0.6}).x
        answer = study.what_if(given={"T": 0.6})
        assert answer.x is not None
        assert answer.x["T"] == 0.6
        assert study.ask().why.given == {}
        assert study.expect({"p": 0.5}, given={"T": 0.6}) == study.expect({"T": 0.6, "p": 0.5})


def test_a_sweep_stays_on_the_slice() -> None:
    problem = Problem({"T": (0, 1), "p": (0, 1)}, ["y"], maximize="price * y - p", constants={"price": 2.0}, noise=0)
    with Study(problem, seed=1) as study:
        for x in Stream(0).uniform(8, 2).tolist():
            study.add(x, {"y": x[1] ** 0.5 + x[0]})
        swept = study.sweep(price=[1.0, 2.0], given={"T": 0.25})
        assert [each.x["T"] for each in swept.answers if each.x is not None] == [0.25, 0.25]
        assert swept.next_x["T"] == 0.25
        assert study.ask(for_sweep=swept, given={"T": 0.25}).x["T"] == 0.25


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("box", {"T": 120}, r"'T' = 120 is outside of its range \[20, 100\]"),
        ("box", {"t": 80}, "'t' is given, but is not a variable.*'T'"),
        ("box", {"T": "warm"}, "'T' should be a number"),
        ("box", {"T": (110, 120)}, "lies outside of its range"),
        ("box", {"T": (50, 40)}, "the first end must not be above"),
        ("mixed", {"d": 16}, "'d' = 16 cannot be set; the nearest values that can be are 10 and 15|15 and 22"),
        ("mixed", {"n": 2.5}, "counts in whole numbers"),
        ("mixed", {"n": (2.2, 2.8)}, "has no value to be set"),
        ("mixed", {"solvent": "THF"}, "THF"),
        ("mixture", {"a": 0.5, "b": 0.7}, "No settings have a = 0.5, b = 0.7: .*'blend' cannot hold"),
        ("mixture", {"a": 0.3, "b": 0.3, "c": 0.5}, "'blend' needs"),
        ("candidates", {"T": 15}, "None of the 12 candidates has T = 15"),
    ],
)
def test_an_empty_slice_is_refused_in_words_before_anything_is_recorded(name: str, given: Any, said: str) -> None:
    with Study(problem_of(name), seed=1) as study:
        with pytest.raises(StatementError, match=said):
            study.ask(given=given)
        assert not study.trials


def test_limits_that_the_slice_cannot_meet_are_said_before_anything_is_measured() -> None:
    problem = Problem({"T": (0, 1), "p": (0, 1)}, ["y"], maximize="y", subject_to=["T + p <= 0.8"])
    with Study(problem, seed=1) as study:
        with pytest.raises(Infeasible, match=r"with T = 0\.9"):
            study.ask(given={"T": 0.9})
        assert study.status is Status.RUNNING
        assert study.ask(given={"T": 0.7}).x["p"] <= 0.1


def test_what_is_found_on_a_slice_is_no_verdict_and_no_bound_of_the_whole() -> None:
    problem = Problem({"T": (0, 1), "p": (0, 1)}, ["y"], maximize="y", subject_to=["y <= 0.5"], noise=0)
    with Study(problem, seed=1, patience=1, initial=4) as study:
        for _ in range(9):
            try:
                trial = study.ask(given={"T": 0.95})
            except (Infeasible, SolverDone):
                break
            study.tell(trial, {"y": trial.x["T"] + 0.1 * trial.x["p"]})
        assert study.status is Status.RUNNING
        assert all(trial.why.optimistic is None for trial in study.snapshot.believed)
        assert study.ask().x["T"] != 0.95


def test_a_slice_of_one_point_is_measured_once_if_exact_and_repeated_with_noise() -> None:
    given = {"T": 80.0, "p": 2.0}
    for noise in (0, None):
        with Study(problem_of("box", noise=noise), seed=1) as study:
            study.tell(study.ask(given=given), {"y": 1.0})
            if noise == 0:
                with pytest.raises(SolverDone, match="with T = 80, p = 2"):
                    study.ask(given=given)
                assert study.status is Status.RUNNING
            else:
                assert dict(study.ask(given=given).x) == given


def test_solvers_that_cannot_keep_to_given_settings_say_so() -> None:
    with Study(problem_of("box"), solver="eic-cf", seed=1) as study, pytest.raises(SettingError, match="take 'cuqb'"):
        study.ask(given={"T": 80})
    for solver in ("random", "sobol"):
        with Study(problem_of("box"), solver=solver, seed=1, initial=2) as study:
            for _ in range(4):
                trial = study.ask(given={"T": 80})
                assert trial.x["T"] == 80
                study.tell(trial, measured(trial.x))


def test_a_worker_gets_an_open_trial_back_only_if_it_has_what_is_given(tmp_path: Any) -> None:
    with Study(problem_of("box"), name="s", store=tmp_path / "s.db", worker="ann", seed=1) as study:
        first = study.ask(given={"T": 80})
        second = study.ask(given={"T": 60})
        assert (first.x["T"], second.x["T"]) == (80, 60)
        assert study.ask(given={"T": 60}).number == second.number
        assert [trial.number for trial in study.open_trials(1, given={"T": 80})] == [first.number]
    with Study(problem_of("box"), name="s", store=tmp_path / "s.db") as again:
        assert [trial.why.given for trial in again.trials] == [{"T": 80.0}, {"T": 60.0}]


def test_the_search_of_a_slice_finds_its_optimum_as_a_search_of_its_free_coordinates_does() -> None:
    class Bowl:
        k, white = 1, ()

        def values(self, U: Any) -> Any:
            return -np.square(U - [0.3, 0.8, 0.1]).sum(1, keepdims=True) + (U[:, :1] * U[:, 1:2])

        def values_and_slopes(self, U: Any) -> Any:
            slopes = -2 * (U - [0.3, 0.8, 0.1])
            slopes[:, 0] += U[:, 1]
            slopes[:, 1] += U[:, 0]
            return self.values(U), slopes[:, None]

    problem = Problem({"a": (0, 1), "b": (0, 1), "e": (0, 1)}, ["y"], maximize="y").sliced({"b": 0.4, "e": (0.3, 0.6)})
    search, stream = search_of(problem, Search()), Stream(1)
    pool = search.screen(stream, 3, np.zeros((0, 3)))
    assert problem.lies_on(pool).all()
    best = search.solve(Bowl(), np.ones(1), pool, pool[:0], stream)
    assert best.u == pytest.approx([0.5, 0.4, 0.3], abs=10 * SAME)


def test_a_start_is_evaluated_first_and_the_design_goes_on_around_it() -> None:
    asked = []

    def blackbox(x: Any) -> dict[str, float]:
        asked.append((x["T"], x["p"]))
        return measured(x)

    problem = problem_of("box", blackbox=blackbox)
    with Study(problem, seed=1, start=[{"T": 80, "p": 2}, {"T": 40, "p": 3, "y": -1.0}], initial=4) as study:
        study.enqueue([33.0, 4.0])
        study.run(5)
        assert asked[:2] == [(80, 2), (33, 4)]
        assert [trial.why.aim for trial in study.trials[:5]] == ["added", "start", "start", "initial", "explore"]
        assert len(asked) == study.used == 5


def test_a_start_is_taken_once_and_only_if_it_is_not_there(tmp_path: Any) -> None:
    start = {"a": 0.3, "b": 0.3, "c": 0.4, "T": 50}
    for _ in range(2):
        with Study(problem_of("mixture"), name="s", store=tmp_path / "s.db", seed=1, start=start) as study:
            assert [dict(trial.x) for trial in study.trials] == [start]
    with Study(problem_of("mixture"), name="s", store=tmp_path / "s.db", worker="ann") as ann:
        trial = ann.ask()
        assert dict(trial.x) == start
        assert "given to begin with" in trial.summary
        ann.tell(trial, {"y": 1.0})
        assert ann.ask().why.aim == "initial"


@pytest.mark.parametrize(
    ("name", "x", "said"),
    [
        ("box", {"T": 120, "p": 2}, "outside of its range|outside its range"),
        ("box", {"T": 80}, "p"),
        ("mixed", {"solvent": "DMF", "n": 3, "d": 16, "T": 30}, "'d' = 16.* cannot be set"),
        ("mixture", {"a": 0.3, "b": 0.3, "c": 0.5, "T": 30}, "does not fit the others"),
        ("box", 5, "a point|mapping|number"),
    ],
)
def test_a_start_that_cannot_be_set_is_refused(name: str, x: Any, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        Study(problem_of(name), seed=1, start=x)


def test_add_without_outputs_names_the_way_to_have_settings_evaluated() -> None:
    with Study(problem_of("box"), seed=1) as study, pytest.raises(TellError, match=r"study\.enqueue"):
        study.add({"T": 80, "p": 2})


def test_the_shell_takes_settings_of_ones_own(lab: Path) -> None:
    made = data("ask", "lab.toml", "--at", "temperature=80", "--at", "time=2")
    assert made["x"] == {"temperature": 80, "time": 2}
    assert data("ask", "lab.toml")["trial"] == made["trial"]


@pytest.mark.parametrize(
    ("name", "max_step"), [("box", {"T": 5, "p": 1}), ("mixed", {"T": 3, "n": 2}), ("mixture", {"c": 0.05})]
)
def test_steps_are_no_longer_than_they_may_be(name: str, max_step: dict[str, float]) -> None:
    with Study(problem_of(name), seed=2, initial=4) as study:
        study.add_all((trial, measured(trial)) for trial in (dict(study.ask().x) for _ in range(3)))
        for _ in range(4):
            before = next(trial for trial in reversed(study.trials) if trial.y is not None).x
            trial = study.ask(max_step=max_step)
            assert all(abs(trial.x[each] - before[each]) <= most + 1e-12 for each, most in max_step.items())
            study.tell(trial, measured(trial.x))


def test_steps_lead_to_the_optimum_and_say_what_is_missing() -> None:
    problem = Problem({"T": (0, 100), "p": (0, 1)}, ["y"], maximize="y", noise=0)
    with Study(problem, seed=1, initial=2) as study:
        with pytest.raises(SettingError, match="not known where 'T' stands"):
            study.ask(max_step={"T": 10})
        for _ in range(14):
            trial = study.ask(max_step={"T": 10}, present={} if study.trials else {"T": 5})
            study.tell(trial, {"y": -(((trial.x["T"] - 80) / 50) ** 2) - (trial.x["p"] - 0.4) ** 2})
        assert study.result().value >= -1e-3
        with pytest.raises(SettingError, match="T = 10 is more than 5 away"):
            study.ask(given={"T": 10}, max_step={"T": 5})
        with pytest.raises(UnknownName, match="not a variable"):
            study.ask(max_step={"t": 5})


def test_trials_of_a_plate_share_what_they_must_and_nothing_else(lab: Path) -> None:
    plate = data("ask", "lab.toml", "--count", "3", "--same", "temperature")
    assert len({each["x"]["temperature"] for each in plate}) == 1
    assert len({each["x"]["time"] for each in plate}) == 3
    assert data("ask", "lab.toml", "--count", "3", "--same", "temperature") == plate
    assert "not a variable" in pied_("ask", "lab.toml", "--same", "temprature", code=2).output


def test_the_shell_takes_steps(lab: Path) -> None:
    made = data("ask", "lab.toml", "--max-step", "temperature=2", "--from", "temperature=70")
    assert 68 <= made["x"]["temperature"] <= 72
    pied_("tell", "lab.toml", "1", "product=0.5", "impurity=0.05")
    assert (
        abs(data("ask", "lab.toml", "--max-step", "temperature=2")["x"]["temperature"] - made["x"]["temperature"]) <= 2
    )


def test_the_shell_takes_what_is_given_and_shows_it(lab: Path) -> None:
    made = data("ask", "lab.toml", "--given", "temperature=80")
    assert made["x"]["temperature"] == 80
    assert "given temperature = 80" in made["why"]
    assert 70 <= data("ask", "lab.toml", "--given", "temperature=70:71")["x"]["temperature"] <= 71
    assert "outside of its range" in pied_("ask", "lab.toml", "--given", "temperature=800", code=2).output
    for number in (1, 2):
        pied_("tell", "lab.toml", str(number), f"product=0.{number}", "impurity=0.05")
    found = data("result", "lab.toml", "--given", "temperature=77.5", code=(0, 3))
    assert found["given"] == {"temperature": 77.5}
    assert found["too_few"]  # and none of them was measured there
    assert "Too few measurements to say" in found["message"]


def test_a_plate_may_have_several_values_which_are_used_evenly(lab: Path) -> None:
    plate = data("ask", "lab.toml", "--count", "6", "--same", "temperature", "--among", "2")
    temperatures = [each["x"]["temperature"] for each in plate]
    assert sorted(temperatures.count(each) for each in set(temperatures)) == [3, 3]
    assert data("ask", "lab.toml", "--count", "6", "--same", "temperature", "--among", "2") == plate


def test_a_setting_that_is_costly_to_change_stays_unless_changing_pays() -> None:
    problem = Problem({"T": (0, 100), "p": (0, 1)}, ["y"], maximize="y", noise=0)

    def told(start: float) -> Study:
        study = Study(problem, seed=1, initial=2)
        for T, p in ((20, 0.2), (50, 0.8), (80, 0.3), (90, 0.7), (10, 0.9), (30, 0.5), (start, 0.1)):
            study.add({"T": T, "p": p}, {"y": -(((T - 80) / 50) ** 2) - (p - 0.4) ** 2})
        return study

    near, far = told(76.0), told(30.0)  # changing T brings 0.0064 and 1
    assert near.ask(change_cost={"T": 0.1}).x["T"] == 76
    assert far.ask(change_cost={"T": 0.1}).x["T"] == pytest.approx(80, abs=3)
    assert far.ask(change_cost={"T": 0.1}, present={"T": 79.5}).x["T"] == 79.5
    with pytest.raises(SettingError, match="change_cost of 'T' is a number of the objective's units, 0 or more"):
        near.ask(change_cost={"T": -1})
    with pytest.raises(UnknownName, match="has a cost, but is not a variable"):
        near.ask(change_cost={"t": 1})
