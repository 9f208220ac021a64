"""Batteries charged in stages and pumps of a water network, drawn at random: beside Optuna's GP sampler.

    pip install '.[peers]'
    PYTHONPATH=src python3 benchmarks/simulators.py --jobs 2 --limit 550 --out simulators.jsonl.gz  # until none is left
    python benchmarks/simulators.py --out simulators.jsonl.gz --report

Real simulators have outputs with kinks, and nothing is known beside them: objective and limits are outputs. These are
small ones, written for this comparison. A battery with one temperature and one diffusion layer is charged in three
stages (five settings) as fast as heat and plating allow. Four pumps feed six nodes of a network (four settings) with as
little power as pressures allow; a pump that cannot lift stands still. In "network that fails" the solver gives up where
pressures are low. Each seed is another battery, another network, none of which `pied` was developed on. Initial points
are the same for both methods, except that after a failure the design of `pied` goes on elsewhere than planned.
"""

import slices  # first: see there

# isort: split
import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, ClassVar

import numpy as np
from beside import METHODS, best, told_by
from numpy import ndarray
from scipy.optimize import least_squares, root

from pied import Problem

BUDGET = 40
COUNTS = (20, 30, BUDGET)
SAMPLES = 300
"""Points from which the limits of a drawn simulator are chosen."""
FIRST = 100
"""The first draw of the comparison: `pied` was developed on those before it."""
WITHIN = 0.01
"""Of the best known value: such a run is near it."""


class Simulator:
    """A black box whose first output is minimized, with limits on others."""

    box: ClassVar[dict[str, tuple[float, float]]]
    outputs: ClassVar[tuple[str, ...]]
    limits: dict[str, float]
    """By output; the largest value where it is an upper limit, the least where it is a lower one."""
    upper: ClassVar[tuple[str, ...]] = ()
    """Outputs with an upper limit."""

    def __call__(self, x: Sequence[float]) -> tuple[float, ...] | None:
        """Return the outputs; None if there is no solution."""
        raise NotImplementedError

    def stated(self) -> Problem:
        """Return the problem."""
        limits = [f"{name} {'<=' if name in self.upper else '>='} {value!r}" for name, value in self.limits.items()]
        return Problem(dict(self.box), self.outputs, minimize=self.outputs[0], subject_to=limits, noise=0)

    def broken(self, y: Sequence[float]) -> list[float]:
        """Return by how much outputs break each limit."""
        away = {name: y[self.outputs.index(name)] - value for name, value in self.limits.items()}
        return [each if name in self.upper else -each for name, each in away.items()]

    def sampled(self, count: int) -> ndarray:
        """Return outputs at random points of the box."""
        low, high = np.array(list(self.box.values())).T
        found = [self(x) for x in low + (high - low) * np.random.default_rng(5).random((count, len(low)))]
        return np.array([y for y in found if y is not None])


# --- A battery --------------------------------------------------------------------------------------------------------

START, END = 0.1, 0.8  # state of charge
STEP = 10.0  # seconds
FULL, AMBIENT = 4.2, 25.0  # volts; degrees Celsius
LEAST_RATE = 1 / 30
LONGEST = 6 * 3600.0


class Battery(Simulator):
    """Charged at c1 until v1, at c2 until v2, at c3 until it is full, then at that voltage."""

    box: ClassVar = {"c1": (1.0, 4.0), "v1": (3.7, 4.0), "c2": (0.5, 2.5), "v2": (4.0, FULL), "c3": (0.3, 1.5)}
    outputs: ClassVar = ("minutes", "hottest", "potential")
    upper: ClassVar = ("hottest",)

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(1000 + seed).uniform
        self.resistance, self.polarization, self.relaxation = draw(0.03, 0.06), draw(0.02, 0.05), draw(150, 500)
        self.crowding, self.barrier = draw(0.02, 0.05), draw(0.012, 0.022)
        self.heat_capacity, self.cooling, self.heating = draw(700, 1300), draw(0.6, 1.6), 1.6 * draw(10, 18)
        self.thaw, self.middle, self.plateau = draw(0.008, 0.02), draw(0.35, 0.6), draw(0.01, 0.03)
        Y = self.sampled(SAMPLES)
        hottest = float(np.quantile(Y[:, 1], draw(0.12, 0.4)))
        few = max(5, int(SAMPLES * draw(0.015, 0.06)))
        self.limits = {"hottest": hottest, "potential": float(np.sort(Y[Y[:, 1] <= hottest, 2])[-few])}

    def open_voltage(self, charge: float) -> float:
        """Return the voltage without a current."""
        steps = 0.12 * math.tanh((charge - 0.05) / 0.05) + 0.04 * math.tanh((charge - self.middle) / 0.05)
        return 3.35 + 0.62 * charge + steps

    def anode(self, charge: float) -> float:
        """Return the potential of the negative electrode without a current."""
        step = self.plateau * math.tanh((charge - self.middle) / 0.03)
        return 0.085 + 0.5 * math.exp(-14.0 * charge) - step - 0.05 * charge

    def __call__(self, x: Sequence[float]) -> tuple[float, ...]:
        """Return the minutes, the hottest temperature, and the smallest potential in millivolts."""
        rates, ends = (x[0], x[2], x[4]), (x[1], x[3], FULL)
        charge, layer, heat, seconds = START, 0.0, AMBIENT, 0.0
        hottest, least, stage = AMBIENT, math.inf, 0
        while charge < END and seconds < LONGEST:
            ohms = self.resistance * math.exp(-self.thaw * (heat - AMBIENT))
            held = FULL - self.open_voltage(charge) - self.polarization * layer
            rate = rates[stage] if stage < len(rates) else held / ohms
            if stage < len(rates) and self._volts(charge, layer, rate, ohms, 0.0) >= ends[stage]:
                stage += 1
                continue
            if rate <= LEAST_RATE:
                break
            step = self._until(charge, layer, rate, ohms, ends[stage]) if stage < len(rates) else STEP
            is_over = step < STEP
            step = min(step, (END - charge) * 3600.0 / rate)
            charge += rate * step / 3600.0
            layer = rate + (layer - rate) * math.exp(-step / self.relaxation)
            watts = self.heating * rate * (rate * ohms + 0.5 * self.polarization * abs(layer))
            final = AMBIENT + watts / self.cooling
            heat = final + (heat - final) * math.exp(-self.cooling / self.heat_capacity * step)
            drop = self.barrier * rate * math.exp(-self.thaw * (heat - AMBIENT))
            seconds, hottest = seconds + step, max(hottest, heat)
            least = min(least, self.anode(charge + self.crowding * layer) - drop)
            stage += is_over
        return seconds / 60.0, hottest, 1000.0 * least

    def _volts(self, charge: float, layer: float, rate: float, ohms: float, seconds: float) -> float:
        """Return the voltage after some seconds at a rate."""
        later = rate + (layer - rate) * math.exp(-seconds / self.relaxation)
        return self.open_voltage(charge + rate * seconds / 3600.0) + self.polarization * later + rate * ohms

    def _until(self, charge: float, layer: float, rate: float, ohms: float, end: float) -> float:
        """Return the seconds until a voltage is reached, at most a step."""
        low, high = 0.0, STEP
        if self._volts(charge, layer, rate, ohms, high) <= end:
            return STEP
        while high - low > 1e-11:
            middle = (low + high) / 2.0
            is_above = self._volts(charge, layer, rate, ohms, middle) > end
            low, high = (low, middle) if is_above else (middle, high)
        return high


# --- A network --------------------------------------------------------------------------------------------------------

NODES = 6
PIPES = [*pairwise(range(NODES)), (NODES - 1, 0), (1, 4), (2, 5)]
PUMPED = (0, 2, 4, 5)
"""Nodes with a pump."""
WATCHED = (1, 3, 5)
"""Nodes with a least pressure."""
HEADS = (40.0, 20.0, 60.0, 0.0, 80.0)
"""Metres, from which a solution is sought."""


class Network(Simulator):
    """Pumps at some speeds, pipes by Hazen and Williams."""

    box: ClassVar = {f"s{place}": (0.5, 1.2) for place in range(len(PUMPED))}
    outputs: ClassVar = ("power", *(f"p{place}" for place in range(1, len(WATCHED) + 1)))

    def __init__(self, seed: int, *, fails: bool = False) -> None:
        draw = np.random.default_rng(2000 + seed).uniform
        self.elevation, self.demand = draw(0, 18, NODES), draw(8, 22, NODES)
        self.friction = 10 ** draw(-2.4, -1.2, len(PIPES))
        self.sources = np.array([draw(0, 6), draw(0, 6), draw(4, 12), draw(0, 6)])
        self.lift, self.slope = draw(55, 80, len(PUMPED)), draw(0.006, 0.02, len(PUMPED))
        self.least = -math.inf
        lowest = self.sampled(SAMPLES)[:, 1:].min(1)
        self.limits = dict.fromkeys(self.outputs[1:], float(np.quantile(lowest, draw(0.6, 0.93))))
        if fails:
            self.least = float(np.quantile(lowest, 0.35))

    def __call__(self, x: Sequence[float]) -> tuple[float, ...] | None:
        """Return the power and the pressures."""
        speeds = np.array(x)
        heads = self._heads(speeds)
        if heads is None or (heads - self.elevation).min() < self.least:
            return None
        flows, lifts = self._pumped(heads, speeds), heads[list(PUMPED)] - self.sources
        share = flows / (speeds * np.sqrt(self.lift / self.slope))
        efficiency = np.maximum(0.82 - 1.2 * (share - 0.55) ** 2, 0.3)
        power = float((9.81e-3 * flows * lifts / efficiency + 0.3 * speeds**3).sum())
        return (power, *(heads - self.elevation)[list(WATCHED)].tolist())

    def _heads(self, speeds: ndarray) -> ndarray | None:
        """Return the heads at which what flows in flows out."""
        for head in HEADS:
            found = root(self._surplus, head + 0.1 * self.elevation, args=(speeds,))
            if np.abs(found.fun).max() < 1e-6:
                return found.x
        found = least_squares(self._surplus, np.full(NODES, 30.0), args=(speeds,), xtol=1e-14, ftol=1e-14, gtol=1e-14)
        return found.x if np.abs(found.fun).max() < 1e-3 else None

    def _surplus(self, heads: ndarray, speeds: ndarray) -> ndarray:
        """Return what flows in less what flows out, node by node."""
        begin, end = np.array(PIPES).T
        drop = heads[begin] - heads[end]
        flow = np.sign(drop) * (np.abs(drop) / self.friction + 1e-12) ** 0.54
        flow = np.where(np.abs(drop) > 1e-6, flow, 1e3 * drop)
        found = -self.demand
        np.add.at(found, begin, -flow)
        np.add.at(found, end, flow)
        np.add.at(found, list(PUMPED), self._pumped(heads, speeds))
        return found

    def _pumped(self, heads: ndarray, speeds: ndarray) -> ndarray:
        """Return what each pump delivers: nothing where it cannot lift so high."""
        spare = speeds**2 * self.lift - (heads[list(PUMPED)] - self.sources)
        return np.sqrt(np.maximum(spare, 0.0) / self.slope)


# --- The comparison ---------------------------------------------------------------------------------------------------

KINDS = ("battery", "network", "network that fails")


def drawn(kind: str, seed: int) -> Simulator:
    """Return a simulator."""
    return Battery(seed) if kind == "battery" else Network(seed, fails=kind == KINDS[2])


def items_of(seeds: int) -> list[slices.Item]:
    """Return every run, seed by seed."""
    every = product(range(seeds), KINDS, METHODS)
    return [{"seed": seed, "problem": kind, "method": method} for seed, kind, method in every]


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return the best value after some counts of evaluations."""
    simulator = drawn(item["problem"], FIRST + item["seed"])
    told = told_by(item["method"], simulator.stated(), simulator, simulator.broken, item["seed"], BUDGET)
    return {"best": {str(count): best(told[:count], simulator.broken) for count in COUNTS}}


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the page of some records."""
    fine = [each for each in records if "best" in each]
    lines = [
        slices.heading("Simulators drawn at random", records),
        "",
        "How far the best evaluation that keeps all limits lies above the best that either method found, in per cent:",
        "mean and standard error over the seeds; in how many runs it is within 1 %; in how many the method ends ahead.",
        "",
        "| simulator | method | runs | " + " | ".join(f"after {count}" for count in COUNTS) + " | within 1 % | ahead |",
        "|" + " --- |" * (len(COUNTS) + 5),
    ]
    for kind in KINDS:
        runs = {
            (each["item"]["method"], each["item"]["seed"]): each["best"]
            for each in fine
            if each["item"]["problem"] == kind
        }
        seeds = [seed for seed in sorted({seed for _, seed in runs}) if all((each, seed) in runs for each in METHODS)]
        least = {seed: min(runs[each, seed][str(BUDGET)] for each in METHODS) for seed in seeds}
        for method in METHODS if seeds else ():
            cells, last = [], np.array([runs[method, seed][str(BUDGET)] for seed in seeds])
            for count in COUNTS:
                above = np.array([runs[method, seed][str(count)] / least[seed] - 1.0 for seed in seeds])
                above = 100.0 * np.minimum(above, 1.0)  # a run without such an evaluation counts as twice the best
                cells.append(
                    f"{above.mean():.2f} ± {above.std(ddof=min(1, len(above) - 1)) / math.sqrt(len(above)):.2f}"
                )
            floor = np.array(list(least.values()))
            near, ahead = int((last <= (1 + WITHIN) * floor).sum()), int((last <= floor * (1 + 1e-9)).sum())
            lines.append(f"| {kind} | {method} | {len(seeds)} | {' | '.join(cells)} | {near} | {ahead} |")
    lines += slices.troubles(records, ("problem", "method", "seed"))
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many records are left, or the page."""
    given = slices.parser(__doc__, out="simulators.jsonl.gz", seeds=16).parse_args(words)
    if given.report:
        return slices.write(given, page, "simulators.md")
    return slices.work_on(items_of(given.seeds), run, given)


if __name__ == "__main__":
    main()
