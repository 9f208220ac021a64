"""One evaluation as a frozen record, and all of them as tensors."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.problem import Named, Problem
from pied.records.record import ASKED, FAILED, PARTIAL, TOLD, Row


class State(Enum):
    """Where a trial stands."""

    ASKED = ASKED
    PARTIAL = PARTIAL
    TOLD = TOLD
    FAILED = FAILED


@dataclass(frozen=True)
class Why:
    """Why a point was proposed, as it stood when it was asked; plain data, stored with the trial."""

    aim: str
    """"initial", "explore", "verify", "probe" (off a bound that all points asked near the best lie on), "widen"
    (explore with wider bounds: the level promises nothing), "feasibility" (nothing satisfies the bounds), "spread"
    (anything else would repeat), "fill" (the search failed)."""
    lower: tuple[float, ...] = ()
    """Lower bounds of objective and constraints at the point, paper's form."""
    upper: tuple[float, ...] = ()
    """Upper bounds there."""
    optimistic: float | None = None
    """Largest objective that can be hoped for under the constraints, when searched."""
    margin: float | None = None
    """Joint test of feasibility: the largest smallest scaled constraint at z = 3, when it was needed."""
    active: tuple[str, ...] = ()
    """Constraints that held with equality in the search."""
    multipliers: tuple[float, ...] = ()
    """Per constraint, natural units: what one unit of relaxation would bring in the search."""
    rung: str = "plain"
    """Rung of the numerical ladder."""
    seconds: float = 0.0
    """Time the suggestion took."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What the solver wants to find again: for a belief, its choices."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Why":
        """Read it from plain data; words of another version are passed over."""
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        sequences: dict[str, Any] = {
            name: tuple(known[name]) for name in ("lower", "upper", "active", "multipliers") if name in known
        }
        return cls(**{"aim": "added", **known, **sequences})


@dataclass(frozen=True, eq=False)
class Trial:
    """One evaluation of the black box: asked for, or added from old data."""

    number: int
    """Counted from 1, in the order of asking and adding."""
    x: Named
    """Where, natural units."""
    state: State
    y: Named | None = None
    """What was told; a value is NaN while it is missing. None before anything was told."""
    is_added: bool = False
    """Whether it is old data that does not count against the budget."""
    reason: str = ""
    """Why it failed."""
    why: Why = field(default_factory=lambda: Why("added"))
    summary: str = ""
    """One sentence on what was expected when it was asked."""
    revision: int = 1
    """Number of the question under which it was asked: bounds and verdicts of another question say nothing now."""
    worker: str = ""
    """Who evaluates it, or did."""

    @classmethod
    def of(cls, problem: Problem, row: Row) -> "Trial":
        """Read a trial from its row of the record."""
        y = tuple(float(row.y.get(name, math.nan)) for name in problem.outputs) if row.y else None
        return cls(
            row.number,
            Named(list(problem.variables), tuple(float(row.x[name]) for name in problem.variables)),
            State(row.state),
            y=None if y is None else Named(list(problem.outputs), y),
            is_added=row.is_added,
            reason=row.reason,
            why=Why.from_dict(row.why),
            summary=row.summary,
            revision=row.revision,
            worker=row.worker,
        )

    def __str__(self) -> str:
        text = f"trial {self.number}: " + "  ".join(f"{name} = {value:.6g}" for name, value in self.x.items())
        if self.state is State.FAILED:
            return f"{text}   (failed: {self.reason})"
        if self.y is not None:
            values = ((name, value) for name, value in self.y.items())
            text += "  ->  " + "  ".join(f"{n} = {v:.6g}" if v == v else f"{n} = ?" for n, v in values)
        return f"{text}   ({self.summary})" if self.summary and self.y is None else text


@dataclass(frozen=True, eq=False)
class Dataset:
    """A record as tensors of the unit cube: what every solver and recommendation works on."""

    numbers: tuple[int, ...]
    """Numbers of the trials with at least one told output."""
    U: Float64[Tensor, "N d"]
    Y: Float64[Tensor, "N m"]
    """Outputs; NaN where not told."""
    imagined: Float64[Tensor, "p d"]
    """Points that are pending or failed: nothing is known there, and nothing should be asked there again."""
    last: Why | None = None
    """Why the last trial was asked."""
    whys: tuple[Why, ...] = ()
    """Why the trials with a told output were asked; empty where nobody wants to know."""
    failures: tuple[int, ...] = ()
    """Rows of `imagined` whose evaluation failed; the others are pending."""

    @property
    def failed(self) -> Float64[Tensor, "q d"]:
        """Points whose evaluation failed."""
        return self.imagined[list(self.failures)]

    @property
    def complete(self) -> Bool[Tensor, "N"]:
        """Which rows have all outputs."""
        return torch.isfinite(self.Y).all(1)

    def first(self, count: int) -> "Dataset":
        """Return the data of the first trials alone."""
        return Dataset(self.numbers[:count], self.U[:count], self.Y[:count], self.imagined[:0])

    @classmethod
    def of(cls, problem: Problem, trials: Iterable[Trial]) -> "Dataset":
        """Gather the tensors of a record."""
        numbers, points, outputs, whys, failures = [], [], [], [], []
        imagined: list[Tensor] = []
        last = None
        for trial in trials:
            point = torch.tensor([float(value) for value in trial.x.values()], dtype=torch.float64)
            if trial.y is not None and trial.state in (State.TOLD, State.PARTIAL):
                numbers.append(trial.number)
                whys.append(trial.why)
                points.append(point)
                outputs.append(torch.tensor([float(value) for value in trial.y.values()], dtype=torch.float64))
            else:
                if trial.state is State.FAILED:
                    failures.append(len(imagined))
                imagined.append(point)
            if not trial.is_added:
                last = trial.why
        empty = torch.zeros(0, problem.d, dtype=torch.float64)
        U = problem.to_unit(torch.stack(points)).clamp(0.0, 1.0) if points else empty
        Y = torch.stack(outputs) if outputs else torch.zeros(0, problem.m, dtype=torch.float64)
        away = problem.to_unit(torch.stack(imagined)).clamp(0.0, 1.0) if imagined else empty
        return cls(tuple(numbers), U, Y, away, last, tuple(whys), tuple(failures))

    def functions(self, problem: Problem) -> Float64[Tensor, "N k"]:
        """Return objective and constraints at what was told; NaN where an output they need is missing."""
        if not len(self.U):
            return torch.zeros(0, problem.k, dtype=torch.float64)
        G = problem.g(problem.from_unit(self.U), self.Y[None])
        return torch.stack([g.reshape(-1, len(self.U))[0] for g in G], -1).detach()


def tolerances(problem: Problem, f: Float64[Tensor, "N k"]) -> Float64[Tensor, "n"]:
    """Return how far below zero an observed constraint still counts as met: as stated, else 1e-6 of its spread."""
    result = torch.zeros(problem.n, dtype=torch.float64)
    for i, stated in enumerate(problem.tolerance):
        told = f[:, i + 1][torch.isfinite(f[:, i + 1])]
        if stated is not None:
            result[i] = stated
        elif len(told) > 1:
            result[i] = 1e-6 * spread(told[:, None])[0]
    return result


def spread(values: Float64[Tensor, "b k"]) -> Float64[Tensor, "k"]:
    """Return the interquartile range per column; where it is 0 the largest size, where that is 0 too 1."""
    if not len(values):
        return torch.ones(values.shape[1], dtype=values.dtype, device=values.device)
    fine = torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    quartiles = torch.quantile(fine, torch.tensor([0.25, 0.75], dtype=fine.dtype, device=fine.device), dim=0)
    width = quartiles[1] - quartiles[0]
    largest = fine.abs().amax(0)
    width = torch.where(width > 1e-13 * largest, width, largest)
    return torch.where(width > 0, width, 1.0)


def feasible(problem: Problem, f: Float64[Tensor, "N k"]) -> Bool[Tensor, "N"]:
    """Tell which told points meet every constraint by what was observed."""
    return (f[:, 1:] >= -tolerances(problem, f)).all(1) & torch.isfinite(f).all(1)
