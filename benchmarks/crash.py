"""Kill workers, run many at once and fill the disk of a store; no told value may be lost.

    python benchmarks/crash.py            # the full numbers, about five minutes; writes benchmarks/results/crash.md
    python benchmarks/crash.py --quick    # a small version

Workers are forked from a process that loads `records.record` and a store alone, so that a thousand of them can be
killed in minutes. Only the part with CUQB uses whole studies. A worker acknowledges a
trial on a pipe after `tell` has returned; from then on it must be in the store.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pied import __version__
from pied.errors import StoreError
from pied.records.record import TOLD, About
from pied.records.sql import Store

RESULTS = Path(__file__).parent / "results" / "crash.md"
SEED, D, INITIAL = 7, 2, 5
NAME, WORKER = "crash", "lab"
PARTS = ("kills", "next", "cuqb", "crowd", "full", "away", "fullrun", "damaged", "hostile")
EARLY = 0.15
"""Fraction of workers that are killed while they open the store."""


def statement() -> dict[str, Any]:
    """`problem().statement()`, written down for processes that do not load `pied.problem`."""
    box = {"lo": 0.0, "hi": 4.0, "log": False, "unit": ""}
    return {
        "variables": {"a": dict(box), "b": dict(box)},
        "outputs": ["y"],
        "blackbox": None,
        "sense": "minimize",
        "objective": {"name": "y", "formula": "y", "part": None},
        "subject_to": [
            {"name": "far enough", "formula": "y >= 1", "part": 0},
            {"name": "near", "formula": "y <= 40", "part": 0},
        ],
        "inputs": {"y": ["a", "b"]},
        "noise": {"y": 0.0},
        "ranges": {"y": [None, None]},
        "constants": {},
        "tolerance": {"far enough": None, "near": None},
    }


def problem(**words: Any) -> Any:
    """Two variables, one output, two constraints."""
    from pied import Problem

    return Problem(
        {"a": (0.0, 4.0), "b": (0.0, 4.0)},
        ["y"],
        minimize="y",
        subject_to={"far enough": "y >= 1", "near": "y <= 40"},
        noise=0,
        **words,
    )


def blackbox(x: Any) -> float:
    """The black box."""
    return (x["a"] - 3.0) ** 2 + (x["b"] - 2.0) ** 2


def measured(x: Any) -> float:
    """The same with a delay, so that some workers are killed between ask and tell."""
    time.sleep(0.3)
    return blackbox(x)


def point(number: int) -> dict[str, float]:
    """Where trial `number` of the solver `random` is: the numbers of `rng.Stream`, drawn without SciPy."""
    label, row, shape = (("initial",), number - 1, (10_000, D)) if number <= INITIAL else (("trial", number), 0, (1, D))
    text = repr((SEED, label)).encode()
    u = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:16], "big")).random(shape)[row]
    return {"a": float(0.0 * (1 - u[0]) + 4.0 * u[0]), "b": float(0.0 * (1 - u[1]) + 4.0 * u[1])}


def create(url: str) -> None:
    """Write the empty study."""
    with Store.connect(url) as store:
        store.create(About(NAME, statement(), SEED, {"name": "random", "settings": {"is": "Random"}}, INITIAL))


# --------------------------------------------------------------------------------------------------------- kill -9


def ask_and_tell(store: Store, acknowledge: Callable[[int], None], cycles: int = 10**9) -> None:
    """Work: take the own pending trial or the next one, tell it, acknowledge it, repeat."""
    record = store.record(NAME)
    change, rows = record.changes(0)
    number = max((row.number for row in rows), default=0)
    acknowledge(0)
    for _ in range(cycles):
        row = record.claim(WORKER, 60.0) or record.take(
            number + 1, point(number + 1), why={"aim": "initial" if number < INITIAL else "random"}, worker=WORKER
        )
        if row is None:
            change, rows = record.changes(change)
            number = max((row.number for row in rows), default=number)
            continue
        number = max(number, row.number)
        record.tell(row.number, {"y": blackbox(row.x)}, worker=WORKER)
        acknowledge(row.number)


def killed(
    life: Callable[[Callable[[int], None]], None], delay: float, *, early: bool = False
) -> tuple[list[int], bool]:
    """Fork a worker and kill it after some time, counted from its start or from when it is ready.

    Returns:
        The trials it acknowledged, and whether it had an error.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            life(lambda number: os.write(writing, b"%d\n" % number) and None)
        except BaseException as error:
            os.write(writing, f"error {error!r}\n".encode())
        os._exit(1)
    os.close(writing)
    if not early:
        select.select([reading], [], [], 60)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = b""
    while part := os.read(reading, 65536):
        said += part
    os.close(reading)
    lines = said.decode().split("\n")[:-1]
    for line in lines:
        if line.startswith("error"):
            print(line, file=sys.stderr)
    return [int(line) for line in lines if line.isdigit() and line != "0"], any(
        line.startswith("error") for line in lines
    )


def look(file: Path, acknowledged: set[int]) -> dict[str, int]:
    """Open the file after the kill, and return what is wrong."""
    with Store.connect(file) as store:
        rows = store.record(NAME).changes(0)[1]
        told = [value.number for value in store.record(NAME).values()]
    connection = sqlite3.connect(file)
    intact = connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    here = {row.number for row in rows if row.state == TOLD}
    wrong = sum(row.y.get("y") != blackbox(row.x) for row in rows if row.state == TOLD)
    return {
        "lost": len(acknowledged - here),
        "told twice": len(told) - len(set(told)),
        "damaged": int(not intact),
        "wrong": wrong + ([row.number for row in rows] != list(range(1, len(rows) + 1))),
        "left pending": sum(row.state != TOLD for row in rows),
        "told": len(here),
    }


def kills(file: Path, count: int, moment: float = 0.1) -> dict[str, Any]:
    """Kill workers at random moments of ask and tell, and check the store after each."""
    assert "scipy" not in sys.modules, "these workers are forked: no solver must be loaded"
    url, generator = f"sqlite:///{file}", random.Random(0)
    create(url)
    acknowledged: set[int] = set()
    store = Store.connect(url)
    ask_and_tell(store, acknowledged.add, cycles=2)  # loads what is needed before the forks
    store.close()  # forked workers open their own connections
    acknowledged.discard(0)
    counts = {"lost": 0, "told twice": 0, "damaged": 0, "wrong": 0, "left pending": 0, "errors": 0}
    seen = {"told": 0}
    for _ in range(count):
        early = generator.random() < EARLY
        fresh, erred = killed(lambda said: ask_and_tell(store, said), generator.uniform(0, moment), early=early)
        acknowledged |= set(fresh)
        seen = look(file, acknowledged)
        for name in counts.keys() & seen.keys():
            counts[name] += seen[name]
        counts["errors"] += erred
    return {"kills": count, "acknowledged": len(acknowledged), "told": seen["told"], **counts}


def same_next(file: Path) -> bool:
    """Tell whether the study with killed workers proposes the same points as an undisturbed one."""
    from pied import Study

    with Study(problem(), name=NAME, store=f"sqlite:///{file}", worker=WORKER) as study:
        whole = Study(problem(), seed=SEED, solver=study.solver)
        for trial in study.trials:
            again = whole.ask()
            if dict(again.x) != dict(trial.x):
                return False
            if trial.y is not None:
                whole.tell(again, dict(trial.y))
        pending = [trial for trial in study.trials if trial.y is None]
        asked = study.ask()
        return asked.number == pending[0].number if pending else dict(asked.x) == dict(whole.ask().x)


def cuqb_kills(file: Path, count: int, moment: float = 5.0) -> dict[str, Any]:
    """The same with whole studies and CUQB, evaluated by `run`."""
    from pied import Study

    url, generator = f"sqlite:///{file}", random.Random(1)
    stated = problem(blackbox=measured)
    Study(stated, name=NAME, store=url, seed=SEED, worker=WORKER).close()
    acknowledged: set[int] = set()
    counts = {"lost": 0, "told twice": 0, "damaged": 0, "wrong": 0, "left pending": 0, "errors": 0}
    seen = {"told": 0}

    def life(acknowledge: Callable[[int], None]) -> None:
        study = Study(stated, name=NAME, store=url, worker=WORKER)
        acknowledge(0)
        study.run(10_000, on_tell=lambda _, trial: acknowledge(trial.number))

    for _ in range(count):
        fresh, erred = killed(life, generator.uniform(0, moment))
        acknowledged |= set(fresh)
        seen = look(file, acknowledged)
        for name in counts.keys() & seen.keys():
            counts[name] += seen[name]
        counts["errors"] += erred
    equal = same_next(file)
    return {"kills": count, "acknowledged": len(acknowledged), "told": seen["told"], **counts, "next is equal": equal}


# ----------------------------------------------------------------------------------------------------------- a crowd


def crowd(url: str, workers: int, trials: int) -> dict[str, Any]:
    """Many processes on one study, each asking and telling as fast as it can, and one that reads meanwhile."""
    create(url)
    began = time.perf_counter()
    pipes: list[tuple[int, int]] = []
    for place in range(workers):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.write(writing, json.dumps(_member(url, f"worker {place}", trials)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        pipes.append((child, reading))
    reads = _read_meanwhile(url, trials)
    mine: list[int] = []
    failures = 0
    for child, reading in pipes:
        said = b""
        while part := os.read(reading, 65536):
            said += part
        os.close(reading)
        failures += os.waitpid(child, 0)[1] != 0
        mine += json.loads(said or b"[]")
    seconds = time.perf_counter() - began
    with Store.connect(url, read_only=True) as store:
        record = store.record(NAME)
        rows, values = record.changes(0)[1], record.values()
    numbers = [row.number for row in rows]
    return {
        "workers": workers,
        "trials": len(rows),
        "lost": len(set(mine) - {row.number for row in rows if row.state == TOLD}),
        "untold": sum(row.state != TOLD for row in rows),
        "told twice": len(values) - len({value.number for value in values}) + len(mine) - len(set(mine)),
        "numbers distinct": numbers == list(range(1, trials + 1)),
        "failed workers": failures,
        **reads,
        "seconds": round(seconds, 1),
        "trials per second": round(trials / seconds),
    }


def _member(url: str, worker: str, trials: int) -> list[int]:
    """Take numbers and tell until there are enough; the numbers told."""
    told = []
    with Store.connect(url) as store:
        record = store.record(NAME)
        change, number = 0, 0
        while True:
            change, rows = record.changes(change)
            number = max([number, *(row.number for row in rows)])
            if number >= trials:
                return told
            x = {"a": number / trials, "b": 1.0}
            row = record.take(number + 1, x, why={"aim": "random"}, worker=worker, lease=600.0)
            if row is not None:
                record.tell(row.number, {"y": blackbox(x)}, worker=worker)
                told.append(row.number)


def _read_meanwhile(url: str, trials: int) -> dict[str, int]:
    """Read repeatedly while others write; what was read once must stay complete."""
    reads = torn = vanished = known = 0
    with Store.connect(url, read_only=True) as store:
        record = store.record(NAME)
        while known < trials:
            rows = record.changes(0)[1]
            told = sum(row.state == TOLD for row in rows)
            torn += sum((row.state == TOLD) != bool(row.y) for row in rows)
            vanished += told < known
            known, reads = told, reads + 1
            time.sleep(0.05)
    return {"reads meanwhile": reads, "torn reads": torn, "vanished": vanished}


# --------------------------------------------------------------------------------------------------------- disk full


def disk_full(file: Path, pages: int = 40) -> dict[str, Any]:
    """Write until the file cannot grow: the error must be clear, and no told value may be lost."""
    url, told, message = f"sqlite:///{file}", 0, ""
    create(url)
    with Store.connect(url) as store:
        with store._begin(write=False) as tx:  # the only connection, which is kept
            tx.read(f"PRAGMA max_page_count={pages}")
        record = store.record(NAME)
        try:
            for number in range(1, 100_000):
                record.take(number, point(number), why={"aim": "random"}, worker=WORKER)
                record.tell(number, {"y": blackbox(point(number))})
                told = number
        except StoreError as error:
            message = str(error).replace(str(file), file.name)
    seen = look(file, set(range(1, told + 1)))
    with Store.connect(url) as store:  # after space is freed, work continues
        record = store.record(NAME)
        row = record.claim(WORKER) or record.take(told + 1, point(told + 1), worker=WORKER)
        went_on = row is not None and record.tell(row.number, {"y": 1.0}).state == TOLD
    return {"told": told, "lost": seen["lost"], "damaged": seen["damaged"], "went on": went_on, "message": message}


# -------------------------------------------------------------------------------------------------------- the report


def table(name: str, figures: dict[str, Any]) -> str:
    """Figures as a table of two columns."""
    rows = "\n".join(f"| {key} | {value} |" for key, value in figures.items())
    return f"## {name}\n\n| figure | |\n| --- | --- |\n{rows}\n"


def main() -> None:
    """Run everything and write the report."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--quick", action="store_true", help="small numbers; nothing is written")
    reader.add_argument("--part", choices=[*PARTS], help=argparse.SUPPRESS)
    reader.add_argument("--only", nargs="+", choices=[*PARTS], help="some parts; nothing is written")
    reader.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    given = reader.parse_args()
    if given.part:
        print(json.dumps(_part(given.part, given.place, given.quick)))
        return
    with TemporaryDirectory() as folder:
        figures = {}
        for part in given.only or PARTS:
            words = [sys.executable, __file__, "--part", part, "--place", folder, *(["--quick"] if given.quick else [])]
            began = time.perf_counter()
            done = subprocess.run(words, stdout=subprocess.PIPE, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            figures[part] = json.loads(done.stdout) | {"wall seconds": round(time.perf_counter() - began)}
            print(part, figures[part], flush=True)
    if "next" in figures and "kills" in figures:
        figures["kills"]["next is equal"] = figures.pop("next")["equal"]
    head = (
        f"# Crash suite\n\n{time.strftime('%Y-%m-%d')}, pied {__version__}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {os.cpu_count()} processors, {platform.system()}. "
        "`python benchmarks/crash.py`\n\n"
        "Every figure called lost, told twice, damaged, wrong, torn, vanished or raw errors must be 0.\n"
    )
    titles = {
        "kills": "Killed (-9) at random moments, workers that load a store alone, solver `random`",
        "cuqb": "Killed (-9) at random moments, whole studies, CUQB",
        "crowd": "Many processes on one study, and a reader",
        "full": "Disk full",
        "away": "The store away during runs of three workers, for a moment or for good",
        "fullrun": "Disk full during runs",
        "damaged": "Files cut or overwritten",
        "hostile": "Nasty values in every column of every table",
    }
    report = "\n".join([head, *(table(title, figures[part]) for part, title in titles.items() if part in figures)])
    if not given.quick and not given.only:
        RESULTS.write_text(report)
    print(report)


def _part(part: str, folder: Path, quick: bool) -> dict[str, Any]:
    file = folder / f"{part}.db"
    if part == "kills":
        return kills(file, 20 if quick else 1000)
    if part == "next":
        return {"equal": same_next(folder / "kills.db")}
    if part == "cuqb":
        return cuqb_kills(file, 2 if quick else 20)
    if part == "crowd":
        return crowd(f"sqlite:///{file}", 8, 100 if quick else 10_000)
    if part == "full":
        return disk_full(file)
    import attacks

    if part == "away":
        return attacks.away(file, 6 if quick else 60)
    if part == "fullrun":
        return attacks.full_run(file, 3 if quick else 12)
    if part == "damaged":
        return attacks.damaged(folder, 10 if quick else 200)
    return attacks.hostile(folder, attacks.NASTY_FEW[:3] if quick else attacks.NASTY)


if __name__ == "__main__":
    main()
