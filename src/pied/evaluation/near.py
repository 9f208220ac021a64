"""Warm starts: what an evaluation is told about the nearest point that was evaluated before it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEAR, STATE = "PIED_NEAR", "PIED_STATE"
"""Environment variables in which a program finds the nearest point, as JSON, and the folder for its own state."""


@dataclass(frozen=True)
class Near:
    """The nearest told point: a simulator that starts from its solution needs fewer iterations."""

    trial: int
    """Its number."""
    x: Mapping[str, Any]
    """Its settings."""
    y: Mapping[str, float]
    """Its outputs; NaN where one was not told."""
    state: Path | None
    """The folder in which its evaluation left files; None if it left none."""


def environment(near: Near | None, state: Path | None) -> dict[str, str]:
    """Return what a program finds in its environment; nothing of what there is not."""
    found = {}
    if near is not None:
        told = {name: value for name, value in near.y.items() if value == value}
        where = None if near.state is None else str(near.state)
        found[NEAR] = json.dumps({"trial": near.trial, "x": dict(near.x), "y": told, "state": where})
    if state is not None:
        found[STATE] = str(state)
    return found
