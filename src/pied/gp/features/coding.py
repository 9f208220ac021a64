"""How the belief sees coordinates that are labels: an input for each label, and their known properties.

The inputs of one choice's labels (1 for the label of the point, 0 for the others) have one length scale in common, so
any two labels are equally alike, and how much so is learned. Properties are inputs with length scales of their own:
where they explain what labels do, a label that was never tried is predicted from those that were.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp.kernels import pairs
from pied.shapes import Bool, Float64, Int

TOLD_LABEL = 2
"""Times that each label must have been told before labels have effects of their own in a trend."""


class Labels(NamedTuple):
    """One coordinate of the cube that is a choice."""

    coordinate: int
    """Its place in the cube, where labels stand evenly from 0 to 1."""
    size: int
    """How many labels there are."""
    properties: Float64[ndarray, "n r"]
    """What is known of each label, every column from 0 to 1."""


@dataclass(frozen=True, eq=False)
class Ties:
    """Which inputs have a length scale in common."""

    mean: Float64[ndarray, "e e"]
    """Takes the mean over each group: the gradient of tied length scales, which keeps them equal."""
    weight: Float64[ndarray, "e"]
    """One over the size of each input's group: what it counts for in the prior."""
    is_tied: Bool[ndarray, "e"]
    """Which inputs are labels."""


@dataclass(frozen=True, eq=False)
class Coding:
    """The map from the cube to the inputs of the belief: first the numbers in order, then labels and properties."""

    d: int
    """Coordinates of the cube."""
    choices: tuple[Labels, ...]
    campaigns: int = 0
    """Earlier campaigns: each has an input of its own, 1 at what was measured in it and 0 elsewhere."""
    asked: int | None = None
    """The campaign that is asked about; None: the present one."""

    @cached_property
    def plain(self) -> Int[ndarray, "c"]:
        """The coordinates that are numbers."""
        return np.setdiff1d(np.arange(self.d), [each.coordinate for each in self.choices])

    @cached_property
    def origin(self) -> Int[ndarray, "e"]:
        """The coordinate behind each input."""
        coded = [np.full(each.size + each.properties.shape[1], each.coordinate) for each in self.choices]
        return np.concatenate([self.plain, *coded, self.d + np.arange(self.campaigns)]).astype(int)

    @cached_property
    def _groups(self) -> Int[ndarray, "e"]:
        """The number of the choice whose label an input is; -1: a number or a property."""
        parts = [np.full(len(self.plain), -1)]
        for number, each in enumerate(self.choices):
            parts += [np.full(each.size, number), np.full(each.properties.shape[1], -1)]
        return np.concatenate([*parts, np.full(self.campaigns, -1)])

    def inputs(self, U: Float64[ndarray, "b _"]) -> Float64[ndarray, "b e"]:
        """Return the inputs of the belief at points of the cube; a point between two labels has the nearer one.

        Points may say in further columns which campaign they are of; else they are of the one that is asked about.
        """
        parts = [U[:, self.plain]]
        for each in self.choices:
            codes = np.rint(np.clip(U[:, each.coordinate], 0.0, 1.0) * (each.size - 1)).astype(int)
            parts += [np.eye(each.size)[codes], each.properties[codes]]
        if self.campaigns and U.shape[1] == self.d:
            own = np.arange(self.campaigns) == self.asked
            return np.concatenate([*parts, np.broadcast_to(own.astype(float), (len(U), self.campaigns))], 1)
        return np.concatenate([*parts, U[:, self.d :]], 1)

    def settings(self, inputs: Float64[ndarray, "N e"]) -> Float64[ndarray, "N d"]:
        """Return what the inputs of points stand for: numbers as they are, of a choice the place of its label."""
        made, start = np.empty((len(inputs), self.d + self.campaigns)), len(self.plain)
        made[:, self.plain] = inputs[:, :start]
        for each in self.choices:
            made[:, each.coordinate] = inputs[:, start : start + each.size].argmax(1)
            start += each.size + each.properties.shape[1]
        made[:, self.d :] = inputs[:, start:]
        return made

    def cube(self, inputs: Float64[ndarray, "N e"]) -> Float64[ndarray, "N d"]:
        """Return the points of the cube that have these inputs: the reverse of `inputs`."""
        made = self.settings(inputs)[:, : self.d]
        for each in self.choices:
            made[:, each.coordinate] /= max(each.size - 1, 1)
        return made

    def by_cube(self, slopes: Float64[ndarray, "b m e"]) -> Float64[ndarray, "b m d"]:
        """Return slopes by the coordinates of the cube: those by labels are 0."""
        made = np.zeros((*slopes.shape[:-1], self.d))
        made[..., self.plain] = slopes[..., : len(self.plain)]
        return made

    def expanded(self, values: ndarray, coded: float | None = None) -> ndarray:
        """Return what is known of each coordinate for each input, or a number for those of choices."""
        own = np.ones((*values.shape[:-1], self.campaigns), dtype=values.dtype)  # every output may depend on these
        made = np.concatenate([values, own], -1)[..., self.origin]
        if coded is not None:
            made[..., len(self.plain) :] = coded
        return made

    @cached_property
    def ties(self) -> Ties:
        """The length scales that are equal."""
        groups = self._groups
        same = (groups[:, None] == groups) & (groups >= 0)
        same |= np.eye(len(groups), dtype=bool)
        size = same.sum(1)
        return Ties(same / size[:, None], 1.0 / size, groups >= 0)

    def columns(self, inputs: Float64[ndarray, "N e"]) -> Bool[ndarray, "p"]:
        """Tell which columns of a quadratic trend (`kernels.polynomial`) may be used with points that were told.

        One label of each choice is what the constant stands for, labels with properties are left to these, and inputs
        of the same choice are not multiplied: all else would be a combination of other columns. While a label was told
        less than twice, no label of its choice has an effect of its own: nothing would be doubtful about it.
        """
        is_used = np.ones(len(self.origin), dtype=bool)
        start = len(self.plain)
        for each in self.choices:
            own = slice(start, start + each.size)
            is_known = bool((inputs[:, own].sum(0) >= TOLD_LABEL).all()) and not each.properties.shape[1]
            is_used[own] = is_known
            is_used[start] = False
            start += each.size + each.properties.shape[1]
        is_used[start:] = False  # by how much campaigns are off is learned as for blocks
        first, second = pairs(len(is_used))
        is_choice = ~np.isin(self.origin, self.plain)
        alike = (self.origin[first] == self.origin[second]) & is_choice[first]
        return np.concatenate([[True], is_used, is_used[first] & is_used[second] & ~alike])


def placed(
    U: Float64[ndarray, "N d"], campaigns: Sequence[str], coding: Coding | None
) -> tuple[Float64[ndarray, "N _"], Coding | None]:
    """Return points that say of which campaign they are, "" of the present one, and the coding that reads them."""
    names = sorted({each for each in campaigns if each})
    if not names:
        return U, coding
    own = np.array([[float(each == name) for name in names] for each in campaigns])
    return np.concatenate([U, own], 1), replace(coding or Coding(U.shape[1], ()), campaigns=len(names))


def scaled(properties: Sequence[Any], count: int) -> Float64[ndarray, "n r"]:
    """Return properties of labels from 0 to 1; those that are the same for all labels are left out."""
    table = np.array(properties, dtype=float).reshape(len(properties), count).T
    width = table.max(0) - table.min(0) if len(properties) else np.zeros(0)
    kept = width > 0
    return (table[:, kept] - table[:, kept].min(0, initial=np.inf)) / width[kept]
