"""The small simulators of `benchmarks/simulators.py`, and the page about them."""

import importlib
import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
simulators = importlib.import_module("simulators")
beside = importlib.import_module("beside")


def test_faster_charging_is_quicker_and_hotter_and_plates_more():
    cell = simulators.drawn("battery", 0)
    slow, fast = cell((1.0, 3.8, 0.8, 4.1, 0.5)), cell((2.5, 3.8, 2.0, 4.1, 1.2))
    assert fast[0] < slow[0]
    assert fast[1] > slow[1]
    assert fast[2] < slow[2]


def test_one_rate_throughout_takes_as_long_as_the_charge_needs():
    cell = simulators.drawn("battery", 1)
    rate = 0.5
    minutes = cell((rate, 3.8, rate, 4.15, rate))[0]
    assert minutes == pytest.approx(60 * (simulators.END - simulators.START) / rate, rel=1e-6)


@pytest.mark.slow
def test_what_flows_into_a_network_flows_out_and_faster_pumps_raise_pressures():
    network = simulators.drawn("network", 0)
    speeds = np.full(4, 0.9)
    heads = network._heads(speeds)
    assert np.abs(network._surplus(heads, speeds)).max() < 1e-5
    assert network._pumped(heads, speeds).sum() == pytest.approx(network.demand.sum())
    low, high = network(speeds), network(speeds + 0.2)
    assert all(more > less for less, more in zip(low, high, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", simulators.KINDS)
def test_limits_can_be_met_and_are_not_met_everywhere(kind):
    simulator = simulators.drawn(kind, 2)
    met = [max(simulator.broken(y)) <= 0 for y in simulator.sampled(80)]
    assert 0 < sum(met) < len(met)
    assert simulator.stated().d == len(simulator.box)
    assert (len(met) < 60) == (kind == "network that fails")


@pytest.mark.slow
def test_both_methods_begin_at_the_same_points():
    pytest.importorskip("optuna")
    simulator = simulators.drawn("network", 0)
    words = simulator.stated(), simulator, simulator.broken, 0, 10
    ours, theirs = (beside.told_by(method, *words) for method in beside.METHODS)
    assert len(ours) == len(theirs) == 10
    assert np.array([x for x, _ in ours[:9]]) == pytest.approx(np.array([x for x, _ in theirs[:9]]))


@pytest.mark.slow
@pytest.mark.parametrize("method", beside.METHODS)
def test_failed_evaluations_count(method):
    if method != "pied":
        pytest.importorskip("optuna")
    simulator = simulators.drawn("network that fails", 0)
    told = beside.told_by(method, simulator.stated(), simulator, simulator.broken, 0, 10)
    assert len(told) == 10
    assert any(y is None for _, y in told)


def test_the_best_keeps_all_limits():
    told = [((0.0,), (5.0, 1.0)), ((0.1,), None), ((0.2,), (3.0, 2.0)), ((0.3,), (4.0, 1.0))]
    assert beside.best(told, lambda y: [y[1] - 1.5]) == 4.0
    assert beside.best(told[1:3], lambda y: [y[1] - 1.5]) == math.inf


def test_the_page_compares_runs_that_both_methods_made():
    made = {"version": "0", "code": "0", "machine": "one", "date": "today", "commit": "0", "command": "none"}
    ends = {("pied", 0): 10.0, ("Optuna GP", 0): 10.05, ("pied", 1): 12.0, ("Optuna GP", 1): 10.0, ("pied", 2): 1.0}
    records = [
        {
            "item": {"seed": seed, "problem": "battery", "method": method},
            "best": {"20": math.inf, "30": 2 * end, "40": end},
            "made": made,
            "spent": 1.0,
            "seconds": None,
        }
        for (method, seed), end in ends.items()
    ]
    page = simulators.page(records)
    assert "| battery | pied | 2 | 100.00 ± 0.00 | 100.00 ± 0.00 | 10.00 ± 10.00 | 1 | 1 |" in page
    assert "| battery | Optuna GP | 2 | 100.00 ± 0.00 | 100.00 ± 0.00 | 0.25 ± 0.25 | 2 | 1 |" in page
    assert len(simulators.items_of(2)) == len(list(product(range(2), simulators.KINDS, beside.METHODS)))
