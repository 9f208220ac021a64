"""Which outputs follow their models, and what is left of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pied.problem import Problem
from pied.records import Dataset
from pied.study.words import Words

if TYPE_CHECKING:
    from pied.gp import GP


@dataclass(frozen=True)
class Following:
    """What became of the model of one output."""

    output: str
    follows: bool
    """Whether the belief uses the model; else measurements are predicted better without it."""
    left: float
    """What the model, with a constant (and a factor, where one is learned), leaves of measured values: root mean
    square, in the output's unit."""
    factor: float | None = None
    """By which the model is multiplied, where that is learned; of its logarithm if the output is seen on one."""
    unit: str = ""

    def __str__(self) -> str:
        if not self.follows:
            return f"the model of {self.output} is left out: measurements are predicted better without it"
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.output} follows its model; what is left is {self.left:.2g}{unit}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return dict(vars(self))


def followed(problem: Problem, data: Dataset, belief: "GP") -> tuple[Following, ...]:
    """Return what became of each model."""
    from pied.bounds import known_of
    from pied.gp import MODELLED, left_by_model

    known, made, units = known_of(problem), [], Words.of(problem).units
    if known is None:
        return ()
    M = known.values(data.U)
    for j in known.outputs:
        told = np.isfinite(data.Y[:, j]) & np.isfinite(M[:, j])
        choice, name = belief.choices[j], problem.outputs[j]
        left, factor = left_by_model(belief.warps[j], data.Y[told, j], M[told, j], choice.trend == "scaled model")
        made.append(Following(name, choice.trend in MODELLED, left, factor, units.get(name, "")))
    return tuple(made)
