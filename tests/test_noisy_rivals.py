"""The comparison with noise, `benchmarks/noisy_rivals.py`."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from tiny import few

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
rivals = importlib.import_module("noisy_rivals")
composite = importlib.import_module("composite")
spaces = importlib.import_module("spaces")


def record(loop, best, value, broken=0.0, known=10.0, problem="burn-out", seed=0):
    """Return a run that found and recommended some values."""
    at = {"best": best, "recommended": None if value is None else {"value": value, "broken": broken}}
    item = {"set": "rough", "problem": problem, "seed": seed, "loop": loop}
    made = {"code": "c", "commit": "c", "command": "x", "machine": "m", "date": "d", "version": "v"}
    return {"item": item, "found": [at, at], "unit": 4.0, "known": known, "spent": 1.0, "made": made}


def test_regrets_are_in_units_of_the_objective():
    runs = {"pied": record("pied", 9.0, 8.0), "botorch": record("botorch", 10.0, 9.0, broken=0.02)}
    found = rivals.regrets(runs, 1)
    assert found["pied"] == (0.25, 0.5, False)
    assert found["botorch"] == (0.0, 1.0, True)


def test_without_anything_to_compare_with_all_is_lost():
    runs = {loop: record(loop, None, 1.0, known=None) for loop in rivals.LOOPS}
    assert rivals.regrets(runs, 0)["pied"] == (1.0, 1.0, False)


def test_without_an_optimum_the_best_of_both_is_the_reference():
    runs = {"pied": record("pied", 9.0, 9.0, known=None), "botorch": record("botorch", None, None, known=None)}
    found = rivals.regrets(runs, 0)
    assert found["pied"] == (0.0, 0.0, False)
    assert found["botorch"] == (1.0, 1.0, True)


def test_the_page_counts_only_pairs():
    records = [record(loop, 9.0, 9.0 - (loop == "botorch")) for loop in rivals.LOOPS]
    text = rivals.page([*records, record("pied", 1.0, 1.0, seed=1)])
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| rough | burn-out")]
    assert [row[2:4] for row in rows] == [["pied", "1"], ["botorch", "1"]]
    assert [row[-1].rstrip(" |") for row in rows] == ["1", "0"]  # ahead


@pytest.mark.slow
@pytest.mark.parametrize("kind", few(["battery", "network"], 1))
def test_a_simulator_has_noise_of_a_fiftieth_of_its_spread_and_a_solution_everywhere(kind):
    benchmark, pool = rivals.stated("simulators", f"{kind}:0", 0)
    assert np.isfinite(pool).all()
    problem = benchmark.problem
    x = problem.named_x(problem.from_unit(np.full((1, problem.d), 0.5))[0])
    measured = np.array([problem.evaluate(x) for _ in range(60)])
    away = (measured - np.array(benchmark.outputs(problem.point(x)[None])[0])) / np.array(benchmark.noise)
    assert np.abs(away.mean(0)).max() < 0.6
    assert np.all((away.std(0) > 0.6) & (away.std(0) < 1.4))


@pytest.mark.slow
def test_both_loops_measure_the_same_noise_at_the_initial_points(monkeypatch):
    told = {}
    monkeypatch.setattr(rivals.composite, "recommended", lambda *given: None)
    monkeypatch.setattr(rivals.honesty, "usual_budget", lambda benchmark: 2 * benchmark.whole.d + 1)
    for loop in rivals.LOOPS:
        keep = told.setdefault(loop, [])
        monkeypatch.setattr(rivals.Judged, "judge", lambda self, at, keep=keep: keep.append([t.y for t in self.told]))
        rivals.run({"set": "rough", "problem": "burn-out", "seed": 0, "loop": loop})
    assert len(told["pied"][-1]) == 7
    assert told["pied"] == told["botorch"]


@pytest.mark.slow
def test_botorch_recommends_the_best_point_whose_limits_hold():
    pytest.importorskip("botorch")
    benchmark, _ = rivals.stated("rough", "growing-noise", 0)
    problem = benchmark.problem
    told = []
    for u in np.random.default_rng(0).random((25, problem.d)):
        x = problem.named_x(problem.from_unit(u[None])[0])
        y = benchmark.outputs(problem.point(x)[None])[0]
        f = [float(np.ravel(value)[0]) for value in problem.g(problem.point(x)[None], y[None, None])]
        told.append(spaces.Told(x, y.tolist(), f))
    fine = [each for each in told if min(each.f[1:], default=0.0) >= 0]
    found = composite.recommended(benchmark, told, 0)
    place = next(each for each in told if each.x == found)
    assert place in fine
    assert place.f[0] >= np.median([each.f[0] for each in fine])
