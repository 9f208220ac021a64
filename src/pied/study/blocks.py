"""Blocks: by how much each day, operator, batch or reactor reads an output higher or lower than an average one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pied.problem import Problem
from pied.records import Dataset, State, Trial
from pied.study.words import Words

if TYPE_CHECKING:
    from pied.gp import GP

CLEAR = 2.0
"""Deviations from which on an offset is told by itself."""


@dataclass(frozen=True)
class BlockOffset:
    """How one block reads one output, compared with the average of all blocks."""

    block: str
    output: str
    offset: float
    """Natural units, at a usual value of the output; above 0 it reads higher."""
    lower: float
    upper: float
    """Ends of where the offset probably lies (two deviations)."""
    count: int
    """Values of the output in the block."""
    unit: str = ""

    @property
    def is_clear(self) -> bool:
        """Whether the block surely reads higher, or surely lower."""
        return not self.lower <= 0 <= self.upper

    def __str__(self) -> str:
        ends = sorted((abs(self.lower), abs(self.upper)))
        unit = f" {self.unit}" if self.unit else ""
        side = "higher" if self.offset > 0 else "lower"
        between = f"{brief(ends[0])} to {brief(ends[1])}"
        if not self.is_clear:
            return f"{self.block} reads {self.output} like the other blocks, within {brief(ends[1])}{unit}"
        return f"{self.block} reads {self.output} {brief(abs(self.offset))}{unit} {side} ({between})"

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return {**vars(self), "is_clear": self.is_clear}


def offsets_of(problem: Problem, data: Dataset, belief: "GP") -> tuple[BlockOffset, ...]:
    """Return the offsets of all blocks and outputs."""
    if not data.blocks:
        return ()
    mean, deviation = belief.offsets
    blocks, units, made = np.array(data.blocks), Words.of(problem).units, []
    for place, block in enumerate(belief.block_names):
        shifts = mean[:, place] + CLEAR * np.array([[0.0], [-1.0], [1.0]]) * deviation[:, place]
        ends = belief.shifted(shifts)
        for j, name in enumerate(problem.outputs):
            middle, *both = ends[:, j].tolist()
            low, high = sorted(both)
            count = int(((data.limited | np.isfinite(data.Y))[:, j] & (blocks == block)).sum())
            if count:
                made.append(BlockOffset(block, name, middle, low, high, count, units.get(name, "")))
    return tuple(made)


def least_used(blocks: str | Sequence[str], trials: Sequence[Trial]) -> str:
    """Return the block that fewest trials which count are in, the first of several."""
    names = [blocks] if isinstance(blocks, str) else list(blocks)
    used = [each.block for each in trials if each.state not in (State.FAILED, State.WITHDRAWN)]
    return min(names, key=used.count)


def brief(value: float) -> str:
    """Return an offset for a sentence."""
    return f"{value:.2g}"
