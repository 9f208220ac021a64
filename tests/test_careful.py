"""Careful studies: trials meet limits with the stated probability, from settings that are known to."""

import numpy as np
import pytest

from pied import CUQB, Problem, SettingError, Study
from pied.errors import TERMINAL, read_as
from pied.rng import Stream
from tiny import fast

HEAT = Problem({"a": (0, 1), "b": (0, 1)}, ["y", "w"], maximize="y", subject_to={"permit": "w <= 0.6"}, noise=0)


def measured(x: dict[str, float]) -> dict[str, float]:
    """An objective that rises towards a limit; at its edge y is 1.2 at best."""
    return {"y": x["a"] + x["b"] - (x["a"] - x["b"]) ** 2, "w": 0.25 * (x["a"] + x["b"]) ** 2 + 0.24 * x["a"] ** 2}


def careful(**words: object) -> Study:
    study = Study(HEAT, solver=CUQB(careful=0.95, search=fast().search), seed=0, **words)
    for a, b in ((0.1, 0.2), (0.2, 0.1), (0.15, 0.3)):
        study.add({"a": a, "b": b}, measured({"a": a, "b": b}))
    return study


@pytest.mark.slow
def test_no_trial_breaks_the_limit_and_the_best_is_found_all_the_same() -> None:
    study = careful()
    for _ in range(14):
        trial = study.ask()
        study.tell(trial, measured(dict(trial.x)))
    broken = [trial.number for trial in study.trials if trial.y is not None and trial.y["w"] > 0.6 + 1e-9]
    assert len(broken) <= 1  # 17 trials, each with a probability of 0.05 at most
    rng = np.random.default_rng(0).random((20_000, 2))
    best = max(y["y"] for a, b in rng.tolist() if (y := measured({"a": a, "b": b}))["w"] <= 0.6)
    assert study.result().value >= best - 0.02
    assert {trial.why.aim for trial in study.trials[3:]} <= {"safe", "edge"}


def test_without_safe_settings_it_asks_for_some() -> None:
    with pytest.raises(SettingError, match="begins at settings that are known to meet all limits"):
        Study(HEAT, solver=CUQB(careful=0.95)).ask()
    study = Study(HEAT, solver=CUQB(careful=0.95))
    for a in (0.9, 1.0):
        study.add({"a": a, "b": 1.0}, measured({"a": a, "b": 1.0}))
    with pytest.raises(SettingError, match=r"tell at least 2 measurements, one of which does: study\.add\(x, y\)"):
        study.ask()
    with read_as(TERMINAL), pytest.raises(SettingError, match=r"one of which does: pied add FILE TABLE$"):
        study.ask()


def test_it_has_no_first_design_and_keeps_to_given_settings() -> None:
    study = careful()
    assert study.initial == 0
    trial = study.ask(given={"a": 0.2})
    assert trial.x["a"] == 0.2
    assert measured(dict(trial.x))["w"] <= 0.6


def test_a_probability_that_is_none_is_refused() -> None:
    with pytest.raises(SettingError, match=r"careful is a probability from 0\.5 to 1"):
        CUQB(careful=95)
    several = Problem({"a": (0, 1)}, ["y"], maximize={"p": "y", "q": "a"}, noise=0)
    with pytest.raises(SettingError, match="careful trials need one objective"):
        Study(several, solver=CUQB(careful=0.9))


def test_where_numbers_break_down_known_settings_are_proposed_not_some_that_fill_space() -> None:
    study = careful()
    run = study.solver.start(HEAT, Stream(0))
    proposal = run._fill(study.data, Stream(0), "singular", None)
    at = HEAT.named_x(HEAT.natural(proposal.u))
    assert dict(at) == pytest.approx({"a": 0.15, "b": 0.3})  # the best of those that meet the limit
    assert proposal.why.rung == "known settings: singular"
    with pytest.raises(SettingError, match="no settings beside the measured ones"):
        run.spread_out(run.scene(4, study.data, None, Stream(0)))
