"""The counts of `benchmarks/honesty.py`: hand-made records with known coverage; a run is not changed by watching it."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
tables = importlib.import_module("honesty_tables")
honesty = importlib.import_module("honesty")
unseen = importlib.import_module("unseen")

from pied import suite  # noqa: E402  after the benchmarks, which set the number of threads
from pied.rng import Stream  # noqa: E402
from pied.study import Study  # noqa: E402


def said(stage="", gap=None, regret=0.0, violation=0.0, inside=(), probability=()):
    return {"t": 1, "stage": stage, "gap": gap, "regret": regret, "violation": violation, "feasible": True,
            "inside": list(inside), "probability": [list(each) for each in probability]}  # fmt: skip


def record(results=(), proposals=(), verdict=None, group="draws", problem="draw:0:cliff"):
    item = {"set": group, "kind": "cliff", "problem": problem, "noise": "exact", "start": "design", "seed": 0}
    return {"item": item, "results": list(results), "proposals": list(proposals), "verdict": verdict, "d": 2,
            "seconds": 0.1}  # fmt: skip


def test_coverage_is_counted_apart_for_the_first_ten_proposals():
    early = [{"outputs": [True, False], "objective": True, "limits": []}] * 10
    late = [{"outputs": [False, False], "objective": None, "limits": [True]}] * 2
    runs = [record(proposals=early + late)]
    assert tables.at_proposals(runs, "outputs", first=True) == (10, 20)
    assert tables.at_proposals(runs, "outputs", first=False) == (0, 4)
    assert tables.at_proposals(runs, "objective", first=True) == (10, 10)
    assert tables.at_proposals(runs, "objective", first=False) == (0, 0)
    assert tables.at_proposals(runs, "limits", first=False) == (2, 2)


def test_probabilities_are_compared_with_what_is_true():
    runs = [record([said(probability=[(0.995, True), (1.0, False), (0.99, True), (0.6, False), (0.3, False)])])]
    assert tables.calibration(runs, 0.99, 1.0) == (1, 2)
    assert tables.calibration(runs, 0.95, 0.99) == (1, 1)
    assert tables.calibration(runs, 0.5, 0.8) == (0, 1)


def test_gaps_and_stops_are_counted_by_the_true_shortfall():
    covered = record([said("1/3", gap=0.2, regret=0.1), said("end", gap=None, regret=0.5)])
    missed = record([said("1/3", gap=1e-4, regret=0.1), said("end", gap=1e-5, regret=1e-6)])
    broken = record([said("end", gap=1e-4, regret=-0.2, violation=0.1)])
    assert tables.gap_covers([covered, missed], "1/3") == (1, 2)
    assert tables.gap_covers([covered, missed], "end") == (2, 2)
    assert tables.told_gaps([covered, missed], "end") == (1, 2)
    assert tables.wrong_stops([covered, missed, broken]) == (2, 2)
    assert tables.solved([covered, missed, broken], 1e-4) == (1, 3)
    assert tables.at_recommendation([record([said("end", inside=[True, None, False]), said("", inside=[True])])]) == (
        1,
        2,
    )


def test_the_page_is_appended_with_its_origin(tmp_path):
    runs = [record([said("end", gap=0.1, regret=0.0)]), record(verdict=20, group="infeasible", problem="infeasible:x")]
    target = tmp_path / "honesty.md"
    for _ in range(2):
        tables.append(runs, target)
    text = target.read_text()
    assert text.count("## Honesty") == 2
    assert "commit" in text
    assert "| infeasible:x | exact | 1 of 1 | 1 within 31 | 20 |" in text


def test_recommendations_where_evaluations_fail_are_counted():
    failing = record([{**said("1/3"), "fails": True}, {**said("end"), "fails": False}], group="failing")
    other = record([{**said("end"), "fails": False}])
    assert tables.fails([failing, other]) == (1, 2)
    assert tables.fails([other]) == (0, 0)


@pytest.mark.parametrize("name", ["burn-out", "breakthrough"])
def test_a_quarter_of_the_box_fails_and_the_optimum_does_not(name):
    benchmark = suite[name]
    for seed in range(3):
        fails = honesty.failing_side(benchmark, seed)
        points = benchmark.whole.from_unit(Stream(1).sobol(512, benchmark.whole.d))
        share = np.mean([fails(benchmark.whole.named_x(x)) for x in points])
        assert 0.02 < share < 0.3
        assert not fails(benchmark.known.x)


@pytest.mark.parametrize("name", unseen.PLANTS)
def test_the_optimum_of_an_unseen_plant_is_feasible_and_not_beaten(name):
    benchmark, plant = unseen.benchmark_of(name), unseen.PLANTS[name]
    value, *limits = benchmark.truth(dict(benchmark.known.x))[0]
    assert value == pytest.approx(plant.best, rel=1e-9)
    assert (np.array(limits) >= -1e-9 * benchmark.scales[1:]).all()
    d, stream = benchmark.whole.d, Stream(2).at(name)
    best = benchmark.whole.to_unit(np.array(plant.at))
    away = 10.0 ** -(1 + 5 * stream.at("sizes").uniform(2000, 1)) * stream.at("near").normal(2000, d)
    U = np.concatenate([stream.at("anywhere").uniform(4000, d), np.clip(best + away, 0.0, 1.0)])
    F = benchmark.truth(benchmark.whole.from_unit(U))
    is_feasible = (F[:, 1:] >= 0).all(1)
    assert is_feasible[:4000].mean() > 0.05
    assert F[is_feasible, 0].max() <= plant.best + 1e-7 * benchmark.scales[0]


def test_old_rows_lie_in_a_cluster_or_along_a_line():
    benchmark = suite["burn-out"]
    for start, count in (("3 clustered", 3), ("50 clustered", 50), ("5 line", 5)):
        U = benchmark.whole.to_unit(honesty.old_rows(benchmark, start, 0))
        assert len(U) == count
        assert (np.sort(U.std(0))[:2] < (0.03 if "line" in start else 0.15)).all()
    assert len(honesty.old_rows(benchmark, "design", 0)) == 0


@pytest.mark.slow
def test_watching_a_run_does_not_change_it():
    benchmark = suite.random(11, "cliff", d=2, m=2, n=1)
    points = []
    for is_watched in (True, False):
        with Study(benchmark.problem, seed=0) as study:
            if is_watched:
                honesty.Watched(benchmark, 12).follow(study)
            else:
                study.run(12)
            points.append([list(trial.x.values()) for trial in study.trials])
    assert points[0] == points[1]


def test_noise_that_is_not_stated_is_none() -> None:
    benchmark = honesty.stated("gross-errors", "unstated", 0)
    x = benchmark.whole.from_unit(np.full((1, benchmark.whole.d), 0.4))[0]
    first, second = (np.array(list(benchmark.problem.evaluate(x))) for _ in range(2))
    assert benchmark.problem.noise == (None, None)
    np.testing.assert_allclose(first, second, rtol=1e-10)
    np.testing.assert_allclose(first, benchmark.outputs(x[None])[0], rtol=1e-10)
