"""The paper's search: local solves in step are the solves alone."""

import threading

import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import minimize

from pied.search.penalty import minimize_in_step


def bowls(U: ndarray) -> tuple[ndarray, ndarray]:
    """A rippled bowl, many local minima."""
    value = ((U - 0.6) ** 2).sum(1) + 0.1 * np.cos(9.0 * U).sum(1)
    return value, 2.0 * (U - 0.6) - 0.9 * np.sin(9.0 * U)


def test_solves_in_step_end_where_solves_alone_end() -> None:
    starts = np.random.default_rng(0).random((7, 3))
    sizes = []

    def evaluate(U: ndarray) -> tuple[ndarray, ndarray]:
        sizes.append(len(U))
        return bowls(U)

    ends, heights = minimize_in_step(evaluate, starts)
    for start, end, height in zip(starts, ends, heights, strict=True):
        alone = minimize(
            lambda u: tuple(each[0] for each in bowls(u[None])), start, jac=True, method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * 3,
        )  # fmt: skip
        assert end == pytest.approx(alone.x, abs=1e-12)
        assert height == pytest.approx(alone.fun, abs=1e-12)
    assert sizes[0] == 7, "the first round asks for all starts at once"
    assert sizes == sorted(sizes, reverse=True), "a solve that has ended asks for nothing more"


def test_a_failing_evaluation_reaches_the_caller_and_leaves_no_thread() -> None:
    calls = []

    def evaluate(U: ndarray) -> tuple[ndarray, ndarray]:
        calls.append(len(U))
        if len(calls) == 3:
            raise FloatingPointError("no value here")
        return bowls(U)

    before = threading.active_count()
    with pytest.raises(FloatingPointError, match="no value here"):
        minimize_in_step(evaluate, np.random.default_rng(1).random((3, 2)))
    assert threading.active_count() == before
