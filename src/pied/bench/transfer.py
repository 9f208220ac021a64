"""Import tasks that were performed elsewhere into a store, with their recommendations."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bench import curves
from pied.bench.ledger import Ledger, file_of
from pied.bench.runs import from_data, keep


def take(records: Iterable[dict[str, Any]], store: str | Path) -> tuple[int, int]:
    """Import performed tasks as plain data; return how many were new, and how many were stored already."""
    place = str(file_of(store).absolute())
    new = old = 0
    with Ledger(place) as ledger:
        known = ledger.entries()
        for data in records:
            case = from_data(data)
            entry = known.get(case.task.name)
            if entry is not None and entry.evaluations >= len(case.trials):
                old += 1
                continue
            keep(case, place)
            ledger.write(case)
            curves.keep(ledger, case.task, curves.arrays_of(case, _points(data)))
            new += 1
    return new, old


def _points(data: dict[str, Any]) -> dict[str, ndarray]:
    """Return recommended points by rule; the data have evaluation numbers, or the points themselves."""
    X = np.array(data["x"], dtype=np.float64)
    found = {}
    for rule, at in data.get("recommended", {}).items():
        is_rows = bool(at) and isinstance(at[0], int)
        found[rule] = X[at] if is_rows else np.array(at, dtype=np.float64)
    return found
