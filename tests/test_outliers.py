"""Gross errors of noisy outputs hardly count in a robust belief; clean values all count."""

import numpy as np
import pytest

from pied.gp import GP, Model
from pied.rng import Stream

U = Stream(1).sobol(30, 2)
TRUTH = np.sin(3 * U[:, 0]) + U[:, 1]
NOISY = TRUTH + 0.03 * Stream(2).normal(30)


@pytest.fixture(scope="module")
def gross() -> np.ndarray:
    values = NOISY.copy()
    values[14] += 1.0
    return values


@pytest.mark.slow
@pytest.mark.parametrize("noise", [None, 0.03])
def test_a_gross_error_is_found_and_hardly_counts(gross, noise) -> None:
    words = {"noise": [noise], "model": Model(uneven=False)}
    before = GP.fit(U[:14], NOISY[:14, None], **words).choices
    plain, robust = (GP.fit(U, gross[:, None], **words, previous=before, robust=each) for each in (False, True))
    assert plain.scatter is None
    assert np.flatnonzero(robust.scatter[0] > 1).tolist() == [14]
    miss, less = (np.abs(gp.unwarp(gp.moments(U[14:15])[0])[0, 0] - TRUTH[14]) for gp in (plain, robust))
    assert less < min(0.1, miss)


@pytest.mark.slow
def test_clean_values_and_exact_outputs_are_left_alone(gross) -> None:
    assert GP.fit(U, NOISY[:, None], noise=[None], robust=True).scatter is None
    assert GP.fit(U, gross[:, None], noise=[0.0], robust=True).scatter is None


@pytest.mark.slow
def test_a_repetition_that_agrees_makes_it_count_again(gross) -> None:
    twice = np.append(gross, gross[14] + 0.02)[:, None]
    robust = GP.fit(np.concatenate([U, U[14:15]]), twice, noise=[0.03], robust=True)
    assert robust.scatter is None or robust.scatter[0, 14] == 1
