"""The functions of a problem under functions drawn from the belief, many at once."""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.bounds.composite import Composite
from pied.bounds.stack import Stack, finite_slopes
from pied.gp import Paths
from pied.shapes import Float64


@dataclass(frozen=True, eq=False)
class Drawn:
    """g(x, h_s(x)) for L drawn h_s; the last coordinate says which, so that all are searched as one batch."""

    composite: Composite
    """Of the belief from which the functions are drawn."""
    paths: Paths

    def at(self, U: Float64[ndarray, "L d"]) -> Float64[ndarray, "L w"]:
        """Return points with the coordinate that says which draw each belongs to: the first to the first, and so on."""
        return np.concatenate([U, (np.arange(len(U))[:, None] + 0.5) / self.paths.count], 1)

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.composite.problem.k

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that are known exactly."""
        return self.composite.problem.white

    def values(self, Z: Float64[ndarray, "b w"]) -> Float64[ndarray, "b k"]:
        """Return all functions."""
        return self.values_and_slopes(Z)[0]

    def outputs(self, Z: Float64[ndarray, "b w"]) -> Float64[ndarray, "b m"]:
        """Return the drawn outputs, natural units."""
        U, which = self._split(Z)
        return self.composite.physical(self.paths.values_and_slopes(U, which)[0])

    def _split(self, Z: Float64[ndarray, "b w"]) -> tuple[Float64[ndarray, "b d"], ndarray]:
        return Z[:, :-1], np.minimum((Z[:, -1] * self.paths.count).astype(int), self.paths.count - 1)

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, Z: Float64[ndarray, "b w"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k w"]]:
        """Return all functions and their slopes; that by the last coordinate is 0, so that a search leaves it."""
        problem = self.composite.problem
        U, which = self._split(Z)
        W, by_W = self.paths.values_and_slopes(U, which)
        stack = Stack("outcome", tuple(range(problem.k)), W[None])
        X = problem.from_unit(U)
        G, back = problem.traced(X, self.composite.physical(stack.W, stack), stack.which)
        by_x, by_Y = back(np.ones_like(G))
        by_outputs = (by_Y if stack.bend is None else by_Y * stack.bend)[:, 0].swapaxes(0, 1)
        by_u = problem.by_axes(by_x).swapaxes(0, 1) * problem.unit_slopes(X)[:, None] + by_outputs @ by_W
        return G[:, 0].T, finite_slopes(np.concatenate([by_u, np.zeros_like(by_u[..., :1])], -1))
