"""Noise: where it is worth measuring, what does not fit, and what can be said of it."""

import numpy as np
import pytest

from pied import CUQB, Problem, Study

WHITE = "exp(-((x - 0.25)/0.1)**2) + 0.8*exp(-((x - 0.75)/0.15)**2)"
"""An objective that is known exactly, with its better basin at 0.25."""


def basins(limit: float = 0.0) -> Problem:
    """Two basins under one limit on a noisy output."""
    return Problem({"x": (0, 1)}, ["y"], maximize=WHITE, subject_to={"limit": f"y >= {limit}"}, noise=0.1)


def wrong_by_chance(solver: CUQB | None = None) -> Study:
    """A study that is fairly sure that the better basin breaks the limit: by some three of its deviations."""
    study = Study(basins(), solver=solver, seed=1)
    for x in np.linspace(0.02, 0.98, 25):
        study.add({"x": x}, {"y": 1.6 * (x - 0.25) - 0.2 + 0.1 * (-1) ** round(25 * x)}, anyway=True)
    return study


@pytest.mark.slow
def test_a_certain_optimum_is_not_measured_again_while_wider_bounds_promise_more() -> None:
    study = wrong_by_chance()
    for _ in range(3):  # one of three would be a verification, which has nothing to verify
        trial = study.ask()
        assert abs(trial.x["x"] - 0.75) > 0.1
        study.tell(trial, {"y": 1.6 * (trial.x["x"] - 0.25) - 0.02})
    assert study.trials[-1].why.optimistic is not None  # the gap is that of the plain bounds


@pytest.mark.slow
def test_without_widening_the_certain_optimum_is_measured() -> None:
    """The mend is the widening: the same study without it stays where nothing can be learned."""
    study = wrong_by_chance(CUQB(widen=False, verify_every=None))
    assert study.ask().x["x"] == pytest.approx(0.75, abs=0.03)
