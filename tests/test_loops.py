"""The loops that are compared: the same functions for each of them, and a tiny run."""

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import suite
from pied.problem.program import Program
from pied.rng import Stream
from tiny import few

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
composite, loops, written = (importlib.import_module(name) for name in ("composite", "loops", "written"))


@pytest.mark.parametrize("name", written.WRITTEN)
def test_functions_in_numpy_are_those_of_the_suite_and_are_traced(name: str) -> None:
    made, known = written.stated(name).whole, suite[name].whole
    X = made.from_unit(Stream(0).uniform(32, made.d))
    Y = suite[name].outputs(X)[None]
    assert made.constraints == known.constraints
    for ours, theirs in zip(made.g(X, Y), known.g(X, Y), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert all(isinstance(door, Program) for door in made._white_box.doors)


@pytest.mark.parametrize("name", written.MANY)
def test_problems_with_many_outputs_are_sums_that_are_met_exactly_at_the_optimum(name: str) -> None:
    made = written.stated(name)
    terms = made.whole.structure[0].terms
    assert terms is not None
    assert terms.outputs == tuple(range(made.whole.m))
    best = [made.known.x[each] for each in made.whole.variables] if made.known else []
    assert abs(made.truth(np.array([best]))[0, 0]) < 1e-6


@pytest.mark.parametrize("name", [*written.WRITTEN, *written.DRAWS, *written.MANY, *written.LARGE])
def test_functions_in_torch_are_the_same(name: str) -> None:
    torch = pytest.importorskip("torch")
    benchmark = written.stated(name)
    problem = benchmark.whole
    X = problem.from_unit(Stream(0).uniform(32, problem.d))
    Y = benchmark.outputs(X) * (1 + 0.01 * Stream(1).normal(8, 32, 1))
    for place, value in enumerate(problem.g(X, Y)):
        found = composite.in_torch(problem, place)(torch.tensor(X)[:, None], torch.tensor(Y)[:, :, None])
        np.testing.assert_allclose(found[..., 0].numpy(), np.broadcast_to(value, (8, 32)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "settings"), [("settings-1e5", 172_800), ("settings-1e6", 1_200_000)])
def test_a_problem_of_very_many_settings_has_its_optimum_where_it_says(name: str, settings: int) -> None:
    benchmark = written.stated(name)
    grid = benchmark.whole.grid
    assert math.prod(1 if each is None else len(each) for each in grid.places) == settings
    assert benchmark.normalized_regret(benchmark.known.x).item() == pytest.approx(0, abs=1e-12)
    assert benchmark.is_strictly_feasible(benchmark.known.x).all()
    assert 0 < benchmark.feasible_fraction < 1
    assert (benchmark._pool[:, 0] <= benchmark.best).all()


def item(loop: str, noisy: bool = False, problem: str = "booth", budget: int = 7) -> dict[str, Any]:
    """A run as data."""
    return {"problem": problem, "noisy": noisy, "loop": loop, "seed": 0, "budget": budget}


def made(loop: str, **words: Any) -> dict[str, Any]:
    """A record of a loop, made by hand."""
    words = {"size": {"d": 2, "m": 1, "n": 0, "initial": 5}, "until": [6, None], "error": None} | words
    origin = {"version": "0", "commit": "none", "code": "c", "command": "", "machine": "", "date": ""}
    return {"item": item(loop), "regret": [None, 0.1], "wall": [1.0], "spent": 1.0, "made": origin, **words}


def check(record: dict[str, Any]) -> None:
    """Two suggestions after the initial design of booth, and a regret that never rises."""
    assert record["error"] is None
    assert len(record["wall"]) == len(record["cpu"]) == 2
    assert len(record["best"]) == len(record["regret"]) == 7
    assert record["regret"] == sorted(record["regret"], reverse=True)


@pytest.mark.parametrize("noisy", [False, True])
def test_a_run_times_its_suggestions(noisy: bool) -> None:
    check(loops.run(item("pied", noisy)))


@pytest.mark.slow
@pytest.mark.parametrize("noisy", few([True, False], 1))
def test_the_loop_of_botorch_starts_from_the_same_design(noisy: bool) -> None:
    pytest.importorskip("botorch")
    found, ours = loops.run(item("botorch", noisy)), loops.run(item("pied", noisy))
    check(found)
    assert found["best"][:5] == ours["best"][:5]


@pytest.mark.slow
def test_a_problem_is_compared_with_its_infeasible_twin() -> None:
    pairs = loops.verdict(item("verdict", problem="williams-otto", budget=8))["pairs"]
    assert pairs
    assert all(len(pair) == 2 for pair in pairs)


def test_the_page_compares_medians_with_the_targets() -> None:
    records = [
        made("pied", cpu=[0.05, 0.2, 0.05]),
        made("botorch", cpu=[1.0, 1.0, 3.0]),
        {**made("verdict"), "pairs": [[0.1, 0.4], [0.1, 0.2]]},
    ]
    page = loops.page(records)
    assert "| times faster than BoTorch's loop, geometric mean | >= 15 | 20.0 | met |" in page
    assert "| <= 0.1 | 0.05 (booth, exact) | met |" in page
    assert "| an ask with a verdict pending over an ordinary one | <= 3 | 4 (booth) | missed |" in page
    assert "| booth | exact | 2 | 1 | 0 | 0.050 (0.200) | 1.000 (3.000) | - | - | 20 |" in page
    assert "| 6 / never / 1e-01 |" in page
    assert "not installed or not wanted: ax, optuna-gp" in page
