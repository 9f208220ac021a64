"""One array with names on its last axis: `x` and `y` as users' functions see them."""

import itertools
import operator
import unicodedata
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex, runtime_checkable

from pied.errors import UnknownName, did_you_mean


def canonical(name: str) -> str:
    """Normalize a name as Python does with identifiers (NFKC): `y.µ` asks for the Greek letter."""
    return unicodedata.normalize("NFKC", name)


def groups(outputs: Sequence[str]) -> dict[str, list[int]]:
    """Return the vectors among outputs with the places of their elements: `c` if c[1], c[2], ... are outputs."""
    found: dict[str, list[int]] = {}
    places = {canonical(name): place for place, name in enumerate(outputs)}
    for name in places:
        stem = name.removesuffix("[1]")
        if stem not in ("", name):
            parts = itertools.takewhile(places.__contains__, (f"{stem}[{count}]" for count in itertools.count(1)))
            found[stem] = [places[part] for part in parts]
    return found


@runtime_checkable
class Kind(Protocol):
    """What stands for a variable that is no plain number: a label, an integer."""

    def at(self, value: float) -> Any:
        """Return what it is at one point."""

    def over(self, values: Any) -> Any:
        """Return what it is at many points."""


class Names(dict[str, int]):
    """The place of each name, and which of them are no plain numbers."""

    __slots__ = ("kinds",)

    def __init__(self, places: Mapping[str, int], kinds: Mapping[int, Kind]) -> None:
        super().__init__(places)
        self.kinds = dict(kinds)

    def __reduce__(self) -> tuple[Any, ...]:
        return Names, (dict(self), self.kinds)


class Named(Mapping[str, Any]):
    """An array with names on its last axis, which are attributes (`y.X_A`) and items (`y["X_A"]`).

    In the black box it is one point, and `x[1]` and `np.array(x)` work, too. In the white box it is an array, of one
    point or of many (`b d` for x, `L b m` for y), or the symbol of one. A name that is also a method (`array`, `keys`,
    `items`, `values`, `get`), or is not an identifier, can only be used as an item.

    Example: `docs/recipes.md`.
    """

    __slots__ = ("_array", "_index")

    def __init__(self, names: Sequence[str] | Mapping[str, int], array: Any) -> None:
        """Put names on the last axis of an array.

        Args:
            names: The names in order, or (fast, unchecked) a mapping from each name to its place.
            array: An array, or a sequence of numbers (kept as a tuple).
        """
        self._index = names if isinstance(names, dict) else {name: place for place, name in enumerate(names)}
        self._array = tuple(array) if isinstance(array, list) else array

    @property
    def array(self) -> Any:
        """All values, names on the last axis."""
        if not isinstance(self._array, tuple):
            return self._array
        import numpy as np  # not at the top: a worker process that gets points may need no arrays

        return np.array(self._array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Return the values as an array, with labels as text."""
        import numpy as np

        if not isinstance(self._array, tuple):
            return np.asarray(self._array, dtype=dtype)
        values = list(self.values())
        return np.array(values, dtype=object if any(isinstance(each, str) for each in values) else dtype)

    def __getitem__(self, name: str | SupportsIndex) -> Any:
        """Return the values of a name, or at a place."""
        place = self._index.get(name)  # type: ignore[arg-type]  # numbers are never names
        if place is None:
            place = self._search(name)
        array = self._array
        value = array[place] if isinstance(array, tuple) or array.ndim == 1 else array[..., place]
        kind = self._index.kinds.get(place) if isinstance(self._index, Names) else None
        if kind is None:
            return value
        return kind.at(value) if isinstance(value, float | int) else kind.over(value)

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def _search(self, name: Any) -> int:
        """Find a place, or a name in another Unicode form, or suggest the one that was probably meant."""
        if isinstance(name, SupportsIndex) and not isinstance(name, bool):
            place, count = operator.index(name), len(self._index)
            if not -count <= place < count:
                raise IndexError(f"There is no place {place} among {count}: they count from 0 to {count - 1}.")
            return place % count
        if isinstance(name, str):
            for known, place in self._index.items():
                if canonical(known) == canonical(name):
                    return place
        raise UnknownName(f"There is no '{name}' here.{did_you_mean(str(name), self._index)}", name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def keys(self) -> KeysView[str]:
        """Return the names in order."""
        return self._index.keys()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self._index if name.isidentifier())]

    def __reduce__(self) -> tuple[Any, ...]:
        return Named, (self._index, self._array)

    def __repr__(self) -> str:
        if isinstance(self._array, tuple):
            return "Named(" + ", ".join(f"{name}={value:.6g}" for name, value in self.items()) + ")"
        return f"Named({', '.join(self._index)}; shape {tuple(self._array.shape)})"


def raw(named: Named) -> Any:
    """Return what a view was made of, a tuple of floats for a point: fast, since records have thousands of them."""
    return named._array


Function = Callable[[Named, Named], Any]
"""A function of the white box, of x and y; formulas are functions, too."""
