"""A battery charged in stages, by a simulator whose outputs have kinks: beside Optuna's GP, which knows no structure.

    pip install pybamm '.[peers]'
    PYTHONPATH=src python3 benchmarks/charging.py --jobs 2 --limit 550 --out charging.jsonl.gz     # until none is left
    python benchmarks/charging.py --out charging.jsonl.gz --report

A 5 Ah cell (the parameters "Chen2020" of PyBaMM, single-particle model with electrolyte and one temperature) is charged
from 10 to 80 %: at c1 until v1, at c2 until v2, at c3 until 4.2 V, which is then held. The minutes are minimized; the
cell stays below 40 degrees Celsius, and its negative electrode at least 10 mV above the potential of lithium, which
would be plated. The hottest moment is in one stage or another: a kink. Both methods have the same initial points.
"""

import slices  # first: see there

# isort: split
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from beside import METHODS, told_by

from pied import Problem

BOX = {"c1": (1.0, 4.0), "v1": (3.7, 4.0), "c2": (0.5, 2.5), "v2": (4.0, 4.2), "c3": (0.3, 1.5)}
"""Rates, in cell capacities an hour, and voltages at which the next stage begins."""
CAPACITY = 5.0
"""Ampere-hours."""
FROM, GAINED = 0.1, 0.7
"""Of the capacity: the charge at the beginning, and what is added."""
HOTTEST, LEAST_POTENTIAL = 40.0, 10.0
"""Degrees Celsius and millivolts."""
BUDGET = 40


def items_of(seeds: int) -> list[slices.Item]:
    """Return every run, seed by seed."""
    return [{"seed": seed, "problem": method} for seed in range(seeds) for method in METHODS]


def stated() -> Problem:
    """Return the problem as `pied` is told it: nothing is known beside the simulator."""
    limits = {"hottest": f"hottest <= {HOTTEST}", "plating": f"potential >= {LEAST_POTENTIAL}"}
    return Problem(BOX, ["minutes", "hottest", "potential"], minimize="minutes", subject_to=limits, noise=0)


class Cell:
    """The simulator."""

    def __init__(self) -> None:
        self.pybamm = importlib.import_module("pybamm")
        self.pybamm.set_logging_level("ERROR")
        self.model = self.pybamm.lithium_ion.SPMe({"thermal": "lumped"})
        self.parameters = self.pybamm.ParameterValues("Chen2020")

    def __call__(self, c1: float, v1: float, c2: float, v2: float, c3: float) -> tuple[float, float, float]:
        """Return the minutes, the hottest temperature, and the smallest potential in millivolts."""
        stages = [(c1, v1), (c2, v2), (c3, 4.2)]
        steps = [f"Charge at {rate:.9f}C until {volts:.9f}V" for rate, volts in stages]
        plan = self.pybamm.Experiment([(*steps, "Hold at 4.2V until C/30")], period="10 seconds")
        simulation = self.pybamm.Simulation(self.model, parameter_values=self.parameters, experiment=plan)
        found = simulation.solve(initial_soc=FROM)
        charged = -found["Discharge capacity [A.h]"].entries / CAPACITY
        end = int(np.argmax(charged >= GAINED))
        assert charged[end] >= GAINED, "the cell was not charged to 80 %"
        hottest = found["X-averaged cell temperature [K]"].entries - 273.15
        potential = found["Negative electrode surface potential difference at separator interface [V]"].entries
        minutes = np.interp(GAINED, charged[end - 1 : end + 1], found["Time [min]"].entries[end - 1 : end + 1])
        return float(minutes), float(hottest[: end + 1].max()), 1000.0 * float(potential[: end + 1].min())


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return what was evaluated, as plain data."""
    cell = Cell()
    told = told_by(item["problem"], stated(), lambda x: cell(*x), broken, item["seed"], BUDGET)
    return {"told": [[*x, *(y or ())] for x, y in told]}


def broken(y: Sequence[float]) -> tuple[float, float]:
    """Return by how much outputs break each limit."""
    return y[1] - HOTTEST, LEAST_POTENTIAL - y[2]


def best(told: Sequence[Sequence[float]], count: int) -> float:
    """Return the fewest minutes of the first trials that keep the limits."""
    fine = [row[-3] for row in told[:count] if row[-2] <= HOTTEST + 1e-6 and row[-1] >= LEAST_POTENTIAL - 1e-6]
    return min(fine, default=np.inf)


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the page of some records."""
    lines = [
        slices.heading("Charging a battery in stages", records),
        "",
        "Minutes of the best evaluation that keeps all limits, by evaluations; one column per seed.",
        "",
    ]
    fine = [each for each in records if "told" in each]
    seeds = sorted({each["item"]["seed"] for each in fine})
    lines += [
        "| method | evaluations | " + " | ".join(f"seed {seed}" for seed in seeds) + " |",
        "| --- | --- |" + " --- |" * len(seeds),
    ]
    for method in METHODS:
        own = {each["item"]["seed"]: each["told"] for each in fine if each["item"]["problem"] == method}
        for count in (20, 30, BUDGET):
            cells = [f"{best(own[seed], count):.2f}" if seed in own else "-" for seed in seeds]
            lines.append(f"| {method} | {count} | {' | '.join(cells)} |")
    lines += slices.troubles(records, ("problem", "seed"))
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many records are left, or the page."""
    given = slices.parser(__doc__, out="charging.jsonl.gz", seeds=4).parse_args(words)
    if given.report:
        return slices.write(given, page, "charging.md")
    return slices.work_on(items_of(given.seeds), run, given)


if __name__ == "__main__":
    main()
