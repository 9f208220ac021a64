"""Random problems: the same seed gives the same problem, its optimum is correct, and each kind is as described."""

import json
from pathlib import Path

import numpy as np
import pytest

from pied import suite
from pied.errors import StatementError
from pied.rng import Stream
from pied.suite import generator
from pied.suite.optimum import Effort, best

DRAWS = Path(__file__).parent / "data" / "draws"
"""Optima found before, so that the tests need not search."""
EASY = {kind: {"d": 2, "m": 4 if kind == "calibration" else 2, "n": 1} for kind in suite.kinds}


@pytest.mark.parametrize("kind", suite.kinds)
def test_same_words_give_the_same_problem_to_the_last_bit(kind):
    U = Stream(1).sobol(64, 2)
    first = suite.random(11, kind, **EASY[kind])
    generator._drawn.cache_clear()
    second = suite.random(11, kind, **EASY[kind])
    assert first is not second
    assert json.dumps(first.whole.statement(), default=str) == json.dumps(second.whole.statement(), default=str)
    assert np.array_equal(first.truth(U, unit=True), second.truth(U, unit=True))
    assert first.name == second.name


@pytest.mark.slow
def test_the_seed_chooses_what_is_not_given():
    drawn = [suite.random(seed) for seed in range(40)]
    assert len({each.name.split("-")[0] for each in drawn}) >= 5
    assert {each.whole.d for each in drawn} >= {2, 3, 4}
    assert {each.whole.n for each in drawn} >= {0, 1, 2, 3}
    again = suite.random(7, drawn[7].name.split("-")[0])
    assert again is drawn[7]


@pytest.mark.parametrize("kind", suite.kinds)
@pytest.mark.parametrize("d", [1, 5, 8])
def test_sizes_are_those_asked_for(kind, d):
    n = 0 if d == 1 else 2
    drawn = suite.random(3, kind, d=d, m=3, n=n)
    assert (drawn.whole.d, drawn.whole.m, drawn.whole.n) == (d, 3, n)
    assert drawn.feasible_fraction > 1e-3


def test_what_no_draw_can_have_is_refused_in_words():
    with pytest.raises(StatementError, match="Did you mean 'polynomial'"):
        suite.random(1, "polynomials")
    with pytest.raises(StatementError, match="1 to 8 variables"):
        suite.random(1, "gp", d=9)
    with pytest.raises(StatementError, match="1 to 4 outputs"):
        suite.random(1, "reactor", d=2, m=5)
    with pytest.raises(StatementError, match="at most 2 constraints"):
        suite.random(1, "reactor", d=2, m=1, n=3)
    with pytest.raises(StatementError, match="0 or larger"):
        suite.random(1, "gp", n=-1)


@pytest.mark.slow
def test_draws_cover_what_the_suite_lacks():
    drawn = [suite.random(seed) for seed in range(40)]
    kinds = {structure.kind for each in drawn for structure in each.whole.structure}
    assert kinds == {"white", "affine", "monotone", "general"}
    text = " ".join(each.note for each in drawn)
    assert all(word in text for word in ("affine", "squares", "product", "ratio", "logarithm", "min", "max"))
    outside = [each for each in drawn if not bool(each.whole.active.any(0).all())]
    own = [each for each in drawn if not bool(each.whole.active.all())]
    assert len(outside) >= 5
    assert len(own) >= 15
    widths = np.log10(np.concatenate([each.whole.bounds[:, 1] - each.whole.bounds[:, 0] for each in drawn]))
    assert float(widths.min()) < -4
    assert float(widths.max()) > 4
    assert any(variable.log for each in drawn for variable in each.whole.variables.values())
    fractions = [each.feasible_fraction for each in drawn if each.whole.n]
    assert min(fractions) < 0.02
    assert max(fractions) > 0.3
    assert any(each.whole.minimizes for each in drawn)
    assert not all(each.whole.minimizes for each in drawn)


@pytest.mark.slow
@pytest.mark.parametrize("kind", suite.kinds)
@pytest.mark.parametrize("seed", [1, 2])
def test_zooming_in_on_the_truth_finds_nothing_better(kind, seed):
    """An oracle of another kind: no slopes, only ever smaller boxes around the best points of a large pool."""
    drawn = suite.random(seed, kind, cache_in=DRAWS)

    def merit(U):
        f = drawn.truth(U, unit=True)
        return np.where((f[:, 1:] >= 0).all(-1), f[:, 0], -np.inf)

    U = Stream(31).sobol(2**15, drawn.whole.d)
    values = merit(U)
    centres = U[np.argsort(-values)[:16]]
    top = float(values.max())
    for turn in range(24):
        around = Stream(32).at(turn).normal(16, 64, drawn.whole.d) * 0.1 * 0.6**turn
        near = np.concatenate([centres[:, None], np.clip(centres[:, None] + around, 0, 1)], 1)
        values = merit(near.reshape(-1, drawn.whole.d)).reshape(16, 65)
        centres = near[np.arange(16), values.argmax(-1)]
        top = max(top, float(values.max()))
    unit = abs(drawn.best - drawn.median)
    assert top <= drawn.best + 1e-9 * unit
    if drawn.whole.d <= 2:
        assert top >= drawn.best - 1e-2 * unit


@pytest.mark.slow
def test_search_finds_the_stored_optimum_again():
    generator._drawn.cache_clear()
    stored, fresh = suite.random(2, "reactor", cache_in=DRAWS), suite.random(2, "reactor")
    assert fresh.known.value == pytest.approx(stored.known.value, rel=1e-9)
    assert "searches of the whole box agree" in fresh.known.source


def test_found_optima_are_kept_in_a_folder(tmp_path):
    words = {"d": 1, "m": 1, "n": 0, "cache_in": tmp_path}
    known = suite.random(5, "polynomial", **words).known
    (file,) = tmp_path.iterdir()
    generator._drawn.cache_clear()
    stored = json.loads(file.read_text())
    stored["source"] = "read from the folder"
    file.write_text(json.dumps(stored))
    again = suite.random(5, "polynomial", **words).known
    assert again.source == "read from the folder"
    assert (again.value, dict(again.x)) == (known.value, dict(known.x))


def test_the_optimum_is_searched_once_for_all_forms_of_a_draw(monkeypatch):
    drawn = suite.random(2, "reactor", d=1, m=1, n=0)
    known = drawn.known
    monkeypatch.setattr(generator, "_found", None)  # a second search would fail
    assert drawn.told("black").known is known
    assert drawn.told(noise=0.1).known is known


def test_a_draw_can_be_told_in_every_form():
    drawn = suite.random(4, "separation", d=3, m=2, n=1)
    for structure in ("full", "paper", "black"):
        told = drawn.told(structure, noise=0.0)
        x = told.problem.named_x(told.problem.bounds.mean(-1))
        assert np.isfinite(told.problem.evaluate(x)).all()
    noisy = drawn.told(noise=1e-3).problem
    assert not np.array_equal(noisy.evaluate(x), noisy.evaluate(x))


@pytest.mark.slow
def test_brute_force_finds_the_optima_of_the_suite():
    for name in ("bazaraa", "rosen-suzuki", "ex212", "styblinski-tang"):
        benchmark = suite[name]
        search = Effort(pool=4096, starts=64, steps=60, polished=4, searches=1)
        found = best(lambda U, b=benchmark: b.truth(U, unit=True), benchmark.whole.d, stream=Stream(12), effort=search)
        assert found is not None
        assert found.value == pytest.approx(benchmark.best, rel=1e-8)


def test_brute_force_climbs_to_a_ridge_and_says_when_nothing_is_feasible():
    ridge = best(lambda U: np.stack([U[:, 0] + U[:, 1], 1.5 - 2 * U[:, 0]], -1), 2, stream=Stream(1), pieces=2)
    assert ridge is not None
    assert ridge.value == pytest.approx(1.5 - 2 / 6, abs=1e-9)  # where both are equal, at the upper bound of the second
    nothing = best(
        lambda U: np.stack([U[:, 0], U[:, 0] - 2], -1), 1, stream=Stream(1), effort=Effort(searches=1, steps=20)
    )
    assert nothing is None
