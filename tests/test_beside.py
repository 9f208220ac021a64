"""Points off the bounds that a best point lies on."""

from typing import Any

import pytest
import torch

from pied import Problem, Trial, solve
from pied.believe import Believer
from pied.beside import NEAR, STEP, off_bounds
from pied.models import Model
from tiny import fast, points

ALL = torch.tensor([True, True, True])


def test_each_bound_that_was_never_left_is_left_by_itself():
    u = torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64)
    expected = torch.tensor([[STEP, 0.4, 1.0], [0.0, 0.4, 1.0 - STEP]], dtype=torch.float64)
    assert torch.equal(off_bounds(u, u[None], ALL), expected)


def test_a_told_point_near_by_is_enough_and_one_far_away_is_not():
    u = torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64)
    near = u + torch.tensor([STEP, -NEAR, 0.0], dtype=torch.float64)
    far = u + torch.tensor([0.0, 2 * NEAR, -STEP], dtype=torch.float64)
    left = off_bounds(u, torch.stack([u, near, far]), ALL)
    assert torch.equal(left, torch.tensor([[0.0, 0.4, 1.0 - STEP]], dtype=torch.float64))


def test_what_no_output_depends_on_is_not_doubted():
    u = torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64)
    assert not len(off_bounds(u, u[None], torch.tensor([False, True, False])))


def _corner(**words: Any) -> Problem:
    """Three variables, one output that sees two of them: the best is at (2, 1, 0)."""
    stated: dict[str, Any] = {
        "variables": {"a": (0.0, 2.0), "b": (0.0, 1.0), "c": (0.0, 1.0)},
        "outputs": ["y"],
        "inputs": {"y": ["a", "b"]},
        "blackbox": lambda x: 3 * x.a + 2 * x.b,
        "maximize": "y - c",
        "noise": 0,
    }
    return Problem(**(stated | words))


def _probes(problem: Problem, **words: Any) -> list[Trial]:
    straight = Believer(Model(kernels=("squared exponential",), trends=("linear",), warps=("none",)))
    trials = solve(problem, 14, solver=fast(believer=straight, **words), seed=0).trials
    return [trial for trial in trials if trial.why.aim == "probe"]


def test_the_best_corner_is_left_along_each_variable_of_an_output():
    assert sorted(points(_probes(_corner()))) == [(2.0 - 2 * STEP, 1.0, 0.0), (2.0, 1.0 - STEP, 0.0)]


def test_probes_can_be_turned_off_and_noise_needs_none():
    assert not _probes(_corner(), probe=False)
    assert not _probes(_corner(noise=0.1))


def test_a_probe_breaks_no_white_constraint():
    (probe,) = points(_probes(_corner(subject_to=["a >= 1.99"])))
    assert probe == pytest.approx((2.0, 1.0 - STEP, 0.0))
