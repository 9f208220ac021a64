"""The counts of `benchmarks/campaigns.py`: hand-made records, and the truth of campaigns that are drawn."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
campaigns = importlib.import_module("campaigns")
Campaign = importlib.import_module("laboratory").Campaign


def record(loop: str, seed: int, regret: float, **words: Any) -> dict[str, Any]:
    """One run that recommended the same settings at every stage."""
    said = {
        "recommends": True, "told": True, "few": False, "inside": True, "width": 1.0, "regret": regret, "excess": 0.0,
        "feasible": True, "limits": [[0.97, False], [0.999, True]], "gap": 0.5, "rule": "",
    }  # fmt: skip
    item = {"problem": "campaign", "seed": seed, "loop": loop, "budget": 24, "impossible": False}
    made = {"version": "0", "commit": "c", "code": "d", "command": "x", "machine": "m", "date": "2026-11-19"}
    found = {"said": [{"t": t, **said} for t in (8, 16, 24)], "proposals": [{"aim": "explore", "excess": 0.1}] * 7}
    return {"item": item, "made": made, "old": 5, "status": "running", "forecasts": [], **found, **words}


def test_forecasts_hold_if_what_was_forecast_came_within_the_range():
    forecast = {"t": 10, "wanted": 1.0, "fewest": 2, "most": 6, "took": 4}
    assert campaigns.is_held(forecast, 14) is True
    assert campaigns.is_held(forecast | {"took": 7}, 14) is False
    assert campaigns.is_held(forecast | {"took": None}, 14) is False
    assert campaigns.is_held(forecast | {"took": None}, 5) is None
    assert campaigns.is_held(forecast | {"took": 9, "most": None}, 14) is True


def test_the_page_compares_the_same_campaigns_and_counts_what_was_stated():
    ours = [record("pied", seed, 0.1) for seed in (0, 2, 4)]
    theirs = [record("optuna-gp", seed, 0.3) for seed in (0, 2)]
    shown = campaigns.page([*ours, *theirs])
    assert "| optuna-gp | 24 | 2 | 0.100 | 0.300 | 2, 0 |" in shown
    assert "| 8 | 3 | 3 of 3 | 3 of 6 | 0 of 3 | 3 of 3 | 0.100, 0.100 | 0 | 0 of 3 |" in shown
    assert "tolerance: 6 of 6." in shown


@pytest.mark.parametrize("seed", [0, 2])
def test_campaigns_can_be_met_and_impossible_ones_cannot(seed: int):
    usual, impossible = Campaign(seed), Campaign(seed, True)
    _, _, Y = usual._pool
    assert usual.excess(Y).min() < 0 < impossible.excess(Y).min()
    assert impossible.ranges == pytest.approx(usual.ranges)
    rng = np.random.default_rng(1)
    T, C = usual._settable(rng.random((2000, len(usual._draw["kinds"])))), usual._pool[1][:2000]
    Y = usual._raw(T, C)
    assert (usual.objective(T, C, Y)[usual.excess(Y) <= 0] <= usual.best).all()
    x = usual.named(T[0], C[0].tolist())
    value, excess, outputs = usual.truth(x)
    stated = usual.problem.g(np.array([usual.problem.codes(x)]), np.array([[list(outputs.values())]]))
    assert float(np.ravel(stated[0])[0]) == pytest.approx(value)
    assert (min(float(np.ravel(each)[0]) for each in stated[1:]) >= 0) == (excess <= 0)
