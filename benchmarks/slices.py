"""Many runs in parts of limited time, complete seeds first, on a machine with only NumPy and SciPy.

Such a benchmark defines its tasks as plain data and a function that performs one. Results are appended to a file of
JSON lines (compressed if its name ends in .gz). Tasks that are in the file already are skipped, unless they were
performed by other code. A time limit ends each part:

    PYTHONPATH=src python3 benchmarks/ablation.py --limit 500 --out ablation.jsonl.gz     # again and again
    python benchmarks/ablation.py --out ablation.jsonl.gz --report                        # anywhere, from the records
"""

from pied.bench import away  # must be first: it makes the others loadable without jaxtyping

# isort: split
import argparse
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import report
import runner

from pied.bench.drive import THREADS, each
from pied.bench.plan import hardness
from pied.evaluation.executors import Processes, Serial

Item = dict[str, Any]
"""A task as plain data; 'problem' and 'seed' are in it."""
Work = Callable[[Item], dict[str, Any]]
"""Performs a task: a function at the top level of a module, so that processes find it."""
Cases = dict[str, dict[str, list[Any]]]
"""Records of runs by problem, then by loop."""
EVERY = 15.0
"""Seconds between two lines of progress."""


def parser(text: str | None, *, out: str, seeds: int) -> argparse.ArgumentParser:
    """Return a command line with the options that all such benchmarks share.

    Args:
        text: Description of the benchmark.
        out: Name of its file of records.
        seeds: How many by default.
    """
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seeds", type=int, default=seeds, help=f"how many, from 0; default {seeds}")
    made.add_argument("--out", type=Path, default=report.RESULTS / out, help="records are appended here")
    made.add_argument("--limit", type=float, metavar="SECONDS", help="then what is under way is left")
    made.add_argument("--workers", "--jobs", type=int, default=report.cores(), help="processes; default all processors")
    made.add_argument("--any-code", action="store_true", help="count records of other code as done")
    made.add_argument("--report", action="store_true", help="run nothing; write the page from the records")
    made.add_argument("--page", type=Path, help="where the page is written; default benchmarks/results")
    return made


def ordered(items: Iterable[Item]) -> list[Item]:
    """Return tasks ordered by seed and problem, the longest first, so that a limit leaves complete comparisons."""
    return sorted(items, key=lambda item: (item["seed"], -hardness(item["problem"]), item["problem"]))


def work_on(items: Sequence[Item], work: Work, given: argparse.Namespace) -> int:
    """Perform the unfinished tasks in order until the time limit; return how many are left."""
    origin, began = report.made(), time.monotonic()
    until = None if given.limit is None else began + given.limit
    records = read(given.out)
    done = {report.key(r["item"]) for r in records if given.any_code or r["made"]["code"] == origin["code"]}
    todo = [item for item in items if report.key(item) not in done]
    draws = list(dict.fromkeys(item["problem"] for item in todo if item["problem"].startswith("draw:")))
    _say(f"{len(items) - len(todo)} of {len(items)} tasks are done, {len(todo)} to do on {given.workers} processes")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    left, spent, said = len(todo), 0.0, began
    pool = Serial() if given.workers == 1 and until is None else Processes()
    try:
        for _ in each(draws, _optimum, None, given.workers, pool, until=until):
            pass
        for item, record, error in each(todo, worked, work, given.workers, pool, until=until):
            if record is None:  # its process died: the next part tries again
                _say(f"{item}: {error}")
                continue
            with away.opened(given.out, "a") as out:
                out.write(json.dumps({"item": item, **record, "made": origin}) + "\n")
            left, spent, now = left - 1, spent + record["spent"], time.monotonic()
            if now - said > EVERY or not left:
                said = now
                _say(f"{len(todo) - left} of {len(todo)} tasks, {now - began:.0f} s gone, {spent:.0f} core-seconds")
    finally:
        pool.shutdown(wait=False)
    _say(f"{left} tasks are left")
    return left


def work_alone(items: Sequence[Item], given: argparse.Namespace, script: str) -> int:
    """Perform the unfinished tasks in order, each in a fresh process; return how many the time limit left.

    For comparisons of time: no library has been loaded by the task before. What a task had reported when its time was
    up is kept as its 'begun', and handed to it the next time.
    """
    origin, until = report.made(), math.inf if given.limit is None else time.monotonic() + given.limit
    own = {report.key(r["item"]): r for r in read(given.out) if given.any_code or r["made"]["code"] == origin["code"]}
    begun = {name: r["begun"] for name, r in own.items() if "begun" in r}
    todo = [item for item in items if report.key(item) not in own.keys() - begun.keys()]
    _say(f"{len(items) - len(todo)} of {len(items)} tasks are done, {len(todo)} to do on {given.workers} processes")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    left, draws = len(todo), list(dict.fromkeys(i["problem"] for i in todo if i["problem"].startswith("draw:")))
    for _ in each(draws, _optimum, None, given.workers, until=None if until == math.inf else until):
        pass
    with ThreadPoolExecutor(given.workers) as pool:
        busy = [
            pool.submit(lambda item=item: (item, performed(item, script, until, begun.get(report.key(item), []))))
            for item in todo
        ]
        for future in as_completed(busy):
            item, record = future.result()
            if record is None:
                continue
            with away.opened(given.out, "a") as out:
                out.write(json.dumps({"item": item, **record, "made": origin}) + "\n")
            if "begun" not in record:
                left -= 1
                _say(f"{item['problem']}, {item.get('loop', '')}: {record['spent']:.0f} s; {left} tasks left")
    _say(f"{left} tasks are left")
    return left


def performed(item: Item, script: str, until: float, begun: Sequence[Any]) -> dict[str, Any] | None:
    """Perform one task in a process of its own, `script --one ITEM`, one thread each.

    The process reads what was begun before, and prints a line for each further piece and one with its record. If time
    was up, return the pieces so far; None if there are none, or if the process died.
    """
    if time.monotonic() >= until:
        return None
    words, pieces = [sys.executable, script, "--one", json.dumps(item)], list(begun)
    environment = os.environ | dict.fromkeys(THREADS, "1")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as process:
        clock = threading.Timer(min(until - time.monotonic(), threading.TIMEOUT_MAX), process.kill)
        clock.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(pieces))
            process.stdin.close()
            for line in process.stdout:
                told = json.loads(line) if line.startswith("{") and line.endswith("}\n") else {}
                if "record" in told:
                    return told["record"]
                if "piece" in told:
                    pieces.append(told["piece"])
        except BrokenPipeError:  # it ended before it read
            pass
        finally:
            clock.cancel()
    if time.monotonic() < until:
        _say(f"{item}: its process ended with {process.returncode}")
    return {"begun": pieces} if len(pieces) > len(begun) else None


def alone(item: Item, work: Callable[[Item, Sequence[Any], Callable[[Any], None]], dict[str, Any]]) -> None:
    """Perform a task in this process, for `performed`: work gets what was begun, and what reports a further piece."""
    begun, load = json.loads(sys.stdin.read() or "[]"), [os.getloadavg()[0]]

    def reported(piece: Any) -> None:
        print(json.dumps({"piece": piece}), flush=True)

    record = worked(item, lambda item: work(item, begun, reported))
    load.append(os.getloadavg()[0])
    print(json.dumps({"record": {**record, "load": load}}), flush=True)


def _optimum(problem: str, _: None) -> None:
    """Find the optimum of a random problem once, before several processes need it."""
    assert runner.benchmark_of(problem).known is not None


def worked(item: Item, work: Work) -> dict[str, Any]:
    """Perform one task in this process, with one thread; an error is a result, too."""
    began = time.process_time()  # process time, because machines are shared
    try:
        record = work(item)
    except Exception as error:  # the others continue, and the page shows the error
        record = {"error": f"{type(error).__name__}: {error}"}
    return {**record, "spent": round(time.process_time() - began, 3)}


def read(file: Path) -> list[dict[str, Any]]:
    """Return the records of a file, the last one of each task."""
    return list({report.key(record["item"]): record for record in away.lines(file)}.values())


def write(given: argparse.Namespace, page: Callable[[list[dict[str, Any]]], str], name: str) -> str:
    """Write and return the page of the records."""
    return report.published(read(given.out), page, given.page or report.RESULTS / name)


def heading(title: str, records: Sequence[dict[str, Any]]) -> str:
    """Return a title, the origin of the results, and their time."""
    told = [{**record, "task": {"seed": record["item"]["seed"]}} for record in records]
    spent = sum(record.get("spent", 0.0) for record in records)
    return f"{report.heading(title, told)}\n- runs: {len(records)}, {spent / 3600:.2f} core-hours"


def troubles(records: Iterable[dict[str, Any]], words: Sequence[str]) -> list[str]:
    """Return a section with one line for each task that raised an error; empty if there is none."""
    lines = [
        f"- {', '.join(str(record['item'][word]) for word in words)}: {record['error']}"
        for record in records
        if record.get("error")
    ]
    return ["## Runs that raised", "\n".join(lines)] if lines else []


def cases_of(records: Iterable[Item], needed: str) -> Cases:
    """Arrange the records of runs that were performed, which have what is needed, by problem and loop."""
    cases: Cases = {}
    for record in records:
        if needed in record:
            item = record["item"]
            cases.setdefault(item["problem"], {}).setdefault(item["loop"], []).append(record)
    return cases


def loads(records: Iterable[dict[str, Any]]) -> str:
    """Return a sentence on the load of the machine, by loop: times are comparable only if it was alike."""
    by: dict[str, list[float]] = {}
    for record in records:
        by.setdefault(record["item"].get("loop", "all"), []).extend(record.get("load", []))
    told = ", ".join(f"{loop} {report.quantile(each, 0.5):.1f}" for loop, each in by.items() if each)
    return (
        "Runs were parallel, those of a problem one after another; seconds of loops are comparable as far as the "
        f"machine was equally busy. Its load at the beginning and end of runs, median: {told or 'not known'}."
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
