"""Where a gap comes from, which measurement narrows it most, and how many more it may take."""

import math

import numpy as np
import pytest
from click.testing import CliRunner

from pied import Choice, Problem, SettingError, Study
from pied.study.settling import MOST, Forecast, Settling


def truth(x):
    return {"y": math.sin(3.0 * x["a"]) + {"p": 0.0, "q": 0.3, "r": 0.1}[x["c"]], "z": 0.5 * x["a"]}


@pytest.fixture(scope="module")
def study():
    """Two labels of three were measured, and one output hardly at all."""
    problem = Problem(
        {"a": (0, 1), "c": Choice("p", "q", "r")}, ["y", "z"], maximize="y + z", subject_to=["z <= 0.6"],
        noise={"y": 0.01, "z": 0.01},
    )  # fmt: skip
    study = Study(problem, seed=0)
    rng = np.random.default_rng(1)
    for a in np.linspace(0.0, 1.0, 8).tolist():
        for label in "pq":
            x = {"a": a, "c": label}
            study.add(x, {name: value + 0.01 * rng.normal() for name, value in truth(x).items()})
    trial = study.ask()
    study.tell(trial, truth(trial.x))
    return study


def test_the_gap_comes_from_what_is_uncertain(study):
    source = study.gap_source()
    never = [label for label in "pqr" if label not in [trial.x["c"] for trial in study.trials]]
    assert all(0.0 < share <= 1.0 for share in source.shares.values())
    assert next(iter(source.shares)) == "y"
    assert source.labels["c"] == sum(trial.x["c"] == source.x["c"] for trial in study.trials)
    assert ("was never measured" in source.sentence) == (source.x["c"] in never)


def test_the_measurement_that_settles_leaves_less_open_than_the_others(study):
    settling = Settling(study.snapshot)
    before, _ = settling._open(settling._composite(study.snapshot.belief), settling.places)
    proposal = settling.proposal()
    belief = study.snapshot.belief.imagine(proposal.u[None])
    after, _ = settling._open(settling._composite(belief), settling.places)
    others = [study.snapshot.belief.imagine(u[None]) for u in np.random.default_rng(0).random((5, study.problem.d))]
    left = [settling._open(settling._composite(each), settling.places)[0] for each in others]
    assert after < before
    assert after <= min(left) * 1.02
    assert study.problem.grid.has(proposal.u[None]).all()


def test_it_is_asked_for_as_a_trial_of_its_own(study):
    trial = study.ask(settle="gap")
    assert trial.why.aim == "settle"
    assert "narrows most" in trial.summary
    assert len(trial.why.expected) == 2
    with pytest.raises(SettingError, match="only the gap"):
        study.ask(settle="front")


def test_fewer_measurements_are_enough_for_a_wider_gap(study):
    said = [study.how_many(wanted) for wanted in (0.02, 0.2, 2.0, 1e6)]
    few = [each.fewest for each in said]
    assert few == sorted(few, reverse=True)
    assert all(each.most is None or each.fewest <= each.most for each in said)
    assert said[-1].is_reached
    assert str(said[-1]).startswith("Stop")
    with pytest.raises(SettingError, match="0 or more"):
        study.how_many(-1.0)


def test_a_forecast_says_no_more_than_it_knows():
    assert "perhaps many more" in str(Forecast(0.1, 2.0, 7, None))
    assert "About 3 to 9" in str(Forecast(0.1, 2.0, 3, 9))
    assert f"More than {MOST}" in str(Forecast(0.1, 2.0, MOST, None))


def test_nothing_is_settled_before_anything_is_known():
    study = Study(Problem({"a": (0, 1)}, ["y"], maximize="y"), seed=0)
    with pytest.raises(SettingError, match="at least two"):
        study.how_many()


def test_the_shell_asks_and_answers(tmp_path, monkeypatch):
    from pied.shell.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text('maximize = "y"\n[variables]\na = [0, 1]\n[outputs]\ny = { noise = 0.02 }\n')
    (tmp_path / "old.csv").write_text("a,y\n" + "".join(f"{a / 6:.3f},{math.sin(a / 2):.3f}\n" for a in range(7)))
    run = CliRunner()
    assert run.invoke(main, ["add", "lab.toml", "old.csv"]).exit_code == 0
    asked = run.invoke(main, ["ask", "lab.toml", "--settle", "gap"])
    assert asked.exit_code == 0
    assert "narrows most" in asked.output
    told = run.invoke(main, ["result", "lab.toml", "--more"])
    assert "measurements until" in told.output or "Stop" in told.output
    assert "Most is open in y" in told.output
