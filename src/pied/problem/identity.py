"""The identity of a function as text: its code, and the values that it uses besides its arguments.

Two lambdas with the same text but different limits are different functions. Values are written with full precision and
without memory addresses, so the text is the same in another process.
"""

import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from pied.problem.formula import Formula
from pied.problem.tensors import dense, is_tensor

MOST_LEVELS = 24
"""Levels of nested values that are written: deeper values are represented by their type."""
MOST_OBJECTS = 10_000
"""Objects that are written: they are enough to identify a function that holds a whole simulator."""
LONGEST_REPEATED = 100
"""Characters of a text that is repeated as it is; a longer one is replaced by its digest."""
_PLAIN = ("decimal", "fractions", "datetime", "pathlib", "uuid", "ipaddress")
"""Modules of the standard library whose objects show their whole value."""

Seen = dict[int, tuple[Any, str]]
"""Objects already written, by memory address: the object, which is kept alive, and its text."""


def source_of(function: Any) -> str | None:
    """Return the source text of a function; None if there is none."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None


def code_of(function: Any) -> str:
    """Return a text that is the same for the same code: the source, else the bytecode, else the type's name."""
    code = getattr(function, "__code__", None)
    return source_of(function) or (_compiled(code) if code else _name(type(function)))


def values_of(function: Any) -> str:
    """Return the values that a function uses besides its arguments and its own text; empty if there are none.

    These are closures, defaults, globals and constants of modules that it reads, arguments of `functools.partial`, and
    attributes of the object whose method it is.
    """
    return _used(function, {}, 0)


def described(name: str, function: Any, *, with_values: bool = True) -> dict[str, Any]:
    """Describe a function for storage: a formula as text, other code as its source (which is never run) and a hash.

    The values that it uses besides its arguments, such as a limit in a closure, have a hash of their own: they belong
    to the question, but may be secret. Those of a black box, such as a connection, do not belong to the question
    (`with_values=False`).
    """
    if isinstance(function, Formula):
        room = {"room": function.room} if function.room else {}
        return {"name": name, "formula": function.text, "part": function.part, **room}
    known = getattr(function, "stored_as", None)
    made = {"name": name, "source": source_of(function), "hash": known or digest(code_of(function))}
    values = values_of(function) if with_values else ""
    return made | ({"values": digest(values)} if values else {})


def digest(text: str) -> str:
    """Return a short fingerprint of a text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _compiled(code: CodeType) -> str:
    parts = [_compiled(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code.hex(), parts, code.co_names, code.co_varnames))


def _function(function: Any, seen: Seen, depth: int) -> str:
    return f"{digest(code_of(function))} with ({_used(function, seen, depth)})"


def _used(function: Any, seen: Seen, depth: int) -> str:
    """Return the values that a callable object uses."""
    found: dict[str, str] = {}
    if isinstance(function, functools.partial):
        found["function"] = _text(function.func, seen, depth)
        found["arguments"] = _text([list(function.args), function.keywords], seen, depth)
    elif isinstance(function, MethodType):
        found["function"] = _used(function.__func__, seen, depth)
        found["self"] = _text(function.__self__, seen, depth)
    elif isinstance(function, FunctionType):
        found = dict(_of_function(function, seen, depth))
    elif not isinstance(function, BuiltinFunctionType | type):
        found["self"] = _text(function, seen, depth)
        method = inspect.getattr_static(type(function), "__call__", None)
        if isinstance(method, FunctionType):
            found["function"] = _text(method, seen, depth)
    return "; ".join(f"{name} = {text}" for name, text in sorted(found.items()) if text)


def _of_function(function: FunctionType, seen: Seen, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the values of a plain function: defaults, closure, and the globals that it reads."""
    if function.__defaults__:
        yield "defaults", _text(function.__defaults__, seen, depth)
    if function.__kwdefaults__:
        yield "keywords", _text(function.__kwdefaults__, seen, depth)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"closure {name}", _text(cell.cell_contents, seen, depth)
        except ValueError:  # not bound yet
            continue
    if hasattr(function, "__wrapped__"):
        yield "wrapped", _text(function.__wrapped__, seen, depth)
    for name, value in _globals(function.__code__, function.__globals__):
        is_code = isinstance(value, FunctionType | BuiltinFunctionType | type)
        if (
            not is_code or value.__module__ == function.__module__
        ):  # a library's functions are identified by the code that names them
            yield f"global {name}", _text(value, seen, depth)


def _globals(code: CodeType, names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the globals that code reads, and the attributes of modules that it reads: `prices.steel`."""
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG")]
    for place, step in enumerate(steps):
        if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME") or step.argval not in names:
            continue
        path, value = str(step.argval), names[step.argval]
        for further in steps[place + 1 :]:
            if not isinstance(value, ModuleType) or further.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                break
            path, value = f"{path}.{further.argval}", getattr(value, further.argval, None)
        if not isinstance(value, ModuleType):
            yield path, value
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner, names)


def _text(value: Any, seen: Seen, depth: int) -> str:
    """Return a value as text, with full precision and without addresses."""
    if isinstance(value, enum.Enum):
        return f"{_name(type(value))}.{value.name}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | bytearray | range | slice):
        return repr(value)
    if isinstance(value, np.generic):
        return repr(value.item()) if value.dtype.kind in "biufcSU" else f"{value.dtype} {value!s}"
    if isinstance(value, ModuleType | BuiltinFunctionType | type):
        return _name(value)
    if id(value) in seen:
        return seen[id(value)][1]
    if depth > MOST_LEVELS or len(seen) > MOST_OBJECTS:
        return _name(type(value))
    seen[id(value)] = (value, f"{_name(type(value))} again")
    if isinstance(value, FunctionType | MethodType | functools.partial):
        text = _function(value, seen, depth + 1)
    else:
        text = _whole(value, seen, depth + 1)
    seen[id(value)] = (value, text if len(text) < LONGEST_REPEATED else digest(text))
    return seen[id(value)][1]


def _whole(value: Any, seen: Seen, depth: int) -> str:
    """Return a value that consists of other values as text."""
    if is_tensor(value):
        value = _array(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return f"array {value.shape} {_text(value.ravel().tolist(), seen, depth)}"
        return f"array {value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, Mapping):
        pairs = [f"{_text(name, seen, depth)}: {_text(each, seen, depth)}" for name, each in value.items()]
        return f"{{{', '.join(sorted(pairs))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(each, seen, depth) for each in value)}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(_text(each, seen, depth) for each in value))}}}"
    if hasattr(value, "to_numpy") and hasattr(value, "index"):  # a table or a column of pandas
        columns = _text(list(getattr(value, "columns", [])), seen, depth)
        return f"{_name(type(value))} {columns} {_text(value.to_numpy(), seen, depth)}"
    name = f"{_name(type(value))} {getattr(value, '__name__', '')}".strip()
    held = _attributes(value)
    return f"{name} {_text(held, seen, depth)}" if held else name


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object; for a dataclass, the fields that are compared."""
    kind = type(value)
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name, None) for each in dataclasses.fields(value) if each.compare}
    if kind.__module__ in _PLAIN:
        return {"value": repr(value)}
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names and kind.__module__ != "types":
        return {}  # loggers, locks and open files do not belong to a question
    names = [each.__dict__.get("__slots__", ()) for each in kind.__mro__]
    slots = [name for each in names for name in ([each] if isinstance(each, str) else each)]
    found = dict(getattr(value, "__dict__", {}))
    for name in slots:
        try:
            found[name] = getattr(value, name)
        except Exception:  # an attribute of a user's object may raise anything; it is then ignored
            continue
    return found


def _array(value: Any) -> Any:
    """Return a tensor as an array, or as text if NumPy has no such type."""
    try:
        return dense(value)
    except (RuntimeError, TypeError, NotImplementedError):
        return str(value.detach().cpu())


def _name(kind: Any) -> str:
    return str(getattr(kind, "__qualname__", None) or getattr(kind, "__name__", "value"))
