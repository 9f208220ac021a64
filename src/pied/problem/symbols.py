"""Symbols: what a function gets instead of numbers while it is traced, and the tracer that writes what it does to them.

A symbol stands for the value at one point and sample: `x.a` is a number, `y.array` a vector. Operators are functions of
NumPy, and what each of these writes is in `numpy_functions`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.lib.mixins import NDArrayOperatorsMixin

from pied.errors import WhiteBoxError
from pied.problem.operations import COMPARISONS, UNARY
from pied.problem.program import Program, Step, Writer, ending

MOST_STEPS = 20_000
"""Steps of a program: a longer one (a loop over many elements) takes longer to run than the function itself."""
TRUE_OR_FALSE = (
    "answers true or false: return a number, for a constraint one that is >= 0 where it is met, limit - y.a."
)

Writers = dict[Any, Callable[..., Any]]
"""What each function of NumPy writes; reductions of a ufunc have the key (ufunc, "reduce"), functions of one number
their names, since SciPy has some of them, too."""

_OWN_SHAPE = {"take", "shape"}
"""Steps whose operand keeps its own rank, also if that of the result is higher."""
_BOOLEAN = {*COMPARISONS, "logical_not", "isfinite", "isnan"}
"""Steps that answer true or false."""


class Untraceable(WhiteBoxError):
    """A function does something that needs the values themselves."""


class TakesNumber(Untraceable):
    """A function takes a number out of a symbol: by `float`, or a function of the module math, which does so."""


class Tracer:
    """Writes the steps of the function that is being traced."""

    def __init__(self, writers: Writers) -> None:
        self.writers = writers
        self.writer = Writer()
        self.width = 1

    def columns(self, kind: str, count: int) -> "Symbols":
        """Return the symbol of x or y as a whole."""
        return _Columns(self, kind, list(range(count)))

    def put(self, kind: str, parts: Sequence[Any], shape: tuple[int, ...], value: Any = None) -> "Symbol":
        """Write a step on symbols and constants; operands of lower rank get further axes."""
        places = tuple(self._place(part, len(shape) if kind not in _OWN_SHAPE else None) for part in parts)
        return self._symbol(self.writer.write(kind, places, value), shape)

    def inline(self, program: Program, x: "Symbols", y: "Symbols") -> "Symbol":
        """Write the steps of another program, at an x and a y of its own."""
        places: list[int] = []
        for step in program.steps:
            if step.kind in ("x", "y"):
                places.append((x if step.kind == "x" else y)[step.value].place)
            else:
                places.append(self.writer.write(step.kind, tuple(places[i] for i in step.parts), step.value))
        self.width = max(self.width, program.width)
        return self._symbol(places[-1], ())

    def program(self, result: Any) -> Program:
        """Return the steps that a result needs."""
        if isinstance(result, ndarray) and result.dtype == object and result.size == 1:
            result = result.item()
        if isinstance(result, int | float | np.integer | np.floating) and not isinstance(result, bool):
            return Program((Step("constant", (), float(result)),))
        if not isinstance(result, Symbol):
            raise Untraceable("its result does not come from x and y")
        if result.size != 1:
            raise Untraceable(f"it returns {result.size} numbers")
        if result.is_bool:
            raise WhiteBoxError(TRUE_OR_FALSE)
        result = result.reshape(())
        return Program(ending(self.writer.steps, result.place), self.width)

    def _symbol(self, place: int, shape: tuple[int, ...]) -> "Symbol":
        """Return the symbol of a step."""
        self.width = max(self.width, int(np.prod(shape)))
        if len(self.writer.steps) > MOST_STEPS:
            raise Untraceable("it takes too many steps")
        return Symbols(self, place, shape) if shape else Symbol(self, place)

    def _place(self, part: Any, rank: int | None) -> int:
        """Return the place of an operand; one of lower rank than the result is lifted."""
        if not isinstance(part, Symbol):
            constant = np.asarray(part, dtype=float)
            return self.writer.write("constant", (), constant if constant.ndim else float(constant))
        if rank is None or part.ndim >= rank:
            return part.place
        return self.writer.write("lift", (part.place,), (part.ndim, rank - part.ndim))


def needs_values(*_: Any, **__: Any) -> Any:
    """Say that something cannot be traced."""
    raise Untraceable("it needs the values themselves")


def takes_number(*_: Any, **__: Any) -> Any:
    """Say that NumPy's functions, without `float`, could be traced."""
    raise TakesNumber("it takes a number by float() or a function of math")


class Symbol(NDArrayOperatorsMixin):
    """One number of each point and sample, while a function is traced."""

    __hash__ = object.__hash__
    shape: tuple[int, ...] = ()

    def __init__(self, tracer: Tracer, place: int) -> None:
        self.tracer = tracer
        self.place = place

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Doubles, as in an array."""
        return np.dtype(float)

    @property
    def is_bool(self) -> bool:
        """Whether it is the answer to a comparison."""
        return self.tracer.writer.steps[self.place].kind in _BOOLEAN

    __bool__ = __int__ = __index__ = __complex__ = __round__ = needs_values
    __float__ = item = tolist = takes_number
    __setitem__ = needs_values

    def __array_ufunc__(self, ufunc: Any, method: str, *parts: Any, **words: Any) -> Any:
        """Write the step of an operator, or of a function of NumPy or SciPy that acts on each number."""
        out = words.get("out")
        if out is not None and out[0] is parts[0]:  # a += b makes a new symbol
            del words["out"]
        writers = self.tracer.writers
        own = writers.get(ufunc if method == "__call__" else (ufunc, method))
        if own is None and method == "__call__":
            own = writers.get(ufunc.__name__)
        if own is None:
            raise Untraceable(f"the slopes of {ufunc.__name__} are not known")
        return _written(own, ufunc, parts, words)

    def __array_function__(self, function: Any, types: Any, parts: Any, words: Any) -> Any:
        """Write the steps of another function of NumPy."""
        own = self.tracer.writers.get(function)
        if own is None:
            raise Untraceable(f"{function.__name__} cannot be traced")
        return _written(own, function, parts, words)

    # methods of arrays
    def sum(self, axis: Any = None, **words: Any) -> Any:
        """Return the sum of the elements."""
        return np.sum(self, axis, **words)

    def mean(self, axis: Any = None, **words: Any) -> Any:
        """Return the mean of the elements."""
        return np.mean(self, axis, **words)

    def min(self, axis: Any = None, **words: Any) -> Any:
        """Return the smallest element."""
        return np.min(self, axis, **words)

    def max(self, axis: Any = None, **words: Any) -> Any:
        """Return the largest element."""
        return np.max(self, axis, **words)

    def prod(self, axis: Any = None, **words: Any) -> Any:
        """Return the product of the elements."""
        return np.prod(self, axis, **words)

    def var(self, axis: Any = None, **words: Any) -> Any:
        """Return the variance of the elements."""
        return np.var(self, axis, **words)

    def std(self, axis: Any = None, **words: Any) -> Any:
        """Return the standard deviation of the elements."""
        return np.std(self, axis, **words)

    def cumsum(self, axis: Any = None, **words: Any) -> Any:
        """Return the running sums of the elements."""
        return np.cumsum(self, axis, **words)

    def dot(self, other: Any) -> Any:
        """Return the product with a vector or matrix."""
        return np.dot(self, other)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """Return the elements, moved between two ends."""
        return np.clip(self, min, max)

    def reshape(self, *shape: Any) -> Any:
        """Return the elements in another shape."""
        try:
            new = np.empty(self.shape).reshape(*shape).shape
        except ValueError as error:
            raise Untraceable(str(error)) from None
        return self if new == self.shape else self.tracer.put("shape", (self,), new, (self.ndim, new))

    def ravel(self) -> Any:
        """Return all elements in one row."""
        return self.reshape(-1)

    flatten = ravel

    def squeeze(self) -> Any:
        """Return the elements without axes of length 1."""
        return self.reshape(tuple(n for n in self.shape if n != 1))

    def copy(self) -> Any:
        """Return the same: a symbol is never changed in place."""
        return self

    def astype(self, kind: Any, **words: Any) -> Any:
        """Return the same as doubles."""
        if np.dtype(kind) != np.dtype(float):
            raise Untraceable(f"it makes numbers of type {np.dtype(kind)}")
        return self + 0.0 if self.is_bool else self

    def __getitem__(self, index: Any) -> Any:
        """Return the elements at an index; None adds an axis."""
        parts = _as_tuple(index)
        full = _full(tuple(each for each in parts if each is not None), self.ndim)
        numbers = np.arange(self.size).reshape(self.shape)
        chosen = numbers[full]
        if not np.array_equal(numbers[None][(..., *full)][:1], chosen[None]):
            raise Untraceable("its index moves axes")
        is_whole = all(isinstance(each, slice) and each == slice(None) for each in full)
        taken = self if is_whole else self.tracer.put("take", (self,), chosen.shape, full)
        return taken.reshape(numbers[parts].shape) if any(each is None for each in parts) else taken

    def __getattr__(self, name: str) -> Any:
        """Take the functions that NumPy looks for in arrays of objects (`exp`, `sqrt`), and refuse the rest."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in UNARY and hasattr(np, name):
            return lambda: getattr(np, name)(self)
        raise Untraceable(f"there is no '{name}' while it is traced")


class Symbols(Symbol):
    """A vector or a table of each point and sample."""

    __hash__ = object.__hash__

    def __init__(self, tracer: Tracer, place: int, shape: tuple[int, ...]) -> None:
        super().__init__(tracer, place)
        self.shape = shape

    @property
    def T(self) -> Any:
        """The transpose."""
        return self if self.ndim == 1 else self.ravel()[np.arange(self.size).reshape(self.shape).T]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))


class _Columns(Symbols):
    """All columns of x or y: a part of them is loaded as such."""

    __hash__ = object.__hash__

    def __init__(self, tracer: Tracer, kind: str, columns: list[int]) -> None:
        self.tracer, self.kind, self.columns = tracer, kind, columns
        self.shape = (len(columns),)

    @property
    def place(self) -> int:  # type: ignore[override]
        """Its step, which is written when it is used."""
        self.tracer.width = max(self.tracer.width, len(self.columns))
        return self.tracer.writer.write(self.kind, (), self.columns)

    def __getitem__(self, index: Any) -> Any:
        if any(each is None for each in _as_tuple(index)):
            return super().__getitem__(index)
        chosen = np.asarray(self.columns)[_full(_as_tuple(index), 1)]
        if chosen.ndim == 0:
            return Symbol(self.tracer, self.tracer.writer.write(self.kind, (), int(chosen)))
        if chosen.ndim == 1 and len(set(chosen.tolist())) == len(chosen):
            return _Columns(self.tracer, self.kind, chosen.tolist())
        return super().__getitem__(index)


def _written(own: Callable[..., Any], function: Any, parts: Any, words: Mapping[str, Any]) -> Any:
    """Let a writer write; arguments that it does not take are refused, those left out (out=None) are not."""
    left_out = (None, np._NoValue)
    given = {name: word for name, word in words.items() if name == "axis" or all(word is not each for each in left_out)}
    try:
        return own(*parts, **given)
    except TypeError as error:
        raise Untraceable(f"{function.__name__} is used in a way that cannot be traced: {error}") from error


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _full(index: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Return an index of every axis, without an ellipsis, which may stand for samples and points."""
    parts: list[Any] = []
    for each in index:
        each = np.asarray(each) if isinstance(each, list) else each
        if isinstance(each, Symbol) or (isinstance(each, ndarray) and each.dtype == object):
            raise Untraceable("it chooses elements by values")
        parts += each.nonzero() if isinstance(each, ndarray) and each.dtype.kind == "b" else (each,)
    at = next((i for i, each in enumerate(parts) if each is Ellipsis), len(parts))
    missing = rank - sum(each is not Ellipsis for each in parts)
    if missing < 0:
        raise Untraceable("it has an axis for the points")
    return (*parts[:at], *(slice(None),) * missing, *parts[at + 1 :])
