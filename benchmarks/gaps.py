"""How large the stated gap is on simulators, whether it covers what is left, and how often it rises.

    python benchmarks/gaps.py --seeds 3 --jobs 16 --out gaps.jsonl             # again until none is left
    python benchmarks/gaps.py --out gaps.jsonl --report                        # the page of the records
    python benchmarks/gaps.py --noise 0.01 ...                                 # of each output's spread, learned

Eight small simulators of equipment, smooth or nearly so, a reactor of the suite and a water network drawn at random.
Outputs are what a simulator gives; objective and limits are formulas of them. Half of them (`LOOKED_AT`) were looked at
while the gap was changed. Optima are the best of many random points and local walks from them, and of all runs.
"""

import slices  # first: see there

# isort: split
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import simulators
from numpy import ndarray

from pied import Infeasible, Problem, SolverDone, Study, suite

LOOKED_AT = ("gas turbine", "heat sink", "controller", "reactor", "network")
STEPS = 200  # of each simulated time
WANTED = 0.01  # of the objective's range: a gap that says when to stop
REACHED = 1e-3  # of the objective's range: a run has found the optimum
EVERY = 3  # evaluations between two answers
DRAWN = 4_000  # random points, the objective's range and the first look for its optimum
LEFT = 1e-6  # of the objective's range: a shortfall that counts as none


def gas_turbine(ratio: ndarray, hot: ndarray, spare: ndarray) -> Sequence[ndarray]:
    """A recuperated gas turbine: specific work (kJ/kg), heat (kJ/kg), temperature after the turbine (K)."""
    rise = ratio**0.2857
    after = 288.0 * (1.0 + (rise - 1.0) / 0.85)
    end = hot * (1.0 - 0.88 * (1.0 - (1.0 - 0.04 * spare) / rise))
    before = after + spare * (end - after)
    return 1.005 * (hot - end) - 1.005 * (after - 288.0), 1.005 * (hot - before), end


def heat_sink(count: ndarray, height: ndarray, thick: ndarray, speed: ndarray) -> Sequence[ndarray]:
    """Fins on a plate of 0.1 m: watts per kelvin, fan power (W), mass (kg)."""
    gap = (0.1 - count * thick * 1e-3) / (count - 1.0)
    h = 3.8 * 0.026 / gap * (1.0 + 0.02 * speed * gap / 1.6e-5 * gap / 0.1) ** 0.5
    m = np.sqrt(2.0 * h / (200.0 * thick * 1e-3)) * height * 1e-3
    area = 2.0 * count * height * 1e-3 * 0.1
    drop = 48.0 * 1.8e-5 * speed * 0.1 / (2.0 * gap) ** 2 + 0.6 * speed**2
    flow = speed * gap * (count - 1.0) * height * 1e-3
    return h * area * np.tanh(m) / m, flow * drop / 0.3, 2700.0 * count * thick * height * 1e-7


def controller(gain: ndarray, integral: ndarray, derivative: ndarray) -> Sequence[ndarray]:
    """PID control of a third-order process: integral of the absolute error times time, overshoot, largest effort."""
    x, area, total = np.zeros((3, len(gain))), np.zeros(len(gain)), np.zeros(len(gain))
    top, effort, dt, before = np.zeros(len(gain)), np.zeros(len(gain)), 0.05, np.ones(len(gain))
    for step in range(STEPS):
        error = 1.0 - x[2]
        area = area + dt * error
        u = np.clip(gain * error + integral * area + derivative * (error - before) / dt, -50.0, 50.0)
        before = error
        x = x + dt * (np.stack([u, x[0], x[1]]) - x) / np.array([[1.0], [0.6], [0.3]])
        total += dt * dt * step * np.abs(error)
        top, effort = np.maximum(top, x[2] - 1.0), np.maximum(effort, np.abs(u))
    return total, top, effort


def collector(flow: ndarray, inlet: ndarray, tilt: ndarray, volume: ndarray) -> Sequence[ndarray]:
    """A solar collector with a store over a day: heat won (kWh), pumping (kWh), temperature at the end (deg C)."""
    store, won, pumped = np.array(inlet, dtype=float), 0.0 * flow, 0.0 * flow
    for hour in np.linspace(6.0, 18.0, STEPS // 4):
        height = np.sin(np.pi * (hour - 6.0) / 12.0)
        sun = 900.0 * height * np.cos(np.radians(tilt - 60.0 + 35.0 * height))
        loss = 4.0 + 0.02 * (store - 15.0)
        factor = 1.0 - np.exp(-0.9 * loss * 4.0 / (flow * 4180.0 / 60.0) - 0.02)
        heat = np.maximum(0.0, 4.0 * (0.8 * sun - loss * (store - 15.0)) * (1.0 - 0.5 * factor)) / 1000.0
        dt = 12.0 / (STEPS // 4)
        won, pumped = won + heat * dt, pumped + 0.02 * flow**2.5 / 60.0 * dt
        store = store + (heat - 0.002 * volume**0.67 * (store - 15.0)) * dt * 3600.0 / (volume * 4.18)
    return won, pumped, store


def batch(heat: ndarray, hours: ndarray, dose: ndarray) -> Sequence[ndarray]:
    """A batch of A -> B -> C with A fed: share of B, share of C, peak of the released heat (kW)."""
    a, b, c, peak = 1.0 - dose, 0.0 * heat, 0.0 * heat, 0.0 * heat
    make, lose = 1.2 * np.exp(6000 / 330 - 6000 / heat), 0.15 * np.exp(10000 / 330 - 10000 / heat)
    dt = hours / STEPS
    for step in range(STEPS):
        fed = np.where(step < STEPS // 2, 2.0 * dose / STEPS, 0.0)
        made, lost = make * a * dt, lose * b * dt
        a, b, c = a + fed - made, b + made - lost, c + lost
        peak = np.maximum(peak, (made + 1.5 * lost) / dt * 30.0)
    return b, c, peak


def column(reflux: ndarray, stages: ndarray, feed: ndarray) -> Sequence[ndarray]:
    """A distillation column: purity, duty (MW), diameter (m), by a smooth shortcut."""
    least = 1.2 / (1.0 + 0.3 * feed)
    spare = np.maximum(reflux - least, 0.01) / (reflux + 1.0)
    share = 0.75 * (1.0 - spare**0.5668)
    power = stages * (1.0 - share) - share
    ratio = 2.2**power
    return ratio**0.5 / (1.0 + ratio**0.5), 3.0 * (1.0 + reflux) * (1.1 - 0.1 * feed), 0.9 * np.sqrt(1.0 + reflux)


def truss(wide: ndarray, tall: ndarray, wall: ndarray, bay: ndarray) -> Sequence[ndarray]:
    """A girder of tubes over 20 m: mass (t), deflection (mm), share of the buckling load."""
    area = 4.0 * wide * wall * 1e-6
    length = np.hypot(bay, tall)
    mass = 7.85 * (2.0 * 20.0 * area + 20.0 / bay * length * 0.6 * area)
    bend = 5.0 * 15.0 * 20.0**4 / (384.0 * 2.1e8 * 0.5 * area * tall**2) * 1000.0
    shear = 15.0 * 20.0 * length**2 / (4.0 * 2.1e8 * 0.6 * area * tall**2) * 1000.0
    force = 15.0 * 20.0**2 / 8.0 / tall
    euler = np.pi**2 * 2.1e8 * area * (wide * 1e-3) ** 2 / 6.0 / bay**2
    return mass, bend + shear, force / euler + force / (area * 2.35e5)


def culture(sugar: ndarray, feed: ndarray, start: ndarray, heat: ndarray) -> Sequence[ndarray]:
    """A fed culture with inhibition: grams of product, of sugar left, of oxygen at the peak."""
    x, s, p, volume, peak = 0.5 + 0.0 * sugar, 1.0 * sugar, 0.0 * sugar, 1.0 + 0.0 * sugar, 0.0 * sugar
    fast = 0.4 * np.exp(-(((heat - 34.0) / 6.0) ** 2))
    dt = 40.0 / STEPS
    for step in range(STEPS):
        mu = fast * s / (0.5 + s + s**2 / 40.0)
        made = 0.08 * x * s / (1.0 + s) * np.exp(-(((heat - 30.0) / 5.0) ** 2))
        rate = feed / (1.0 + np.exp(-(step * dt - start))) / 100.0
        s = np.maximum(s + dt * (-mu * x / 0.5 - made / 0.6 + rate * (200.0 - s) / volume), 0.0)
        x, p, volume = x + dt * x * (mu - rate / volume), p + dt * (made - p * rate / volume), volume + dt * rate
        peak = np.maximum(peak, mu * x)
    return p * volume, s, peak


SIMULATORS: dict[str, tuple[Callable[..., Sequence[ndarray]], dict[str, tuple[float, float]], dict[str, Any]]] = {
    "gas turbine": (gas_turbine, {"ratio": (3, 25), "hot": (1100, 1600), "spare": (0.0, 0.9)}, {
        "outputs": ["work", "heat", "end"], "maximize": "work/heat - 2e-7*(hot - 1100)**2", "subject_to": {
            "power": "work >= 180", "metal": "end <= 1000"}}),
    "heat sink": (heat_sink, {"count": (8, 40), "height": (15, 60), "thick": (0.4, 2.0), "speed": (0.5, 6.0)}, {
        "outputs": ["conductance", "fan", "mass"], "maximize": "conductance", "subject_to": {
            "fan": "fan <= 1.5", "mass": "mass <= 0.35"}}),
    "controller": (controller, {"gain": (0.2, 6.0), "integral": (0.05, 3.0), "derivative": (0.0, 3.0)}, {
        "outputs": ["total", "top", "effort"], "ranges": {"total": (0, math.inf), "effort": (0, 50)},
        "minimize": "total", "subject_to": {"overshoot": "top <= 0.05", "effort": "effort <= 30"}}),
    "collector": (collector, {"flow": (1.0, 12.0), "inlet": (15, 45), "tilt": (10, 80), "volume": (100, 600)}, {
        "outputs": ["won", "pumped", "final"], "maximize": "won - 3*pumped", "subject_to": {"warm": "final >= 28"}}),
    "batch": (batch, {"heat": (310, 360), "hours": (1, 12), "dose": (0.0, 0.9)}, {
        "outputs": ["b", "c", "peak"], "maximize": "b - 0.5*c - 0.01*hours", "subject_to": {
            "cooling": "peak <= 20", "purity": "c <= 0.15*(b + c)"}}),
    "column": (column, {"reflux": (1.0, 8.0), "stages": (8, 40), "feed": (0.0, 1.2)}, {
        "outputs": ["purity", "duty", "diameter"], "minimize": "duty + 0.15*stages*diameter", "subject_to": {
            "purity": "purity >= 0.97"}}),
    "truss": (truss, {"wide": (40, 200), "tall": (0.5, 3.0), "wall": (2, 10), "bay": (0.8, 4.0)}, {
        "outputs": ["mass", "bend", "share"], "minimize": "mass", "subject_to": {
            "stiff": "bend <= 60", "strong": "share <= 0.8"}}),
    "culture": (culture, {"sugar": (2, 40), "feed": (0.0, 3.0), "start": (2, 30), "heat": (26, 38)}, {
        "outputs": ["product", "left", "oxygen"], "maximize": "product - 0.02*left", "subject_to": {
            "oxygen": "oxygen <= 1.5"}}),
}  # fmt: skip


class Case:
    """One simulator with its truth."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name in SIMULATORS:
            h, box, words = SIMULATORS[name]
            self.problem = Problem(dict(box), noise=0, **words)
            self._many = lambda X: np.stack(h(*X.T), 1)
        elif name == "network":
            drawn = simulators.drawn("network", simulators.FIRST + 2)
            self.problem = drawn.stated()
            self._many = lambda X: np.array([drawn(x) or (math.nan,) * self.problem.m for x in X.tolist()])
        else:
            self.problem = suite.get("williams-otto", noise=0).problem
            self._many = self.problem.evaluate_many if hasattr(self.problem, "evaluate_many") else self._one_by_one

    def _one_by_one(self, X: ndarray) -> ndarray:
        return np.array([[*self.problem.evaluate(self.problem.named_x(x))] for x in X])

    def outputs(self, x: Mapping[str, Any]) -> dict[str, float] | None:
        """Outputs at some settings; None where the simulator has none."""
        y = self._many(np.array([[float(each) for each in x.values()]]))[0]
        return dict(zip(self.problem.outputs, y.tolist(), strict=True)) if np.isfinite(y).all() else None

    def functions(self, U: ndarray) -> ndarray:
        """Objective and limits at points of the unit cube."""
        X = self.problem.from_unit(U)
        return np.stack(np.broadcast_arrays(*(np.ravel(g) for g in self.problem.g(X, self._many(X)[None]))), 1)

    @cached_property
    def sizes(self) -> ndarray:
        """The median size of each function over the box."""
        return np.nanmedian(np.abs(self.functions(np.random.default_rng(7).random((64, self.problem.d)))), axis=0)

    @cached_property
    def truth(self) -> tuple[float, float]:
        """The best objective of settings that meet all limits, and the objective's range over the box."""
        rng, d = np.random.default_rng(5), self.problem.d
        few = self.name not in SIMULATORS
        f = self.functions(U := rng.random((DRAWN // (20 if few else 1), d)))
        value = np.where((f[:, 1:] >= 0).all(1), f[:, 0], -np.inf)
        order = np.argsort(-np.nan_to_num(value, nan=-np.inf))[:20]
        U, top = U[order], value[order]
        for scale in np.repeat(0.3 * 0.5 ** np.arange(14), 5 if few else 15):
            near = np.clip(U + scale * rng.normal(size=U.shape) * (rng.random(U.shape) < 0.6), 0.0, 1.0)
            f_near = self.functions(near)
            value = np.where((f_near[:, 1:] >= 0).all(1), f_near[:, 0], -np.inf)
            better = value > top
            U, top = np.where(better[:, None], near, U), np.where(better, value, top)
        low, high = np.nanquantile(f[:, 0], [0.02, 0.98])
        return float(top.max()), float(high - low)


def run(item: slices.Item) -> dict[str, Any]:
    """Run one simulator, and write down what was said and what was left."""
    seed, noise = item["seed"], item["noise"]
    case = Case(item["problem"])
    problem = case.problem
    spreads = np.ones(problem.m)
    if noise:
        Y = case._many(problem.from_unit(np.random.default_rng(6).random((500, problem.d))))
        spreads = noise * (np.nanquantile(Y, 0.9, axis=0) - np.nanquantile(Y, 0.1, axis=0))
        problem = problem.revised(noise=None) if hasattr(problem, "revised") else problem
    study, said = Study(problem, seed=seed), []
    rng = np.random.default_rng([seed, 57])
    for t in range(1, 16 + 6 * problem.d + 1):
        try:
            trial = study.ask()
        except (Infeasible, SolverDone):
            break
        y = case.outputs(trial.x)
        if y is None:
            study.fail(trial, "no solution")
        elif noise:
            away = dict(zip(y, (spreads * rng.normal(size=len(y))).tolist(), strict=True))
            study.tell(trial, {key: value + away[key] for key, value in y.items()}, anyway=True)
        else:
            study.tell(trial, y, anyway=True)
        if t > 2 * problem.d + 1 and t % EVERY == 0:
            result = study.result()
            if result.x is None:
                continue
            f = case.functions(problem.to_unit(np.array([problem.codes(result.x)])))[0]
            gap = result.gap
            said.append({
                "t": t, "value": float(f[0]),
                "feasible": result.is_feasible and bool((f[1:] >= -LEFT * case.sizes[1:]).all()),
                "gap": None if gap is None or math.isinf(gap) else gap, "why": result.gap_why,
            })  # fmt: skip
    return {"said": said}


# --- The page ---------------------------------------------------------------------------------------------------------


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """A row for each simulator."""
    every, records = list(records), [record for record in records if "error" not in record]
    lines = [
        "| simulator | found after | gap below 1 % after | within twice | told | covers | rises | at the end "
        "| covers what is left |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    total: dict[str, list[int]] = {"within": [0, 0], "covers": [0, 0], "rises": [0, 0]}
    for name in dict.fromkeys(record["item"]["problem"] for record in records):
        mine = [record for record in records if record["item"]["problem"] == name]
        best, span = Case(name).truth
        best = max([best, *(each["value"] for r in mine for each in r["said"] if each["feasible"])])
        cells = [summary(record["said"], best, span) for record in mine]
        total["within"][0] += sum(cell["within"] for cell in cells)
        total["within"][1] += len(cells)
        for key in ("covers", "rises"):
            total[key][0] += sum(cell[key] for cell in cells)
            total[key][1] += sum(cell["told"] for cell in cells)
        star = "*" if name in LOOKED_AT else ""
        lines.append(
            f"| {name}{star} | {listed(c['found'] for c in cells)} | {listed(c['small'] for c in cells)} "
            f"| {sum(c['within'] for c in cells)} of {len(cells)} "
            f"| {sum(c['told'] for c in cells)} of {sum(c['of'] for c in cells)} "
            f"| {sum(c['covers'] for c in cells)} | {sum(c['rises'] for c in cells)} "
            f"| {', '.join(c['end'] for c in cells)} | {', '.join(c['left'] for c in cells)} |"
        )
    all_in = ", ".join(f"{key} {part} of {whole}" for key, (part, whole) in total.items())
    table = "\n".join([*lines, "", f"All: {all_in}. With a star: looked at in development."])
    parts = [slices.heading("Gaps of simulators", every), table, *slices.troubles(every, ["problem", "seed"])]
    return "\n\n".join(parts) + "\n"


def listed(values: Any) -> str:
    """Numbers, or a dash where there is none."""
    return ", ".join("-" if each is None else str(each) for each in values)


def summary(said: Sequence[Mapping[str, Any]], best: float, span: float) -> dict[str, Any]:
    """What one run said, in ranges of the objective."""
    found = next((e["t"] for e in said if e["feasible"] and best - e["value"] <= REACHED * span), None)
    small = next((e["t"] for e in said if e["gap"] is not None and e["gap"] <= WANTED * span), None)
    told = [e for e in said if e["gap"] is not None]
    covers = sum(e["gap"] >= best - e["value"] - LEFT * span for e in told)
    gaps = [math.inf if e["gap"] is None else e["gap"] for e in said]
    rises = sum(b > a * 1.05 + LEFT * span and math.isfinite(a) for a, b in itertools.pairwise(gaps))
    last = said[-1] if said else {"gap": None, "value": -math.inf}
    return {
        "found": found, "small": small, "told": len(told), "of": len(said), "covers": covers, "rises": rises,
        "within": found is not None and small is not None and small <= 2 * found,
        "end": "-" if last["gap"] is None else f"{last['gap'] / span:.1e}",
        "left": f"{max(0.0, (best - last['value']) / span):.0e}",
    }  # fmt: skip


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="gaps.jsonl", seeds=2)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--only", nargs="+", default=[*SIMULATORS, "reactor", "network"])
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "gaps.md")
    items = [
        {"problem": name, "seed": seed, "noise": given.noise} for seed in range(given.seeds) for name in given.only
    ]
    return slices.work_on(items, run, given)


if __name__ == "__main__":
    main()
