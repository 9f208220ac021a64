"""What a lower package offers and an upper one does; `pied/__init__` says where, and it is loaded when it is called."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

_places: dict[str, str] = {}


def place(name: str, module: str, function: str) -> None:
    """Say which function does what is offered under a name."""
    _places[name] = f"{module}:{function}"


def offered(name: str) -> Callable[..., Any]:
    """Return the function that does what is offered under a name."""
    module, _, function = _places[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
