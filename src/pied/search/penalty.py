"""The paper's search: one penalized function, Boltzmann choice of starts, L-BFGS-B (section 5.3.2)."""

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread

import numpy as np
from numpy import ndarray

from pied.errors import NumericalError
from pied.rng import Stream
from pied.search.functions import Functions
from pied.search.optimum import SATISFIED, Optimum, optimum_at
from pied.shapes import Float64

Questions = SimpleQueue[tuple[int, ndarray | None]]
"""The number of a solve, and the point it needs; None: it has ended."""
Answers = SimpleQueue[tuple[float, ndarray] | None]
"""Value and slope; None: the solve must end."""

LEAST_DEVIATION = 1e-300  # avoids division by zero where all penalized values are equal


@dataclass(frozen=True)
class PenaltySearch:
    """Maximize f_0 - rho sum max(-f_i, 0) by local solves from a few starts."""

    pool: int = 8192
    """Sobol points screened (paper, table 3)."""
    starts: int = 3
    """Local solves (paper, table 3)."""
    temperature: float = 1.0
    """eta of the Boltzmann weights exp(eta z), z the standardized penalized values."""
    penalty: float = 1e5
    """rho, natural units (paper, table 3)."""
    keep_best: bool = False
    """Whether the best of the screened points is always a start, as in BoTorch, which the authors' scripts call; the
    paper's text draws every start."""

    def screen(self, stream: Stream, d: int, known: Float64[ndarray, "s d"]) -> Float64[ndarray, "b d"]:
        """Return the pool, which consists of Sobol points only."""
        return stream.at("pool").sobol(self.pool, d)

    @np.errstate(all="ignore")
    def solve(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        pool: Float64[ndarray, "b d"],
        known: Float64[ndarray, "s d"],
        stream: Stream,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Return the best result of the local solves."""
        f = functions.values(pool)
        merit = f[:, 0] - self.penalty * np.maximum(-f[:, 1:], 0.0).sum(1)
        merit = np.nan_to_num(merit, nan=np.nan_to_num(merit, nan=0.0).min())
        z = (merit - merit.mean()) / max(merit.std(ddof=1), LEAST_DEVIATION)
        from scipy.special import softmax

        weights = softmax(self.temperature * z)
        if not np.isfinite(weights).all():
            raise NumericalError("the penalized values of the pool are too large to be compared")
        draw = stream.at("starts").generator()
        if np.count_nonzero(weights) < self.starts:  # all but a few are so much worse that their weights are 0
            chosen = np.argsort(-merit)[: self.starts]
        else:
            chosen = draw.choice(len(pool), size=self.starts, replace=False, p=weights / weights.sum())
        if self.keep_best and merit.argmax() not in chosen:
            chosen[-1] = merit.argmax()

        def negative(U: ndarray) -> tuple[ndarray, ndarray]:
            value, slope = functions.values_and_slopes(U)
            weight = np.where(value < 0, self.penalty, 0.0)
            weight[:, 0] = 1.0
            return -(weight * value).sum(1), -(weight[:, :, None] * slope).sum(1)

        ends, heights = minimize_in_step(negative, pool[chosen])
        u = ends[heights.argmin()]
        f, _ = functions.values_and_slopes(u[None])
        satisfied = bool((f[0, 1:] >= -SATISFIED * scales[1:]).all())
        return optimum_at(u, f[0], scales, satisfied)


def minimize_in_step(
    evaluate: Callable[[ndarray], tuple[ndarray, ndarray]], starts: Float64[ndarray, "s d"]
) -> tuple[Float64[ndarray, "s d"], Float64[ndarray, "s"]]:
    """Minimize over the unit cube by L-BFGS-B from every start, with one evaluation for all of them per round.

    SciPy evaluates one point at a time, but three points cost hardly more than one. Each solve runs in its own thread
    and waits there for its values, so it takes the same steps as it would alone.

    Args:
        evaluate: Returns values and slopes at points; called from this thread only.
        starts: Points of the unit cube.

    Returns:
        The final points of the solves, and the values there.
    """
    from scipy.optimize import minimize

    asked: Questions = SimpleQueue()
    answers: list[Answers] = [SimpleQueue() for _ in starts]
    ends, heights = starts.copy(), np.full(len(starts), np.inf)
    failures: list[Exception] = []

    def solve(i: int) -> None:
        def ask(u: ndarray) -> tuple[float, ndarray]:
            asked.put((i, u.copy()))
            if (answer := answers[i].get()) is None:
                raise _Abandoned
            return answer

        try:
            found = minimize(ask, starts[i], jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * starts.shape[1])
            ends[i], heights[i] = np.clip(found.x, 0.0, 1.0), found.fun
        except Exception as error:
            failures.append(error)
        finally:
            asked.put((i, None))

    threads = [Thread(target=solve, args=(i,), daemon=True) for i in range(len(starts))]
    for thread in threads:
        thread.start()
    try:
        _serve(evaluate, asked, answers)
    finally:
        for each in answers:
            each.put(None)
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return ends, heights


def _serve(evaluate: Callable[[ndarray], tuple[ndarray, ndarray]], asked: Questions, answers: list[Answers]) -> None:
    """Answer the questions of all solves, one round at a time, until every solve has ended."""
    under_way = len(answers)
    while under_way:
        questions = sorted((asked.get() for _ in range(under_way)), key=lambda question: question[0])
        points = {i: u for i, u in questions if u is not None}
        under_way = len(points)
        if points:
            for i, value, slope in zip(points, *evaluate(np.stack(list(points.values()))), strict=True):
                answers[i].put((float(value), slope))


class _Abandoned(Exception):
    """Raised in solves that wait for an evaluation that failed, to end them."""
