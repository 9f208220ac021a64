"""The benchmark tables in the SQLite file of the studies: how each task ended, and its curves."""

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
from pied.bench.runs import FAILED, Case
from pied.errors import StoreError

LOCK_SECONDS = 60.0
"""How long a writer waits for others."""
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
    """How a task ended."""

    task: Task
    ended: str
    error: str
    evaluations: int
    initial: int
    spent: float
    """Core seconds of all processes that worked on it."""
    made: Mapping[str, str]

    def satisfies(self, task: Task) -> bool:
        """Tell whether a task needs no more evaluations."""
        return self.ended not in ("FINISHED", FAILED) or self.evaluations >= task.budget or self.is_solved

    @property
    def is_solved(self) -> bool:
        """Whether it stopped early because the optimum was found."""
        return self.ended == "FINISHED" and self.task.stop is not None and self.evaluations < self.task.budget


def file_of(store: str | Path) -> Path:
    """Return the file of a SQLite store, given as a path or as sqlite:///path."""
    text = str(store)
    if "://" in text and not text.startswith("sqlite:///"):
        raise StoreError(f"benchmarks are stored in one SQLite file; give its path instead of '{text}'")
    return Path(text.removeprefix("sqlite:///"))


class Ledger:
    """The benchmark tables in the file of a store."""

    def __init__(self, store: str | Path, *, read_only: bool = False) -> None:
        self.file = file_of(store)
        if read_only and not self.file.is_file():
            raise StoreError(f"there is no store at {self.file}")
        if not read_only:
            from pied.records.sql import Store  # here, so that curves can be computed without a database library

            Store.connect(self.file).close()  # creates the tables of the studies
        self._db = sqlite3.connect(self.file, timeout=LOCK_SECONDS, isolation_level=None)
        if not read_only:
            self._db.executescript(TABLES)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def write(self, case: Case) -> None:
        """Record how a task ended; the time of earlier processes is added."""
        before = self._db.execute("SELECT spent FROM bench_runs WHERE name = ?", (case.task.name,)).fetchone()
        spent = case.spent + (before[0] if before else 0.0)
        row = (
            case.task.name, json.dumps(case.task.to_data()), case.ended, case.error, len(case.trials), case.initial,
            spent, json.dumps(dict(case.made or {})),
        )  # fmt: skip
        self._db.execute("INSERT OR REPLACE INTO bench_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def entries(self) -> dict[str, Entry]:
        """Return how every task ended, by name of its study, ordered by seed and name."""
        try:
            rows = self._db.execute("SELECT * FROM bench_runs").fetchall()
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.file} has no benchmark runs") from error
        found = {}
        for name, task, ended, raised, evaluations, initial, spent, made in rows:
            about = Task.from_data(json.loads(task))
            found[name] = Entry(about, ended, raised, evaluations, initial, spent, json.loads(made))
        return dict(sorted(found.items(), key=lambda each: (each[1].task.seed, each[0])))

    def keep_curves(self, name: str, what: str, evaluations: int, arrays: Mapping[str, ndarray]) -> None:
        """Store arrays computed from a study."""
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
        row = (name, what, evaluations, packed.getvalue())
        self._db.execute("INSERT OR REPLACE INTO bench_curves VALUES (?, ?, ?, ?)", row)

    def curves(self, name: str, what: str, evaluations: int) -> dict[str, Any] | None:
        """Return the arrays computed from a study with this many evaluations; None if there are none."""
        query = "SELECT data FROM bench_curves WHERE name = ? AND what = ? AND evaluations = ?"
        row = self._db.execute(query, (name, what, evaluations)).fetchone()
        if row is None:
            return None
        with np.load(io.BytesIO(row[0]), allow_pickle=False) as arrays:
            return dict(arrays)
