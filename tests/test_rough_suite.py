"""Rough problems: optima that no pool beats, features that are really there, noise of the stated form, twins."""

from pathlib import Path

import numpy as np
import pytest

from pied import suite
from pied.errors import StatementError
from pied.rng import Stream
from pied.suite import generator, twins
from pied.suite.benchmark import GROSS
from pied.suite.rough import OWN_NOISE, searched

NAMES = suite.sets["rough"]
DRAWS = Path(__file__).parent / "data" / "draws"
"""Optima found before, so that the tests need not search."""
SMALL = {"d": 2, "m": 2, "n": 1}


def beaten_by(benchmark, U):
    """Return by how much the best feasible point of a pool beats the stated optimum, in units of the objective."""
    f = benchmark.truth(U, unit=True)
    fine = (f[:, 1:] >= 0).all(1)
    return (f[fine, 0].max(initial=-np.inf) - benchmark.best) / abs(benchmark.best - benchmark.median)


def around(benchmark, sizes=(0.1, 1e-2, 1e-4)):
    whole = benchmark.whole
    u = whole.to_unit(whole.point(dict(benchmark.known.x)))
    near = [u + size * Stream(7).at(i).normal(2000, whole.d) for i, size in enumerate(sizes)]
    return np.clip(np.concatenate(near), 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", suite.rough_kinds)
def test_a_seed_gives_the_same_rough_problem_and_no_pool_beats_its_optimum(kind):
    drawn = suite.random(11, kind, **SMALL, cache_in=DRAWS)
    U = Stream(3).sobol(2**13, 2)
    assert bool(drawn.is_strictly_feasible(dict(drawn.known.x))[0])
    assert beaten_by(drawn, U) < 1e-7
    assert beaten_by(drawn, around(drawn)) < 1e-7
    generator._drawn.cache_clear()
    again = suite.random(11, kind, **SMALL, cache_in=DRAWS)
    assert again is not drawn
    assert np.array_equal(again.truth(U, unit=True), drawn.truth(U, unit=True))


def roughest(kind, seed=4):
    """Return values of the first output along the diagonal, in its own unit, and the steps between them."""
    drawn = suite.random(seed, kind, d=2, m=2, n=0)
    t = np.linspace(0, 1, 20001)
    lines = [np.stack([t, t], -1), np.stack([t, 1 - t], -1), np.stack([t, 0 * t + 0.5], -1)]
    Y = [drawn.outputs(drawn.whole.from_unit(U))[:, 0] for U in lines]
    unit = np.concatenate(Y).std()
    return [y / unit for y in Y]


def test_rough_features_are_really_there():
    step = {kind: max(np.abs(np.diff(y)).max() for y in roughest(kind)) for kind in ("jump", "corner")}
    assert step["jump"] > 0.3
    assert step["corner"] < 0.1  # smooth, but fast
    forms = {suite.random(seed, "cliff", d=2, m=2, n=0).note for seed in range(12)}
    assert len(forms) >= 3
    U = Stream(3).sobol(2**14, 2)
    ridge = suite.random(4, "ridge", d=2, m=2, n=0).h.latents[0]
    above = ridge(U) - 0.6 * ridge.base(U)
    assert above.max() > 1.5  # standard deviations of the rest
    assert (above > ridge.size / 2).mean() < 0.05  # one percent of the range of the switch
    bend = max(np.abs(np.diff(y, 2)).max() / np.median(np.abs(np.diff(y, 2)) + 1e-12) for y in roughest("kink"))
    assert bend > 50
    basins = suite.random(4, "basins", d=2, m=2, n=1)
    assert basins.whole.structure[0].kind == "white"


def test_an_optimum_beside_a_cliff_is_frequent():
    beside = 0
    for seed in range(4):
        drawn = suite.random(seed, "cliff", d=2, m=2, n=0, cache_in=DRAWS)
        whole = drawn.whole
        u = whole.to_unit(whole.point(dict(drawn.known.x)))
        near = np.clip(u + 1e-6 * Stream(5).at(seed).normal(200, 2), 0, 1)
        lost = drawn.best - drawn.truth(near, unit=True)[:, 0]
        beside += bool(lost.max() > 1e-2 * abs(drawn.best - drawn.median))
    assert beside >= 1


@pytest.mark.slow
def test_the_search_finds_the_stored_optimum_of_a_cliff_again():
    stored, fresh = suite.random(11, "cliff", **SMALL, cache_in=DRAWS), suite.random(11, "cliff", **SMALL)
    assert fresh.known.value == pytest.approx(stored.known.value, rel=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_no_pool_beats_a_stated_optimum(name):
    benchmark = suite[name]
    assert benchmark.whole.d in (3, 4)
    assert bool(benchmark.is_strictly_feasible(dict(benchmark.known.x))[0])
    assert float(benchmark.regret(dict(benchmark.known.x))[0]) == pytest.approx(0, abs=1e-9 * abs(benchmark.best))
    assert beaten_by(benchmark, Stream(8).sobol(2**14, benchmark.whole.d)) < 1e-7
    assert beaten_by(benchmark, around(benchmark, (0.1, 1e-2, 1e-3, 1e-5))) < 1e-7


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_search_finds_the_stated_optimum_again(name):
    benchmark = suite[name]
    found = searched(benchmark)
    assert found is not None
    assert found.value == pytest.approx(benchmark.best, abs=1e-6 * abs(benchmark.best - benchmark.median))


@pytest.mark.parametrize("name", [name for name in NAMES if name in twins.INFEASIBLE or name in twins.JOINTLY])
def test_rough_twins_have_no_feasible_point(name):
    twin = suite.twin(name, infeasible=True if name in twins.INFEASIBLE else "jointly")
    f = twin.truth(Stream(9).sobol(2**15, twin.whole.d), unit=True)[:, 1:]
    assert f.min(1).max() < 0
    if name in twins.JOINTLY:
        assert (f.max(0) > 0).all()


def test_noise_grows_with_the_output_and_has_gross_errors():
    growing, gross = suite["growing-noise"].problem, suite["gross-errors"].problem
    small, large = ({"ph": ph, "temperature": 45.0, "time": 6.0} for ph in (3.1, 6.2))
    spread = [np.std([growing.evaluate(x)[0] for _ in range(60)]) for x in (small, large)]
    assert spread[1] > 5 * spread[0]
    x = dict(suite["gross-errors"].known.x)
    exact = suite["gross-errors"].outputs(suite["gross-errors"].whole.point(x)[None])[0]
    off = np.abs(np.array([gross.evaluate(x) for _ in range(150)]) - exact) / list(
        OWN_NOISE["gross-errors"]["noise"].values()
    )
    assert 0.005 < (off > 5).mean() < 0.1
    assert off.max() > GROSS / 2
    assert not suite.get("growing-noise", noise=0.1).growth
    with pytest.raises(StatementError, match="constant noise only"):
        suite["booth"].told(noise=1.0, outliers=0.1, declare_noise=True)
    with pytest.raises(StatementError, match="shares"):
        suite["booth"].told(noise=1.0, outliers=1.5)
