"""What is left of a space on a slice: its grid, its candidates, and what equalities determine there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError
from pied.problem.candidates import Listing
from pied.problem.grids import Grid
from pied.problem.slices import ROUNDED, Slice
from pied.problem.spaces import Space
from pied.problem.variables import Box, Variable


def cut(space: Space, ends: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Return what changes of a space on a slice: its slice, grid, candidates and what equalities leave.

    Args:
        space: The whole space; the variables that are given are among its coordinates, or follow from such.
        ends: Lower and upper ends of what is given, see `ends_of`.

    Raises:
        StatementError: When the slice is empty.
    """
    variables = space.variables
    kept = {name: _recorded(variables[name], each) for name, each in ends.items()}
    low, high = np.zeros(space.d), np.ones(space.d)
    for place, (name, variable) in enumerate(space.axes.items()):
        if name in ends:
            axis = np.array(ends[name])[:, None]
            low[place], high[place] = np.clip(Box.of([variable]).to_unit(axis)[:, 0], 0.0, 1.0)
    part = Slice(kept, low, high)
    if space.candidates is not None:
        return {"slice": part, "candidates": _listed(space, part, ends)}
    grid = _restricted(space, part, ends)
    if space._solved is None:
        return {"slice": part, "grid": grid}
    solved = replace(space._solved, low=low, high=high)
    _check_determined(space, part, ends)
    if solved.centre is None:
        names = " and ".join(f"'{name}'" for name in solved.names)
        raise StatementError(f"No settings have {part}: within the bounds of the variables {names} cannot hold then.")
    return {"slice": part, "grid": grid, "_solved": solved}


def _recorded(variable: Variable, ends: tuple[float, float]) -> Any:
    """Return a given value as it is recorded."""
    values = [variable.recorded(variable.at(each)) for each in ends]
    return values[0] if ends[0] == ends[1] else values


def _restricted(space: Space, part: Slice, ends: Mapping[str, tuple[float, float]]) -> Grid | None:
    """Return the grid with those values that lie on the slice; what is given is a coordinate with one value."""
    levels: list[ndarray | None] = []
    places: list[ndarray | None] = []
    for place, name in enumerate(space.axes):
        own = None if space.grid is None else space.grid.levels[place]
        at = None if space.grid is None else space.grid.places[place]
        if name in ends and part.is_fixed[place]:
            own, at = np.array([ends[name][0]]), part.low[place : place + 1]
        elif name in ends and own is not None and at is not None:
            inside = (own >= ends[name][0]) & (own <= ends[name][1])
            own, at = own[inside], at[inside]
        levels.append(own)
        places.append(at)
    if all(each is None for each in levels):
        return None
    is_choice = np.array([each.is_choice for each in space.axes.values()])
    return Grid(tuple(levels), tuple(places), is_choice)


def _listed(space: Space, part: Slice, ends: Mapping[str, tuple[float, float]]) -> Listing:
    """Return the candidates on a slice."""
    assert space.candidates is not None
    names, X = list(space.variables), space.candidates.X
    fine = np.ones(len(X), dtype=bool)
    for name, (low, high) in ends.items():
        place = names.index(name)
        slack = ROUNDED * (space.bounds[place, 1] - space.bounds[place, 0])
        fine &= (X[:, place] >= low - slack) & (X[:, place] <= high + slack)
    if not fine.any():
        raise StatementError(f"None of the {len(X)} candidates has {part}.")
    return Listing(X[fine], space.candidates.U[fine])


def _check_determined(space: Space, part: Slice, ends: Mapping[str, tuple[float, float]]) -> None:
    """Refuse given values of a variable that follows from others, unless these give it the same."""
    solved, names = space._solved, list(space.variables)
    assert solved is not None
    for row, place in enumerate(solved.places.tolist()):
        name = names[place]
        if name not in ends:
            continue
        equality = " and ".join(f"'{each}'" for each in solved.names)
        needed = solved.matrix[row] != 0
        if not part.is_fixed[needed].all():
            raise StatementError(f"'{name}' follows from the others by {equality}: give those instead.")
        axes = [names[each] for each in solved.free.tolist()]
        X = np.array([ends[each][0] if each in ends else 0.0 for each in axes])
        value = float(solved.offset[row] + solved.matrix[row] @ X)
        slack = ROUNDED * float(solved.bounds[place, 1] - solved.bounds[place, 0])
        low, high = ends[name]
        if not low - slack <= value <= high + slack:
            raise StatementError(f"No settings have {part}: {equality} needs {name} = {value:.9g}.")
