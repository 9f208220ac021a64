"""The benchmark of fronts: runs that were cut off, and the problem with its first objective only."""

import sys
from pathlib import Path

import numpy as np
import pytest

from pied import suite
from pied.rng import Stream

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fronts


def record(loop: str, volumes: list[float], seed: int = 0) -> dict:
    item = {"problem": "binh-korn", "loop": loop, "seed": seed, "budget": 40}
    return {"item": item, "size": {"d": 2, "m": 2, "n": 2, "budget": 40}, "cpu": [0.1], "volume": volumes}


def test_a_run_that_was_cut_off_counts_as_far_as_it_came_and_beside_pied_there():
    points = Stream(0).sobol(4, 2).tolist()
    begun = {"item": record("botorch", [])["item"], "begun": [[u, [0.1, 0.1]] for u in points]}
    course = fronts.Course(suite.front("binh-korn"))
    for u in points:
        course.add(np.array(u))
    came = course.volumes()[-1]
    slow = [came - 0.1] * 4 + [came + 0.1] * 36  # behind where the other was cut off, ahead at the end
    table = fronts.table(fronts.cases_of([record("pied", slow), begun]), 40)
    assert f"{100 * (1 - came):.2f} % (at 4)" in table
    assert f"**{100 * (1 - slow[-1]):.2f} %**" in table
    assert "| pied ahead | - | 0 of 1 |" in table


def test_of_two_runs_of_a_seed_the_longer_one_counts():
    short, long = record("pied", [0.5] * 3), record("pied", [0.5] * 40)
    short["item"] = {**short["item"], "budget": 3}
    (kept,) = fronts.cases_of([long, short])["binh-korn"]["pied"]
    assert len(kept["volume"]) == 40


@pytest.mark.parametrize("name", suite.sets["fronts"])
def test_the_first_objective_alone_keeps_its_values_and_all_limits(name):
    several = suite.front(name)
    alone = fronts.first_alone(several)
    X = several.problem.from_unit(Stream(0).sobol(3, several.problem.d))
    assert not alone.problem.has_front
    assert alone.problem.constraints == several.problem.constraints
    np.testing.assert_allclose(alone.truth(X), several.truth(X)[:, : several.problem.k])
