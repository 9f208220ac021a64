"""The arguments of a problem under other names of its variables, outputs and constraints."""

import re
from collections.abc import Mapping
from typing import Any

from pied.errors import FormulaError
from pied.problem.named import groups
from pied.problem.parser import tokens
from pied.problem.problem import Problem

_PLACE = re.compile(r"\[[0-9]+\]$")
"""The place of an element at the end of its name."""


def renamed_words(problem: Problem, names: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed arguments of a problem whose names change; Python functions stay as they are.

    Args:
        problem: The problem with the old names.
        names: The new names by the old ones; "c" stands for the whole vector c[1], c[2], ...
        given: Arguments that were given anew, with the new names.
    """
    if not names:
        return dict(given)
    stated: dict[str, Any] = problem._words
    found: dict[str, Any] = {}
    for word in ("variables", "outputs", "inputs", "noise", "ranges", "tolerance"):
        found[word] = _renamed(stated[word], names)
    if isinstance(stated["inputs"], Mapping):
        found["inputs"] = {name: _renamed(each, names) for name, each in found["inputs"].items()}
    for word in ("maximize", "minimize"):
        found[word] = _function(stated[word], names)
    limits = stated["subject_to"]
    if isinstance(limits, Mapping):
        found["subject_to"] = {names.get(name, name): _function(each, names) for name, each in limits.items()}
    elif limits is not None:
        found["subject_to"] = [_function(each, names) for each in limits]
    if isinstance(stated["models"], Mapping):
        found["models"] = {_new(name, names): _function(each, names) for name, each in stated["models"].items()}
    if stated["equations"] is not None:
        found["equations"] = [_function(each, names) for each in stated["equations"]]
    if isinstance(stated["outputs"], Mapping):
        found["outputs"] = {name: _described(each, names) for name, each in found["outputs"].items()}
    if given.keys() & {"maximize", "minimize"}:
        found |= {"maximize": None, "minimize": None}
    return {word: value for word, value in found.items() if value is not None} | dict(given)


def element_names(outputs: list[str], names: Mapping[str, str]) -> dict[str, str]:
    """Return names with each renamed vector of outputs replaced by its elements."""
    found: dict[str, str] = {}
    vectors = groups(outputs)
    for old, new in names.items():
        if old in vectors and old not in outputs:
            found |= {outputs[place]: f"{new}[{count}]" for count, place in enumerate(vectors[old], 1)}
        else:
            found[old] = new
    return found


def renamed_formula(text: str, names: Mapping[str, str]) -> str:
    """Return a formula with other names; a text that is no formula is returned as it is."""
    try:
        found = tokens(text)
    except FormulaError:
        return text
    made, end = "", 0
    for kind, value, place in found:
        if kind in ("name", "quoted"):
            quotes = 2 if kind == "quoted" else 0
            made += text[end:place] + _written(value, _new(value, names), is_quoted=kind == "quoted")
            end = place + len(value) + quotes
    return made + text[end:]


def _new(name: str, names: Mapping[str, str]) -> str:
    """Return the new name of a variable, an output or an element of a vector."""
    place = _PLACE.search(name)
    if name in names or place is None:
        return names.get(name, name)
    stem = name[: place.start()]
    return names.get(stem, stem) + place[0]


def _written(old: str, new: str, *, is_quoted: bool) -> str:
    """Return a name as it stands in a formula: odd ones in backticks."""
    is_plain = _PLACE.sub("", new).isidentifier()
    return f"`{new}`" if (is_quoted and new == old) or not is_plain else new


def _described(given: Any, names: Mapping[str, str]) -> Any:
    """Return what is said of an output, with the new names in its model."""
    has_model = isinstance(given, Mapping) and "model" in given
    return {**given, "model": _function(given["model"], names)} if has_model else given


def _function(given: Any, names: Mapping[str, str]) -> Any:
    if isinstance(given, Mapping):  # several objectives, which keep their own names
        return {own: _function(each, names) for own, each in given.items()}
    return renamed_formula(given, names) if isinstance(given, str) else given


def _renamed(given: Any, names: Mapping[str, str]) -> Any:
    """Return a dictionary or a list of names with the new ones."""
    if isinstance(given, Mapping):
        return {_new(name, names): each for name, each in given.items()}
    return [_new(name, names) for name in given] if isinstance(given, list | tuple) else given
