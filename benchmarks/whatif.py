"""How fast the dashboard follows a slider: the best settings, bounds, gap, shadow prices and the map.

    OMP_NUM_THREADS=1 python benchmarks/whatif.py     # a minute; writes benchmarks/results/whatif.md

N = 100 measurements, d = 5 variables, m = 6 noisy outputs, three limits. Once objective and limits have closed forms,
once two of them are sampled. Each answer is what the page gets: the same action, with the map, written as JSON. The
belief is there already, as it is when a slider moves.
"""

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pied import __version__
from pied.shell.opening import opened
from pied.web.actions import what_if
from pied.web.app import encoded
from pied.web.room import Room

RESULTS = Path(__file__).parent / "results" / "whatif.md"
POINTS, MOVES = 100, 24
STATEMENT = """
maximize = "{objective}"
noise = 0.01
variables = {{ a = [0, 1], b = [0, 1], c = [0, 1], d = [0, 1], e = [0, 1] }}
outputs = ["y0", "y1", "y2", "y3", "y4", "y5"]
[subject_to]
first = "y4 <= 0.8"
second = "y5 + y2 >= 0.1"
third = "{third}"
[constants]
price = 3.0
cost = 0.5
"""
CASES = {
    "closed forms": {"objective": "price*y0 + 2*y1 - y3 - cost*(a + b)", "third": "y1 + y0 <= 2.4"},
    "sampled": {"objective": "price*y0 + 2*y1 - cost*(a + b) - y2*y3", "third": "y1*y0 <= 1.4"},
}


def measured(file: str, points: int) -> None:
    """Add measurements of six smooth outputs."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(6, 5))
    with opened(file, None, worker="benchmark") as desk:
        for u in rng.random((points, 5)):
            y = np.sin(weights @ u) + 0.04 * u.sum() + 0.01 * rng.normal(size=6)
            desk.study.add(
                dict(zip("abcde", u.tolist(), strict=True)), {f"y{j}": each for j, each in enumerate(y.tolist())}
            )


def seconds(do: Callable[[], Any]) -> tuple[float, float]:
    """Processor seconds and seconds by the clock."""
    began, clock = time.process_time(), time.perf_counter()
    do()
    return time.process_time() - began, time.perf_counter() - clock


def row(name: str, words: dict[str, str], points: int, moves: int) -> str:
    """Measure one case: the first answer, which fits the belief, then sliders that move."""
    rng = np.random.default_rng(1)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "plant.toml"
        file.write_text(STATEMENT.format(**words))
        measured(str(file), points)
        room = Room("plant", file=str(file), store=None)
        chart = {"map": {"across": "a", "up": "b"}}
        first = seconds(lambda: encoded(what_if(room, chart)))
        times = []
        for _ in range(moves):
            constants = {"price": 3.0 * rng.uniform(0.6, 1.6), "cost": 0.5 * rng.uniform(0.6, 1.6)}
            limits = {"first": 0.8 * rng.uniform(0.9, 1.3)}
            asked = {"constants": constants, "limits": limits, **chart}
            times.append(seconds(lambda asked=asked: encoded(what_if(room, asked))))
        room.close()
    work, clock = np.array(times).T
    return (
        f"| {name} | {first[0]:.2f} | {np.median(work):.2f} | {work.max():.2f} | {np.median(clock):.2f} |"
        f" {clock.max():.2f} |"
    )


def main(points: int = POINTS, moves: int = MOVES) -> None:
    """Measure and write the report."""
    load = os.getloadavg()[0]
    lines = [row(name, words, points, moves) for name, words in CASES.items()]
    text = (
        f"# What if, as the dashboard asks it\n\npied {__version__}, Python {platform.python_version()}, "
        f"{os.cpu_count()} processors, {platform.system()}; load {load:.1f} at the start. "
        "`OMP_NUM_THREADS=1 python benchmarks/whatif.py`\n\n"
        f"N = {points}, d = 5, m = 6, three limits, {moves} moves of three sliders. Seconds, with the map and written "
        "as JSON; the first answer fits the belief.\n\n"
        "| objective and limits | first, processor | median, processor | largest | median, clock | largest |\n"
        "| --- | --- | --- | --- | --- | --- |\n" + "\n".join(lines) + "\n"
    )
    if "--print" not in sys.argv:
        RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
