"""Whole runs of four loops side by side: seconds per suggestion, and evaluations until the optimum is found.

    python benchmarks/loops.py --limit 3000 --out loops.jsonl.gz      # a part; repeat until none is left
    python benchmarks/loops.py --verdict --out loops.jsonl.gz         # asks while nothing feasible is known
    python benchmarks/loops.py --out loops.jsonl.gz --report          # the page
    python benchmarks/loops.py --problems booth --budget 8 --out try.jsonl.gz

- pied: a study with its default solver;
- botorch: BoTorch's composite loop: one SingleTaskGP per output, `fit_gpytorch_mll`, qLogEI (with noise: qLogNEI;
  while nothing feasible is told: qLogPF, as BoTorch advises) of g(x, h(x)) with constraints, `optimize_acqf`;
- ax, optuna: the solvers of `pied.solvers.peers`, which see the objective and constraints instead of the outputs.

The functions g are written in Python with NumPy; BoTorch is given the same in torch. All loops have the same initial
design, budget and noise (2 % of the spread of each output, not told). BoTorch's models are told the inputs, the ranges
and the scales, too. Every run is a process of its own with one thread, warmed up by one suggestion on another problem;
the loops of a problem follow each other. A run that a time limit cuts off is lost: leave it an hour or more.
"""

import slices  # first: see there

# isort: split
import dataclasses
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from importlib.util import find_spec
from typing import Any

import numpy as np
import report
from numpy import ndarray

from pied import suite
from pied.bench import measures
from pied.bench.plan import _optima
from pied.errors import SolverDone
from pied.problem import Named, Problem
from pied.problem.program import Program, Step
from pied.records import Dataset, Trial, Why
from pied.records.trial import spread
from pied.rng import Stream
from pied.solvers.base import Proposal, Run, Solver
from pied.study import Study
from pied.suite import Benchmark, twins
from pied.suite.applied import FEED_A, MEASURED

LOOPS = ("pied", "botorch", "ax", "optuna")
"""By the names of their libraries."""
DRAWS = (
    "gp-2-2-1-101", "polynomial-3-3-2-102", "oscillating-2-2-1-103", "steep-3-2-2-104",
    "reactor-3-3-2-105", "separation-4-3-2-106", "calibration-3-8-1-107", "gp-5-4-3-108",
)  # fmt: skip
"""Random problems: kind, d, m, n and seed."""
VERDICTS = ("williams-otto", "spring", "rosen-suzuki", "ex211", "g09")
"""Problems whose infeasible twin is compared with them."""
NOISE = 0.02
"""Of the spread of each output."""
POOL = 1024
"""Points from which the spread of an output over the box is computed."""
BUDGET = 60
TOLERANCES = (1e-3, 1e-6)
"""Of the normalized regret of the best strictly feasible evaluation."""
FASTER, LEAST = 15.0, 5.0
"""Times faster than BoTorch's loop: geometric mean, and every case."""
SMALL, SECONDS = {"d": 5, "m": 6, "N": 60}, 0.1
"""Sizes up to which the median suggestion is to take less than these seconds."""
PENDING = 3.0
"""An ask with a verdict pending may take so many times an ordinary one."""
SAMPLES, RESTARTS, RAW = 128, 10, 512
"""Of BoTorch's loop."""

Function = Callable[[Named, Named], Any]


# --- Problems, with functions in NumPy --------------------------------------------------------------------------------

COSTS = np.array([42.0, 44.0, 45.0, 47.0, 47.5])
READ = np.array(MEASURED)


def _rosenbrock(x: Named, y: Named) -> Any:
    squares = 100 * np.sum(y.array[..., :3] ** 2, -1) + np.sum((1 - x.array[..., :3]) ** 2, -1) + y.y4
    return squares + 100 * (x.x5 - x.x4**2) ** 2 + 100 * (x.x6 - x.x5**2) ** 2 + (1 - x.x5) ** 2


def _g09(x: Named, y: Named) -> Any:
    known = x.x3**4 + 3 * (x.x4 - 11) ** 2 + 10 * x.x5**6 + 7 * np.square(x.x6) + x.x7**4
    return y.y1 + known - 4 * x.x6 * x.x7 - 10 * x.x6 - 8 * x.x7


def _shear(x: Named, y: Named) -> Any:
    d, D = x.wire_diameter, x.coil_diameter
    return 1 - (4 * D**2 - d * D) / (12566 * (d**3 * D - d**4)) - 1 / (5108 * d**2)


def _profit(x: Named, y: Named) -> Any:
    return (1043.38 * y.X_P + 20.92 * y.X_E) * (FEED_A + x.F_B) - 79.23 * FEED_A - 118.34 * x.F_B


WRITTEN: dict[str, tuple[Function, dict[str, Function]]] = {
    "booth": (lambda x, y: y.y1 + (2 * x.x1 + x.x2 - 5) ** 2, {}),
    "williams-otto": (
        _profit,
        {"residual A": lambda x, y: 0.12 - y.X_A, "byproduct G": lambda x, y: 0.08 - y.X_G},
    ),
    "spring": (
        lambda x, y: (x.active_coils + 2) * y.volume,
        {
            "deflection": lambda x, y: y.compliance / (71785 * x.wire_diameter**4) - 1,
            "shear stress": _shear,
            "surge frequency": lambda x, y: 140.45 * x.wire_diameter * x.coil_diameter / y.compliance - 1,
            "outer diameter": lambda x, y: 1 - (x.wire_diameter + x.coil_diameter) / 1.5,
        },
    ),
    "rosen-suzuki": (
        lambda x, y: x.x1**2 + x.x2**2 + x.x4**2 - 5 * x.x1 - 5 * x.x2 + y.y1,
        {
            "first": lambda x, y: 8 - np.sum(x.array**2, -1) - x.x1 + x.x2 - x.x3 + x.x4,
            "second": lambda x, y: 10 - x.x1**2 - 2 * x.x2**2 - y.y2 + x.x1 + x.x4,
            "third": lambda x, y: 5 - 2 * x.x1**2 - x.x2**2 - x.x3**2 - 2 * x.x1 + x.x2 + x.x4,
        },
    ),
    "environmental": (lambda x, y: np.sum((y.array - READ) ** 2, -1), {}),
    "ex211": (
        lambda x, y: x.array @ COSTS - 50 * y.y1,
        {"knapsack": lambda x, y: 39 - 20 * x.x1 - y.y2 - 4 * x.x5},
    ),
    "rosenbrock": (_rosenbrock, {}),
    "g09": (
        _g09,
        {
            "first": lambda x, y: 127 - 2 * x.x1**2 - y.y2 - 5 * x.x5,
            "second": lambda x, y: 282 - 7 * x.x1 - 3 * x.x2 - 10 * x.x3**2 - x.x4 + x.x5,
            "third": lambda x, y: 196 - 23 * x.x1 - x.x2**2 - 6 * x.x6**2 + 8 * x.x7,
            "fourth": lambda x, y: 3 * x.x1 * x.x2 - 4 * x.x1**2 - x.x2**2 - 2 * x.x3**2 - 5 * x.x6 + 11 * x.x7,
        },
    ),
}
"""Objective and constraints of problems of the suite, as Python functions."""
WORDS: dict[str, Any] = {
    "log": np.log,
    "sum": lambda v: np.sum(v, -1),
    "min": lambda *parts: reduce(np.minimum, parts),
    "max": lambda *parts: reduce(np.maximum, parts),
}
"""What the formulas of random problems call."""


def in_numpy(formula: str, constants: dict[str, Any]) -> Function:
    """Return a formula as a Python function that calls NumPy."""
    code, known = compile(formula.removesuffix(" >= 0"), "formula", "eval"), WORDS | constants

    def function(x: Named, y: Named) -> Any:
        return eval(code, {**known, **x, **y, "outputs": y.array})

    return function


def stated(name: str, noisy: bool = False, seed: int = 0) -> Benchmark:
    """Return a problem of the suite or a random one, its functions in Python, exact or with noise."""
    if name in WRITTEN:
        made, (objective, constraints) = suite[name], WRITTEN[name]
    else:
        kind, d, m, n, number = name.split("-")
        made = suite.random(int(number), kind, d=int(d), m=int(m), n=int(n), cache_in=_optima())
        told = made.whole.statement()
        fixed = {word: np.array(each) for word, each in made.whole.constants.items()}
        objective = in_numpy(told["objective"]["formula"], fixed)
        texts = [each["formula"] for each in told["subject_to"]]
        constraints = {each: in_numpy(text, fixed) for each, text in zip(made.whole.constraints, texts, strict=True)}
    sense = "minimize" if made.whole.minimizes else "maximize"
    whole = made.whole.revised(**{sense: objective}, subject_to=constraints or None, constants=None)
    made = dataclasses.replace(made, whole=whole)
    if not noisy:
        return made
    std = NOISE * spread(made.outputs(whole.from_unit(Stream(0).at("noise").sobol(POOL, whole.d))))
    return made.told(noise=dict(zip(whole.outputs, std.tolist(), strict=True)), seed=seed)


# --- BoTorch's loop ---------------------------------------------------------------------------------------------------


def in_torch(problem: Problem, place: int) -> Callable[[Any, Any], Any]:
    """Return a function of the white box in torch, of x `b q d` and y `S b q m`: its program, step by step."""
    import torch

    program, sign = problem._white_box.doors[place], problem._white_box.sign(place)
    assert isinstance(program, Program), f"'{problem.functions[place]}' could not be traced"

    def joined(a: Any, b: tuple[Any, bool], kind: str) -> Any:
        if kind == "sum":
            return a - b[0] if b[1] else a + b[0]
        return a / b[0] if b[1] else a * b[0]

    def value_of(step: Step, parts: list[Any], X: Any, Y: Any) -> Any:
        match step.kind:
            case "constant":
                return torch.as_tensor(step.value) if isinstance(step.value, np.ndarray) else step.value
            case "x" | "y":
                return (X if step.kind == "x" else Y)[..., step.value]
            case "sum" | "product":  # some parts are subtracted or divided by
                return reduce(partial(joined, kind=step.kind), zip(parts[1:], step.value[1:], strict=True), parts[0])
            case "minus":
                return -parts[0]
            case "power":
                return parts[0] ** parts[1]
            case "total":
                return parts[0].sum(step.value)
            case "dot":
                return parts[0] @ torch.as_tensor(step.value)
            case "min" | "max":
                return reduce(torch.minimum if step.kind == "min" else torch.maximum, parts)
            case _:
                return getattr(torch, step.kind)(*parts)

    def function(X: Any, Y: Any) -> Any:
        values: list[Any] = []
        for step in program.steps:
            values.append(value_of(step, [values[i] for i in step.parts], X, Y))
        return (-values[-1] if sign < 0 else values[-1]).expand(Y.shape[:-1])

    return function


def botorch_loop(problem: Problem) -> Callable[[ndarray, ndarray, int], ndarray]:
    """Return what suggests a point of the unit cube, given points, outputs and a seed."""
    import torch
    from botorch.acquisition.factory import get_acquisition_function
    from botorch.acquisition.objective import GenericMCObjective
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.models.transforms.input import FilterFeatures
    from botorch.models.transforms.outcome import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import SumMarginalLogLikelihood

    torch.set_num_threads(1)
    functions, box = [in_torch(problem, place) for place in range(problem.k)], problem.bounds.T
    is_log = torch.tensor([each.log for each in problem.variables.values()])
    (lo, hi), (low, high) = torch.tensor(box), torch.tensor(np.where(is_log, box, 1.0))
    is_exact = all(noise == 0 for noise in problem.noise)

    def natural(U: Any) -> Any:
        X = lo + U * (hi - lo)
        return torch.where(is_log, low ** (1 - U) * high**U, X) if is_log.any() else X

    def fitted(U: Any, Y: Any) -> Any:
        models = []
        for y, active in zip(Y.T[..., None], torch.tensor(problem.active), strict=True):
            variance = torch.full_like(y, 1e-6 * float(y.var())) if is_exact else None
            seen = None if active.all() else FilterFeatures(active.nonzero()[:, 0])
            models.append(SingleTaskGP(U, y, variance, outcome_transform=Standardize(1), input_transform=seen))
        model = ModelListGP(*models)
        fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
        return model

    def suggest(U: ndarray, Y: ndarray, seed: int) -> ndarray:
        F = np.stack([np.broadcast_to(f, (1, len(U)))[0] for f in problem.g(problem.from_unit(U), Y[None])], -1)
        scales, has_feasible = spread(F), bool((F[:, 1:] >= 0).all(1).any())
        inside = 1e-9 * spread(Y)[:, None] * [1, -1]  # so that the logarithm of a sample at 0 is finite
        limits = torch.tensor((problem.ranges + inside).T)
        at: list[Any] = []  # x of the last call of the objective, because constraints are called without it

        def value(samples: Any, place: int, sign: float) -> Any:
            assert at[0].shape[-2] == samples.shape[-2]
            return functions[place](at[0], samples.clamp(*limits)) * (sign / scales[place])

        def objective(samples: Any, X: Any) -> Any:
            at[:] = [natural(X)]
            return value(samples, 0, 1.0)

        torch.manual_seed(seed)
        known = torch.tensor(U)
        acquisition = get_acquisition_function(
            ("qLogEI" if is_exact else "qLogNEI") if has_feasible else "qLogPF",
            fitted(known, torch.tensor(Y)),
            GenericMCObjective(objective),
            known,
            constraints=[partial(value, place=i, sign=-1.0) for i in range(1, problem.k)] or None,
            mc_samples=SAMPLES,
            seed=seed,
        )
        cube, options = torch.tensor([[0.0], [1.0]]).to(known).expand(2, problem.d), {"maxiter": 200}
        return optimize_acqf(acquisition, cube, 1, RESTARTS, RAW, options)[0][0].numpy()

    return suggest


@dataclasses.dataclass(frozen=True)
class BoTorch(Solver):
    """BoTorch's loop as a solver, so that its study has the same initial design."""

    name = "botorch"

    def start(self, problem: Problem, stream: Stream) -> "BoTorchRun":
        """Begin a run."""
        return BoTorchRun(botorch_loop(problem), stream)


@dataclasses.dataclass
class BoTorchRun(Run):
    """A run of it; everything is fitted anew for each suggestion."""

    suggest: Callable[[ndarray, ndarray, int], ndarray]
    stream: Stream

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose what it suggests."""
        seed = int(self.stream.at("trial", number).generator().integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Proposal(np.clip(self.suggest(data.U, data.Y, seed), 0.0, 1.0), Why("botorch"))


# --- One run ----------------------------------------------------------------------------------------------------------


def items_of(
    problems: Iterable[str], noise: Iterable[bool], loops: Iterable[str], seeds: int, budget: int
) -> list[slices.Item]:
    """Return every run, seed by seed; the loops of a problem follow each other."""
    return [
        {"problem": problem, "noisy": noisy, "loop": loop, "seed": seed, "budget": budget}
        for seed in range(seeds) for problem in problems for noisy in noise for loop in loops
    ]  # fmt: skip


class Timed:
    """A study whose suggestions are timed."""

    def __init__(self, problem: Problem, solver: str | Solver, seed: int) -> None:
        self.study = Study(problem, solver=solver, seed=seed, patience=None)
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def step(self) -> Trial:
        """Ask, evaluate and tell once; asks of the initial design are not timed."""
        study, is_initial = self.study, self.study.used < self.study.initial
        wall, cpu = time.perf_counter(), time.process_time()
        trial = study.ask()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if not is_initial:
            self.wall.append(round(wall, 6))
            self.cpu.append(round(cpu, 6))
        return study.tell(trial, study.problem.named_y(study.problem.evaluate(trial.x)), anyway=True)


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; an error ends it, and what was done before counts."""
    benchmark = stated(item["problem"], item["noisy"], item["seed"])
    solver = {"pied": "cuqb", "botorch": BoTorch()}.get(item["loop"], item["loop"])
    warm = Timed(stated("booth", item["noisy"]).problem, solver, 0)
    while not warm.cpu:  # what libraries load and prepare with their first suggestion
        warm.step()
    timed, trials, error = Timed(benchmark.problem, solver, item["seed"]), [], None
    try:
        while len(trials) < item["budget"]:
            trials.append(timed.step())
    except SolverDone:
        pass
    except Exception as raised:
        error = f"{type(raised).__name__} at evaluation {len(trials) + 1}: {raised}"
    whole, X = benchmark.whole, np.array([trial.x.array for trial in trials])
    best = measures.best_feasible(benchmark.truth(X)[:, 0], benchmark.is_strictly_feasible(X))
    regret = (benchmark.best - best) / abs(benchmark.best - benchmark.median)
    return {
        "size": {"d": whole.d, "m": whole.m, "n": whole.n, "initial": timed.study.initial},
        "wall": timed.wall,
        "cpu": timed.cpu,
        "best": [whole.user_value(each) if math.isfinite(each) else None for each in best.tolist()],
        "regret": [each if math.isfinite(each) else None for each in regret.tolist()],
        "until": [report.until({"regret": regret.tolist()}, tolerance) for tolerance in TOLERANCES],
        "error": error,
    }


def verdict(item: slices.Item) -> dict[str, Any]:
    """Run a problem and its infeasible twin in turn; return the seconds of an ask of each, at the same N."""
    benchmark = stated(item["problem"])
    both = [Timed(each.problem, "cuqb", item["seed"]) for each in (benchmark, twins.infeasible(benchmark))]
    pairs = []
    for _ in range(item["budget"]):
        one, other = (each.step().why for each in both)
        if one.aim != "initial" and one.margin is None and other.margin is not None:
            pairs.append([each.cpu[-1] for each in both])
    return {"pairs": pairs}


# --- The page ---------------------------------------------------------------------------------------------------------

Cases = dict[tuple[str, str], dict[str, list[Any]]]
"""Records of runs by problem and 'exact' or 'noisy', then by loop."""


def cases_of(records: Iterable[Any]) -> Cases:
    """Arrange the records of runs that made suggestions."""
    cases: Cases = {}
    for record in records:
        item = record["item"]
        if item["loop"] in LOOPS and record.get("cpu"):
            key = item["problem"], "noisy" if item["noisy"] else "exact"
            cases.setdefault(key, {}).setdefault(item["loop"], []).append(record)
    return cases


def median(runs: Iterable[Any], most: float = math.inf) -> float:
    """Return the median processor time of suggestions with at most so many points."""
    cpu = [each for r in runs for points, each in enumerate(r["cpu"], r["size"]["initial"]) if points <= most]
    return report.quantile(cpu, 0.5)


def ratio(loops: dict[str, list[Any]]) -> float:
    """Return how many times faster we are than BoTorch's loop, by medians over the seeds of both; else NaN."""
    ours, theirs = ({r["item"]["seed"]: r for r in loops.get(loop, [])} for loop in ("pied", "botorch"))
    both = ours.keys() & theirs.keys()
    return median(theirs[seed] for seed in both) / median(ours[seed] for seed in both) if both else math.nan


def verdicts_of(records: Iterable[Any]) -> dict[str, tuple[int, float, float]]:
    """Return, by problem, how many asks were compared, and the median seconds of ordinary ones and the others."""
    by: dict[str, list[Any]] = {}
    for record in records:
        by.setdefault(record["item"]["problem"], []).extend(record.get("pairs", []))
    return {
        problem: (len(pairs), *(report.quantile(each, 0.5) for each in zip(*pairs, strict=True)))
        for problem, pairs in by.items()
        if pairs
    }  # type: ignore[return-value]


def cases_table(cases: Cases, cell: Callable[[list[Any]], str], last: dict[str, Callable[[Any], str]]) -> str:
    """Return a row for each case and a cell for each loop, then further columns of the case."""
    rows = []
    for (problem, noise), loops in cases.items():
        size = next(iter(loops.values()))[0]["size"]
        cells = [cell(loops[loop]) if loop in loops else "-" for loop in LOOPS]
        rows.append([problem, noise, *(size[word] for word in "dmn"), *cells, *(of(loops) for of in last.values())])
    return report.table(["problem", "", "d", "m", "n", *LOOPS, *last], rows)


def seconds(runs: list[Any]) -> str:
    """Write median and worst seconds of suggestions."""
    return f"{median(runs):.3f} ({max(max(r['cpu']) for r in runs):.3f})"


def evaluations(runs: list[Any]) -> str:
    """Write evaluations to both tolerances and the last regret, medians over seeds."""
    until = (report.count(report.quantile([r["until"][i] for r in runs], 0.5)) for i in range(len(TOLERANCES)))
    return " / ".join([*until, report.small(report.quantile([r["regret"][-1] for r in runs], 0.5))])


def targets_table(cases: Cases, verdicts: dict[str, tuple[int, float, float]]) -> str:
    """Return what is wanted and what was measured."""
    ratios = {", ".join(key): each for key, loops in cases.items() if not math.isnan(each := ratio(loops))}
    small = {
        ", ".join(key): median(loops["pied"], SMALL["N"])
        for key, loops in cases.items()
        if "pied" in loops and all(loops["pied"][0]["size"][word] <= SMALL[word] for word in "dm")
    }
    pending = {problem: other / one for problem, (_, one, other) in verdicts.items()}
    rows = []
    if ratios:
        mean, worst = statistics.geometric_mean(ratios.values()), min(ratios, key=lambda case: ratios[case])
        rows += [
            ["times faster than BoTorch's loop, geometric mean", f">= {FASTER:g}", f"{mean:.1f}", mean >= FASTER],
            ["the same, every case", f">= {LEAST:g}", f"{ratios[worst]:.1f} ({worst})", ratios[worst] >= LEAST],
        ]
    words = (
        (f"median seconds where {', '.join(f'{word} <= {most}' for word, most in SMALL.items())}", SECONDS, small),
        ("an ask with a verdict pending over an ordinary one", PENDING, pending),
    )
    for what, most, found in words:
        if found:
            worst = max(found, key=lambda case: found[case])
            rows.append([what, f"<= {most:g}", f"{found[worst]:.3g} ({worst})", found[worst] <= most])
    shown = [[*row[:3], "met" if row[3] else "missed"] for row in rows]
    return report.table(["target", "wanted", "measured, worst case", ""], shown)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    cases, verdicts = cases_of(records), verdicts_of(records)
    runs = [r for loops in cases.values() for each in loops.values() for r in each]
    waited = sum(sum(r["wall"]) for r in runs) / max(sum(sum(r["cpu"]) for r in runs), 1e-9)
    absent = [loop for loop in LOOPS if not any(r["item"]["loop"] == loop for r in records)]
    budgets = ", ".join(str(each) for each in sorted({r["item"]["budget"] for r in records}))
    blocks = [
        slices.heading("Whole runs of four loops", records),
        f"Runs of {budgets} evaluations from the same initial designs, each in a process of its own on one thread. "
        f"Processor seconds; the clock's were {waited:.2f} times as many. Noise: {NOISE:.0%} of each output's spread. "
        f"BoTorch's loop: {SAMPLES} samples, {RAW} raw samples, {RESTARTS} restarts. Ratios are those of medians.",
        *([f"No runs, because not installed or not wanted: {', '.join(absent)}."] if absent else []),
        "## Targets",
        targets_table(cases, verdicts),
        "## Seconds per suggestion: median (worst)",
        cases_table(cases, seconds, {"botorch / pied": lambda loops: report.count(ratio(loops))}),
        f"## Evaluations to a normalized regret of {TOLERANCES[0]:g} / of {TOLERANCES[1]:g} / the last regret",
        "Of the best strictly feasible true value, the initial design included.",
        cases_table(cases, evaluations, {}),
        "## Asks with a verdict pending",
        "A problem and its infeasible twin in turn, at the same N: median seconds of ordinary asks, and of asks while "
        "nothing feasible is known.",
        report.table(
            ["problem", "asks", "ordinary", "pending", "ratio"],
            [[name, n, f"{a:.3f}", f"{b:.3f}", f"{b / a:.2f}"] for name, (n, a, b) in verdicts.items()],
        ),
    ]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "noisy", "loop", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="loops.jsonl.gz", seeds=1)
    every = (*WRITTEN, *DRAWS)
    parser.add_argument("--problems", nargs="+", choices=every, default=every, metavar="NAME", help="default all 16")
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"evaluations; default {BUDGET}")
    parser.add_argument("--verdict", action="store_true", help="measure asks with a verdict pending instead")
    parser.add_argument("--one", type=json.loads, metavar="RUN", help="perform one run here and print its record")
    given = parser.parse_args(words)
    if given.one is not None:
        work = verdict if given.one["loop"] == "verdict" else run
        slices.alone(given.one, lambda item, begun, report: work(item))
        return 0
    if given.report:
        return slices.write(given, page, "loops.md")
    if given.verdict:
        problems = [name for name in VERDICTS if name in given.problems]
        return slices.work_alone(items_of(problems, (False,), ["verdict"], given.seeds, given.budget), given, __file__)
    absent = [loop for loop in given.loops if find_spec(loop) is None]
    if absent:
        print(f"left out, because not installed: {', '.join(absent)}", file=sys.stderr)
    loops = [loop for loop in given.loops if loop not in absent]
    return slices.work_alone(items_of(given.problems, (False, True), loops, given.seeds, given.budget), given, __file__)


if __name__ == "__main__":
    main()
