"""What belongs to the runs of a plan beside their studies, in the same SQLite file: how they ended, their curves."""

import io
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bench.plan import Task
from pied.bench.runs import FAILED, Run
from pied.errors import StoreError

BUSY = 60.0
"""Seconds that a writer waits for the others."""
TABLES = """
CREATE TABLE IF NOT EXISTS bench_runs (
    name TEXT PRIMARY KEY, task TEXT NOT NULL, ended TEXT NOT NULL, error TEXT NOT NULL, evaluations INTEGER NOT NULL,
    initial INTEGER NOT NULL, spent REAL NOT NULL, made TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS bench_curves (
    name TEXT NOT NULL, what TEXT NOT NULL, evaluations INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (name, what)
);
"""


@dataclass(frozen=True)
class Entry:
    """How a run ended."""

    task: Task
    ended: str
    error: str
    evaluations: int
    initial: int
    spent: float
    """Seconds of a core, of all processes that worked on it."""
    made: Mapping[str, str]

    def satisfies(self, task: Task) -> bool:
        """Whether nothing is left to do for a task."""
        return self.ended not in ("FINISHED", FAILED) or self.evaluations >= task.budget or self.is_solved

    @property
    def is_solved(self) -> bool:
        """Whether it stopped because there was nothing left to find."""
        return self.ended == "FINISHED" and self.task.stop is not None and self.evaluations < self.task.budget


def file_of(store: str | Path) -> Path:
    """Return the file of a SQLite store, given as a path or as sqlite:///path."""
    text = str(store)
    if "://" in text and not text.startswith("sqlite:///"):
        raise StoreError(f"the bench keeps its records in one SQLite file; '{text}' is none")
    return Path(text.removeprefix("sqlite:///"))


class Ledger:
    """The bench's own tables in the file of a store."""

    def __init__(self, store: str | Path, *, read_only: bool = False) -> None:
        self.file = file_of(store)
        if read_only and not self.file.is_file():
            raise StoreError(f"there is no store at {self.file}")
        if not read_only:
            from pied.records.sql import Store  # here, so that machines without a database library can compute curves

            Store.connect(self.file).close()  # makes the tables of the studies
        self._db = sqlite3.connect(self.file, timeout=BUSY, isolation_level=None)
        if not read_only:
            self._db.executescript(TABLES)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def write(self, run: Run) -> None:
        """Write down how a run ended; the seconds of its earlier processes are added."""
        before = self._db.execute("SELECT spent FROM bench_runs WHERE name = ?", (run.task.name,)).fetchone()
        spent = run.spent + (before[0] if before else 0.0)
        row = (
            run.task.name, json.dumps(run.task.to_data()), run.ended, run.error, len(run.trials), run.initial, spent,
            json.dumps(dict(run.made or {})),
        )  # fmt: skip
        self._db.execute("INSERT OR REPLACE INTO bench_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def entries(self) -> dict[str, Entry]:
        """Return how every run ended, by name of its study, in the order of their tasks."""
        try:
            rows = self._db.execute("SELECT * FROM bench_runs").fetchall()
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.file} has no runs of the bench") from error
        found = {}
        for name, task, ended, raised, evaluations, initial, spent, made in rows:
            about = Task.from_data(json.loads(task))
            found[name] = Entry(about, ended, raised, evaluations, initial, spent, json.loads(made))
        return dict(sorted(found.items(), key=lambda each: (each[1].task.seed, each[0])))

    def keep_curves(self, name: str, what: str, evaluations: int, arrays: Mapping[str, ndarray]) -> None:
        """Keep what was computed from a record."""
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
        row = (name, what, evaluations, packed.getvalue())
        self._db.execute("INSERT OR REPLACE INTO bench_curves VALUES (?, ?, ?, ?)", row)

    def curves(self, name: str, what: str, evaluations: int) -> dict[str, Any] | None:
        """Return what was computed from a record of so many evaluations; None when it was not."""
        query = "SELECT data FROM bench_curves WHERE name = ? AND what = ? AND evaluations = ?"
        row = self._db.execute(query, (name, what, evaluations)).fetchone()
        if row is None:
            return None
        with np.load(io.BytesIO(row[0]), allow_pickle=False) as arrays:
            return dict(arrays)
