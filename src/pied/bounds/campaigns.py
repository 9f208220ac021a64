"""Earlier campaigns and sister equipment: what was measured there tells something about the outputs here.

The values of a campaign are off by a constant, and follow the present ones as far as the length scale of its input
says (`gp.features.coding`), which is learned like every other. Beyond that, the values of a campaign count for an
output only while they help to predict the present ones: each of these is left out and predicted from all others, with
the campaign and without it. One that misleads is then left out, and what the two have in common (length scales, noise)
is learned from present values alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.gp import GP, foretold
from pied.records import COMPARED, Dataset
from pied.shapes import Bool, Float64

MOST = 200
"""Present rows, the last ones, that decide it."""


def told(data: Dataset) -> dict[str, Any]:
    """Return what was told beside points and values, as a belief takes it."""
    return {"errors": data.errors, "cut": data.cut, "together": data.blocks, "campaigns": data.campaigns}


def fitted(data: Dataset, fit: Callable[[Dataset], GP]) -> GP:
    """Fit a belief to the data and to those earlier campaigns that help to predict them."""
    if data.earlier_campaigns is None:
        return fit(data)
    recent = data.at(range(max(0, len(data.U) - MOST), len(data.U)))
    names, m = sorted(set(data.earlier_campaigns.campaigns)), data.Y.shape[1]
    if recent.earlier_campaigns is None or not _decides(recent).any():
        return _with(data, [tuple(names)] * m, fit)
    alone = foretold(fit(replace(recent, earlier_campaigns=None)), recent.Y)
    helps = np.ones((len(names), m), dtype=bool)
    for place, name in enumerate(names):
        whole = joined(recent, [(name,)] * m)
        helps[place] = (foretold(fit(whole), recent.Y) >= alone) | ~_decides(recent)
    return _with(data, [tuple(np.array(names)[own].tolist()) for own in helps.T], fit)


def _decides(data: Dataset) -> Bool[ndarray, "m"]:
    """Tell of which outputs there are enough present values."""
    return np.asarray(np.isfinite(data.Y).sum(0) >= COMPARED)


def _with(data: Dataset, counted: Sequence[tuple[str, ...]], fit: Callable[[Dataset], GP]) -> GP:
    """Fit a belief in which some campaigns count for each output, and note which."""
    gp = fit(joined(data, counted))
    choices = (replace(choice, campaigns=own) for choice, own in zip(gp.choices, counted, strict=True))
    return replace(gp, choices=tuple(choices))


def joined(data: Dataset, counted: Sequence[Sequence[str]]) -> Dataset:
    """Return the data behind those of earlier campaigns, of each output those of the campaigns that count."""
    others, present = data.earlier_campaigns, replace(data, earlier_campaigns=None)
    names = {name for own in counted for name in own}
    if others is None or not names:
        return present
    others = others.at([row for row, name in enumerate(others.campaigns) if name in names])
    left = np.array([[name not in own for own in counted] for name in others.campaigns])
    none = np.full(left.shape, np.nan), np.full(data.Y.shape, np.nan)
    cuts = [each.cut or (np.full(each.Y.shape, -np.inf), np.full(each.Y.shape, np.inf)) for each in (others, data)]
    ends = [np.where(left, end, cut) for end, cut in zip((-np.inf, np.inf), cuts[0], strict=True)]
    has_errors = not (others.errors is None and data.errors is None)
    return replace(
        present,
        numbers=others.numbers + data.numbers,
        U=np.concatenate([others.U, data.U]),
        Y=np.concatenate([np.where(left, np.nan, others.Y), data.Y]),
        whys=(),
        errors=_stacked(others.errors, none[0], data.errors, none[1]) if has_errors else None,
        cut=None
        if others.cut is None and data.cut is None
        else (np.concatenate([ends[0], cuts[1][0]]), np.concatenate([ends[1], cuts[1][1]])),
        blocks=_names(others) + _names(data) if others.blocks or data.blocks else (),
        campaigns=others.campaigns + ("",) * len(data.U),
    )


def _stacked(
    first: Float64[ndarray, "n m"] | None,
    or_first: Float64[ndarray, "n m"],
    last: Float64[ndarray, "N m"] | None,
    or_last: Float64[ndarray, "N m"],
) -> Float64[ndarray, "M m"]:
    return np.concatenate([or_first if first is None else first, or_last if last is None else last])


def _names(data: Dataset) -> tuple[str, ...]:
    return data.blocks or ("",) * len(data.U)
