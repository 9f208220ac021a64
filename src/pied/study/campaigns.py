"""How earlier campaigns and sister equipment are related to the present one, as far as measurements show it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from pied.problem import Problem
from pied.records import COMPARED, Dataset
from pied.study.blocks import CLEAR, brief
from pied.study.words import Words

if TYPE_CHECKING:
    from pied.gp import GP

CLOSELY, ROUGHLY = 0.9, 0.5
"""Correlations from which on a campaign follows the present one so."""


@dataclass(frozen=True)
class Relation:
    """How one output of an earlier campaign is related to the present one."""

    campaign: str
    output: str
    count: int = 0
    """Values of the output in the campaign."""
    offset: float = 0.0
    """Natural units, at a usual value of the output; above 0 the campaign reads higher."""
    lower: float = 0.0
    upper: float = 0.0
    """Ends of where the offset probably lies (two deviations)."""
    correlation: float | None = None
    """Of what is measured there and here at the same settings, beside the offset; None: not known."""
    is_left_out: bool = False
    """Whether its values do not help to predict the present ones, and so do not count."""
    unit: str = ""

    def __str__(self) -> str:
        word = "closely" if (self.correlation or 0.0) >= CLOSELY else "roughly"
        word = word if (self.correlation or 0.0) >= ROUGHLY else "hardly"
        unit = f" {self.unit}" if self.unit else ""
        level = f"{brief(abs(self.offset))}{unit} {'higher' if self.offset > 0 else 'lower'}"
        level = "as high" if self.lower <= 0 <= self.upper else level
        return f"{self.output} reads {level} and follows the present one {word}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return dict(vars(self))


def relations_of(problem: Problem, data: Dataset, belief_of: "Callable[[], GP]") -> tuple[Relation, ...]:
    """Return how every output of every earlier campaign is related to the present one, as far as that is known."""
    others = data.earlier_campaigns
    if others is None:
        return ()
    is_known, units, made = np.isfinite(data.Y).sum(0) >= COMPARED, Words.of(problem).units, []
    found_of = _related(problem, belief_of()) if is_known.any() else {}
    for name in sorted(set(others.campaigns)):
        rows = np.array([each == name for each in others.campaigns])
        for j, output in enumerate(problem.outputs):
            if count := int(np.isfinite(others.Y[rows, j]).sum()):
                left_out = Relation(name, output, is_left_out=True)
                plain = found_of.get((name, output), left_out) if is_known[j] else Relation(name, output)
                made.append(replace(plain, count=count, unit=units.get(output, "")))
    return tuple(made)


def _related(problem: Problem, belief: "GP") -> dict[tuple[str, str], Relation]:
    """Return how the campaigns that count are related, by campaign and output."""
    from pied.gp import alike

    found = {}
    names = sorted({name for choice in belief.choices for name in choice.campaigns})
    correlations, (mean, deviation) = alike(belief), belief.offsets
    for place, name in enumerate(names):
        column = len(belief.block_names) + place
        shifts = mean[:, column] + CLEAR * np.array([[0.0], [-1.0], [1.0]]) * deviation[:, column]
        for j, ends in enumerate(belief.shifted(shifts).T.tolist()):
            if name in belief.choices[j].campaigns:
                low, high = sorted(ends[1:])
                own = float(correlations[j, place])
                found[name, problem.outputs[j]] = Relation(name, problem.outputs[j], 0, ends[0], low, high, own)
    return found


def sentences(relations: Sequence[Relation]) -> list[str]:
    """Return one sentence for each campaign."""
    made = []
    for name, group in groupby(relations, key=lambda each: each.campaign):
        own = list(group)
        left = ", ".join(each.output for each in own if each.is_left_out)
        open_ones = [each.output for each in own if each.correlation is None and not each.is_left_out]
        parts = [str(each) for each in own if each.correlation is not None]
        parts += [f"{left} there would mislead and is left out"] if left else []
        parts += (
            [f"how {', '.join(open_ones)} there is related to the present one is not known yet"] if open_ones else []
        )
        made.append(f"{name}: {'; '.join(parts)}.")
    return made
