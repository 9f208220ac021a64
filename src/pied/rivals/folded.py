"""Runs on the folded problem, for solvers that use function values only; the data come from the original problem."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pied.bounds import Believer
from pied.gp import Model
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.solvers.base import Proposal, Run

FOLDED_WARPS = ("none", "shifted log")
"""Without the plain logarithm: it is offered while all told values have one sign and would then exclude the other sign
for good, but the zero of a constraint is what matters."""


def folded_believer() -> Believer:
    """Return the default models without the warp that cannot cross zero."""
    return Believer(Model(warps=FOLDED_WARPS, plateaus=False, correlated="none"))


class FoldedRun(Run):
    """A run on the folded problem: told outputs become values of g, white functions stay white."""

    def __init__(self, problem: Problem, start: Callable[[Problem], Run]) -> None:
        """Begin a run.

        Args:
            problem: The original problem.
            start: Starts the run on the folded problem.
        """
        self._problem = problem
        self._kept = [i for i in range(problem.k) if problem.structure[i].kind != "white"] or [0]
        self._inner = start(problem.folded())

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose a point; the memory of the folded belief is stored under its own key."""
        proposal = self._inner.ask(number, self.fold(data))
        memory = {"folded": {**proposal.why.memory, "expected": proposal.why.expected}}
        return replace(proposal, why=replace(proposal.why, memory=memory, expected=()))

    def close(self) -> None:
        """Release what the run holds."""
        self._inner.close()

    def fold(self, data: Dataset) -> Dataset:
        """Return the data of the folded problem; a value of g that is not finite counts as not told."""
        Y = data.measured.functions(self._problem)[:, self._kept]
        fine = np.isfinite(Y)
        Y, told = np.where(fine, Y, np.nan), fine.any(1)
        last = data.last and replace(data.last, memory=data.last.memory.get("folded", {}))
        return Dataset(
            numbers=tuple(number for number, is_told in zip(data.numbers, told.tolist(), strict=True) if is_told),
            U=data.U[told],
            Y=Y[told],
            imagined=np.concatenate([data.U[~told], data.imagined]),
            last=last,
            whys=tuple(_unfolded(why) for why, is_told in zip(data.whys, told.tolist(), strict=False) if is_told),
            failures=tuple(row + int((~told).sum()) for row in data.failures),
            away=(*(n for n, is_told in zip(data.numbers, told.tolist(), strict=True) if not is_told), *data.away)
            if len(data.away) == len(data.imagined)
            else (),
            moved=data.moved,
            earlier=data.earlier,
        )


def _unfolded(why: Why) -> Why:
    """Return why a point was proposed with what was expected of the folded outputs."""
    return replace(why, expected=tuple(map(tuple, why.memory.get("folded", {}).get("expected", ()))))
