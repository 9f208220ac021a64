"""Paired tests of solvers over problems and seeds, corrected for the number of comparisons."""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray
from scipy.stats import wilcoxon

from pied.shapes import Float64

SMALLEST_REGRET = 1e-12
"""Smaller regrets are rounding error and count as equal."""


@dataclass(frozen=True)
class Comparison:
    """One solver against another."""

    problem: str
    rival: str
    pairs: int
    ratio: float
    """Median ratio of the regret to the rival's; below 1 is better."""
    wins: int
    losses: int
    p: float
    """Two-sided, Holm-corrected over all comparisons of the table."""


def paired(a: Float64[ndarray, "n"], b: Float64[ndarray, "n"]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test on the logarithms of regrets; 1 if all are equal.

    Infinite regrets (nothing feasible found) rank above all finite ones.
    """
    x, y = _logarithms(np.stack([a, b]))
    return 1.0 if np.all(x == y) else float(wilcoxon(x, y).pvalue)


def holm(p: Float64[ndarray, "k"]) -> Float64[ndarray, "k"]:
    """Apply Holm's correction: multiply the i-th smallest of k by k - i + 1, keep them increasing, at most 1."""
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def compared(
    regrets: Float64[ndarray, "w p s"], solvers: list[str], problems: list[str], reference: int = 0
) -> list[Comparison]:
    """Compare one solver with each other, on all problems together and on each of the named problems."""
    found: list[tuple[str, str, ndarray, ndarray]] = []
    for rival in range(len(solvers)):
        if rival != reference:
            found.append(("all", solvers[rival], regrets[reference].reshape(-1), regrets[rival].reshape(-1)))
    for place, problem in enumerate(problems):
        for rival in range(len(solvers)):
            if rival != reference:
                found.append((problem, solvers[rival], regrets[reference, place], regrets[rival, place]))
    if not found:
        return []
    p = holm(np.array([paired(a, b) for _, _, a, b in found]))
    return [
        Comparison(problem, rival, len(a), _ratio(a, b), int((_same(a) < _same(b)).sum()),
                   int((_same(a) > _same(b)).sum()), float(p[i]))
        for i, (problem, rival, a, b) in enumerate(found)
    ]  # fmt: skip


def _same(regrets: ndarray) -> ndarray:
    return np.maximum(regrets, SMALLEST_REGRET)


def _logarithms(regrets: Float64[ndarray, "two n"]) -> Float64[ndarray, "two n"]:
    """Return finite logarithms; an infinite regret counts as ten times the worst finite one."""
    finite = np.isfinite(regrets)
    worst = max(float(_same(regrets[finite]).max()), SMALLEST_REGRET) if finite.any() else 1.0
    return np.log10(np.where(finite, _same(regrets), 10.0 * worst))


def _ratio(a: ndarray, b: ndarray) -> float:
    x, y = _logarithms(np.stack([a, b]))
    return float(10.0 ** np.median(x - y))
