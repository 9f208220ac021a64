"""Random streams: equal labels give equal numbers, other labels others, and global generators stay unchanged."""

import numpy as np
import pytest
from scipy import stats

from pied.rng import Stream, fresh_seed
from pied.sobol import scrambled


def test_same_labels_give_the_same_numbers_in_any_order():
    stream = Stream(7)
    late = stream.at("trial", 17).uniform(5)
    stream.at("trial", 3).uniform(5)
    assert np.array_equal(Stream(7).at("trial").at(17).uniform(5), late)


def test_a_stream_is_a_place_and_drawing_does_not_move_it():
    stream = Stream(7).at("initial")
    assert np.array_equal(stream.normal(4), stream.normal(4))
    assert np.array_equal(stream.uniform(8)[:3], stream.uniform(3))


@pytest.mark.parametrize("other", [Stream(8), Stream(7, ("1",)), Stream(7, (1, 1)), Stream(7, (11,))])
def test_other_labels_give_other_numbers(other):
    assert not np.isclose(Stream(7, (1,)).uniform(100), other.uniform(100)).any()


def test_streams_with_neighbouring_labels_are_uncorrelated():
    numbers = np.stack([Stream(0).at("trial", k).normal(4000) for k in range(12)])
    correlations = np.corrcoef(numbers)[np.triu_indices(12, 1)]
    assert abs(correlations).max() < 4.5 / np.sqrt(4000)  # 66 pairs: 4.5 standard errors


def test_numbers_have_the_shape_dtype_and_law_asked_for():
    uniform, normal = Stream(1).uniform(200, 50), Stream(1).normal(200, 50)
    assert uniform.shape == normal.shape == (200, 50)
    assert uniform.dtype == normal.dtype == np.float64
    assert stats.kstest(uniform.ravel(), "uniform").pvalue > 1e-3
    assert stats.kstest(normal.ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("points", [1, 2, 3, 64, 100])
def test_sobol_points_fill_the_cube_more_evenly_than_chance(points):
    U = Stream(2).at("screen").sobol(points, 3)
    assert U.shape == (points, 3)
    assert ((U >= 0) & (U < 1)).all()
    assert np.array_equal(U, Stream(2).at("screen").sobol(points, 3))
    if points == 64:  # each of 64 slices of every axis holds exactly one point
        assert all(len(set((64 * U[:, i]).astype(int).tolist())) == 64 for i in range(3))


@pytest.mark.parametrize("d", [1, 2, 24, 25, 60])
def test_sobol_points_are_scipys(d):
    theirs = stats.qmc.Sobol(d, scramble=True, rng=np.random.default_rng(4)).random_base2(5)
    assert np.array_equal(scrambled(32, d, np.random.default_rng(4)), theirs)


def test_more_sobol_points_begin_with_the_fewer_ones():
    assert np.array_equal(Stream(2).sobol(100, 4)[:37], Stream(2).sobol(37, 4))


def test_sobol_normals_are_finite_and_normal():
    Z = Stream(3).sobol_normal(4096, 24)
    assert np.isfinite(Z).all()
    assert np.abs(Z.mean(0)).max() < 1e-3
    assert np.abs(Z.var(0) - 1).max() < 1e-2


def test_the_global_generator_is_neither_read_nor_changed():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    first = Stream(5).sobol_normal(16, 2), Stream(5).uniform(3), Stream(5).normal(3)
    assert (np.random.get_state()[1] == before).all()
    np.random.seed(1)
    again = Stream(5).sobol_normal(16, 2), Stream(5).uniform(3), Stream(5).normal(3)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_fresh_seeds_differ():
    assert len({fresh_seed() for _ in range(20)}) == 20
