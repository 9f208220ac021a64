"""Take runs that were made elsewhere into a store, with what their rules recommended."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pied.bench import curves
from pied.bench.ledger import Ledger, file_of
from pied.bench.runs import from_data, keep


def take(records: Iterable[dict[str, Any]], store: str | Path) -> tuple[int, int]:
    """Write records of runs into a store; return how many were new, and how many were there already."""
    place = str(file_of(store).absolute())
    new = old = 0
    with Ledger(place) as ledger:
        known = ledger.entries()
        for data in records:
            run = from_data(data)
            entry = known.get(run.task.name)
            if entry is not None and entry.evaluations >= len(run.trials):
                old += 1
                continue
            keep(run, place)
            ledger.write(run)
            curves.keep(ledger, run.task, curves.arrays_of(run, _points(data)))
            new += 1
    return new, old


def _points(data: dict[str, Any]) -> dict[str, Tensor]:
    """Recommended points by rule: numbers of evaluations, or the points themselves."""
    X = torch.tensor(data["x"], dtype=torch.float64)
    found = {}
    for rule, at in data.get("recommended", {}).items():
        is_rows = bool(at) and isinstance(at[0], int)
        found[rule] = X[torch.tensor(at)] if is_rows else torch.tensor(at, dtype=torch.float64)
    return found
