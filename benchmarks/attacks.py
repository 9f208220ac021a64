"""Stores that go away, fill up, are cut, edited and forged: parts of `benchmarks/crash.py` that use whole studies."""

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from crash import NAME, WORKER, blackbox, problem

from pied import PiedError, StoreAway, StoreError, Study, TellError, Unwritten
from pied.records import journal
from pied.records.schema import tables
from pied.records.sql import Store

# ----------------------------------------------------------------------------------------- a store away during a run


def away(file: Path, runs: int, budget: int = 12) -> dict[str, Any]:
    """Take the store away in the middle of runs of three workers, for a moment or for good, and count what is lost.

    Every attempt to use the store is refused from a random evaluation on, a few times or until the run has ended. What
    black boxes returned must be in the store once the study was opened again, each value once.
    """
    journal.PATIENCE, journal.FIRST_PAUSE = 0.2, 0.01  # one minute in earnest
    generator = random.Random(3)
    counts = {
        "outages that ended": 0,
        "outages that stayed": 0,
        "evaluated": 0,
        "lost": 0,
        "told twice": 0,
        "failed": 0,
    }
    left = 0
    for run in range(runs):
        place = file.with_name(f"{run}-{file.name}")
        measured_values: list[float] = []
        refusals = generator.choice([2, 10**9])
        moment = generator.randint(1, budget)
        store, switch = Store.connect(place), {"left": 0}
        _interrupt(store, switch)

        def box(
            x: Any,
            values: list[float] = measured_values,
            on: dict[str, int] = switch,
            at: int = moment,
            times: int = refusals,
        ) -> float:
            values.append(blackbox(x))
            if len(values) == at:
                on["left"] = times
            time.sleep(0.002)
            return values[-1]  # fmt: skip

        study = Study(problem(blackbox=box), name=NAME, store=store, seed=run, solver="random")
        try:
            study.run(budget, workers=3)
        except Unwritten as error:
            left += len(error.results)
        except StoreError:
            pass
        counts["outages that ended" if refusals == 2 else "outages that stayed"] += 1
        switch["left"] = 0
        with Study(problem(blackbox=blackbox), name=NAME, store=store) as again:
            told = [value.value for value in again.values]
            counts["failed"] += sum(trial.state.value == "failed" for trial in again.trials)
        counts["evaluated"] += len(measured_values)
        counts["lost"] += len(set(measured_values) - set(told))
        counts["told twice"] += len(told) - len(set(told))
    return {"runs": runs, **counts, "taken in from files": left, "files left": len(list(file.parent.glob("*.jsonl")))}


def _interrupt(store: Store, switch: dict[str, int]) -> None:
    """Refuse so many transactions as the switch says."""
    begin = store._begin

    @contextmanager
    def refusing(*, write: bool) -> Iterator[Any]:
        if switch["left"] > 0:
            switch["left"] -= 1
            raise StoreAway("the server is away")
        with begin(write=write) as tx:
            yield tx

    store._begin = refusing  # type: ignore[method-assign]


def full_run(file: Path, runs: int, budget: int = 8) -> dict[str, Any]:
    """Let no file grow any more from a random evaluation on; then make room, and open the study again."""
    import resource

    journal.PATIENCE, journal.FIRST_PAUSE = 0.1, 0.01
    generator, hard = random.Random(4), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    counts = {"evaluated": 0, "told before": 0, "in the exception": 0, "lost": 0, "told twice": 0}
    for run in range(runs):
        place = file.with_name(f"{run}-{file.name}")
        values: list[float] = []
        moment = generator.randint(1, budget)

        def box(x: Any, values: list[float] = values, at: int = moment) -> float:
            values.append(blackbox(x))
            if len(values) == at:
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # a journal is smaller, a page is not
            return values[-1]

        study = Study(problem(blackbox=box), name=NAME, store=place, seed=run, solver="random")
        try:
            study.run(budget, workers=1 + run % 3)
        except Unwritten as error:
            counts["in the exception"] += len(error.results)
        except StoreError:
            pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        study.close()
        with Store.connect(place) as store:
            counts["told before"] += len(store.record(NAME).values())
        with Study(problem(blackbox=blackbox), name=NAME, store=place) as again:
            told = [value.value for value in again.values]
        counts["evaluated"] += len(values)
        counts["lost"] += len(set(values) - set(told))
        counts["told twice"] += len(told) - len(set(told))
    return {"runs": runs, **counts}


# ------------------------------------------------------------------------------------- damaged files, hostile cells

NASTY_FEW: list[Any] = [
    None,
    "text",
    b"\xff\x00blob",
    -1,
    2**63 - 1,
    1e300,
    "{}",
    "[" * 3000,
    '{"x": 1e999}',
    "0x1p+5000",
]
NASTY: list[Any] = [
    *NASTY_FEW, "", 0, 7, 2**62, -(2**63), -1.5, float("inf"), "NaN", "[]", "3", '{"a": 1}', "[" * 3000 + "]" * 3000,
    '{"x": ' + "[" * 200 + "]" * 200 + "}", '{"x": "one"}', '{"x": null}', '{"x": {"float": "abc"}}',
    '{"aim": 3, "lower": ["a"], "upper": 3}', '{"aim": "explore", "lower": [1], "margin": "x", "memory": 3}',
    '{"name": "cuqb", "settings": {"level": "x"}}', '{"name": "random", "settings": 3}', '{"name": 3}',
    '{"variables": {"x": {"lo": null}}, "outputs": ["y"]}', '{"variables": [], "outputs": {"y": 1}}', "-0x1.8p+1",
    "told", "partial", "failed", "asked", "\ud7ff\x00", "x" * 100_000,
]  # fmt: skip
"""What is written into every column of every table."""


def spoil(file: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Change a store behind our back."""
    base = sqlite3.connect(file)
    for text, values in statements:
        base.execute(text, values)
    base.commit()
    base.close()


def _sample(file: Path) -> bytes:
    """A small store with told, failed and open trials."""
    with Study(problem(blackbox=blackbox), name=NAME, store=file, seed=0, solver="random", worker=WORKER) as study:
        study.run(4)
        study.fail(study.ask(), "pump")
        study.ask()
    return file.read_bytes()


def _live(file: Path, *, judged: bool) -> None:
    """Everything one does with a study; what it says about the best point takes long."""
    with Study(problem(blackbox=blackbox), name=NAME, store=file, worker=WORKER) as study:
        assert all(trial.y is not None for trial in study.trials if trial.state.value == "told")
        _ = study.status, study.values, study.questions
        study.gap()
        if judged:
            study.result()
        trial = study.ask()
        with suppress(TellError):
            study.tell(trial, 0.5)
        study.add([0.5, 0.5], 1.0)
        study.fail(study.ask(), "no")


def _judged(file: Path, judged: bool, found: dict[str, Any], label: str) -> None:
    """Live with a store, and count how that went."""
    try:
        _live(file, judged=judged)
        found["harmless"] += 1
    except PiedError as error:
        found["refused"] += 1
        if len(str(error)) > 2000:
            found["which"].append(f"{label}: a sentence of {len(str(error))} characters")
    except Exception as error:
        found["raw errors"] += 1
        found["which"].append(f"{label}: {type(error).__name__}: {error}"[:200])
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()


def hostile(folder: Path, nasty: list[Any], of: list[str] | None = None) -> dict[str, Any]:
    """Write nasty values into every column of every table, one column at a time, and live with the study."""
    whole = _sample(folder / "whole.db")
    found: dict[str, Any] = {"cells": 0, "harmless": 0, "refused": 0, "raw errors": 0, "which": []}
    for table in of or list(tables):
        for column in tables[table].columns:
            for value in nasty:
                file = folder / "hostile.db"
                file.write_bytes(whole)
                spoil(
                    file,
                    (f'CREATE TABLE copied AS SELECT * FROM "{table}"', ()),  # without constraints
                    (f'DROP TABLE "{table}"', ()),
                    (f'ALTER TABLE copied RENAME TO "{table}"', ()),
                    (f'UPDATE "{table}" SET "{column}" = ?', (value,)),
                )
                found["cells"] += 1
                _judged(file, column in ("why", "exact", "solver"), found, f"{table}.{column} = {str(value)[:40]!r}")
    return found


def damaged(folder: Path, count: int) -> dict[str, Any]:
    """Cut files and overwrite parts of them, and live with what is left."""
    whole, generator = _sample(folder / "whole.db"), random.Random(5)
    found: dict[str, Any] = {"files": count, "harmless": 0, "refused": 0, "raw errors": 0, "which": []}
    for place in range(count):
        content, file = bytearray(whole), folder / "damaged.db"
        if place % 2:
            del content[generator.randrange(len(content)) :]
        else:
            begin = generator.randrange(len(content))
            content[begin : begin + 200] = generator.randbytes(200)[: len(content) - begin]
        file.write_bytes(bytes(content))
        _judged(file, False, found, f"file {place}")
    return found
