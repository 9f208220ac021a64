"""Fronts of several objectives: whole runs of six loops under the same budget, judged by hypervolume.

    python benchmarks/fronts.py --jobs 16 --limit 3000 --out fronts.jsonl.gz         # a part; repeat until none is left
    python benchmarks/fronts.py --ratio --jobs 1 --seeds 1 --budget 40 --out fronts.jsonl.gz   # beside one objective
    python benchmarks/fronts.py --out fronts.jsonl.gz --report --page fronts.md      # the page
    python benchmarks/fronts.py --problems binh-korn --contenders pied random --seeds 1 --budget 40 --out try.jsonl.gz

- pied: a study with its default solver;
- botorch: composite qLogNEHVI of BoTorch (`composite` for models and spaces), which is also told the reference point by
  which all are judged;
- ax: Ax with its default strategy; it is told functions instead of outputs (it knows no composites), and the reference
  point, too;
- optuna-nsga2, optuna-tpe: Optuna's samplers of several objectives, with its constraints;
- random: points at random.

All loops begin with the initial design of pied. Every run is a process of its own with one thread, warmed up by one
suggestion on another problem. Runs of contenders that a time limit cuts off are continued by the next call, and count
on the page as far as they came.
"""

import slices  # first: see there

# isort: split
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import composite
import numpy as np
import report

from pied import suite
from pied.hypervolume import hypervolume
from pied.records.trial import spread
from pied.rng import Stream
from pied.study import Study
from pied.suite import FrontBenchmark

LOOPS = ("pied", "botorch", "ax", "optuna-nsga2", "optuna-tpe", "random")
OURS = {"pied": "cuqb", "random": "random"}
NEEDS = {"botorch": "botorch", "ax": "ax", "optuna-nsga2": "optuna", "optuna-tpe": "optuna"}
BUDGET = 100
AT = (40, 100)
"""Evaluations at which loops are compared."""
MOST = 200
"""Iterations of BoTorch's search, as in its tutorials of several objectives; its own limit is 2000."""
POPULATION = 20
"""Of NSGA-II: with Optuna's own 50, a run of 100 evaluations would have two generations."""

Told = tuple[np.ndarray, np.ndarray, np.ndarray]
"""A point in the unit cube, its outputs, its functions (side by side, better if larger)."""


# --- Contenders -------------------------------------------------------------------------------------------------------


def optuna_loop(benchmark: FrontBenchmark, told: Sequence[Told], seed: int, *, sampler: str) -> np.ndarray:
    """Return what Optuna suggests."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    problem, names = benchmark.problem, [str(j) for j in range(benchmark.problem.d)]
    kinds = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in names}

    def violations(trial: Any) -> list[float]:
        return list(trial.user_attrs["limits"])

    if sampler == "tpe":
        made: Any = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=0, multivariate=True, constraints_func=violations
        )
    else:
        made = optuna.samplers.NSGAIISampler(seed=seed, population_size=POPULATION, constraints_func=violations)
    study = optuna.create_study(directions=["maximize"] * len(problem.objectives), sampler=made)
    for number, (u, _, f) in enumerate(told):
        limits = (-f[1 : problem.k]).tolist()
        attributes = {"constraints": limits}
        if sampler == "nsga2":  # whose parents are those of the generation before
            attributes["NSGAIISampler:generation"] = number // POPULATION
        study.add_trial(
            optuna.trial.create_trial(
                params=dict(zip(names, u.tolist(), strict=True)),
                distributions=kinds,
                values=f[problem.goal_places].tolist(),
                user_attrs={"limits": limits},
                system_attrs=attributes,
            )
        )
    found = study.ask(kinds).params
    return np.array([found[name] for name in names])


def botorch_loop(benchmark: FrontBenchmark, told: Sequence[Told], seed: int) -> np.ndarray:
    """Return what BoTorch suggests; everything is fitted anew."""
    import torch
    from botorch.acquisition.factory import get_acquisition_function
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
    from botorch.acquisition.multi_objective.objective import GenericMCMultiOutputObjective
    from botorch.acquisition.objective import GenericMCObjective
    from botorch.sampling.normal import SobolQMCNormalSampler

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    problem, whole = benchmark.problem, benchmark.problem.side_by_side
    cube = composite.Cube(problem)
    functions = [composite.in_torch(whole, place) for place in range(whole.k)]
    known = torch.tensor(np.array([u for u, _, _ in told]))
    Y, F = torch.tensor(np.array([y for _, y, _ in told])), np.array([f for _, _, f in told])
    scales = spread(F)
    # The jitter of BoTorch's factorizations is absolute: with outputs in natural units they fail, and every sample is
    # drawn by a slower way.
    centre, size = Y.mean(0), Y.std(0).clamp_min(1e-12)
    inside = 1e-9 * spread(Y.numpy())[:, None] * [1, -1]
    limits = torch.tensor((problem.ranges + inside).T)
    at: list[Any] = [None, None, None]  # x, samples and outputs of the last call: constraints are called without x

    def placed(samples: Any, X: Any = None) -> None:
        """Note where samples are; all functions of the same samples share their outputs."""
        if X is not None:
            at[0] = cube.natural(X)
        if at[1] is not samples:
            at[1:] = samples, (centre + size * samples).clamp(*limits)

    def value(samples: Any, place: int, sign: float) -> Any:
        placed(samples)
        return functions[place](at[0], at[2]) * (sign / scales[place])

    def objectives(samples: Any, X: Any = None) -> Any:
        placed(samples, X)
        return torch.stack([value(samples, place, 1.0) for place in problem.goal_places], -1)

    constraints = [partial(value, place=i, sign=-1.0) for i in range(1, problem.k)]
    reference = np.array(benchmark.reference) * problem.goal_signs / scales[problem.goal_places]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = composite.fitted(known, (Y - centre) / size, problem.active, cube.is_choice, is_exact=True)
        if (F[:, 1 : problem.k] >= 0).all(1).any():
            acquisition: Any = qLogNoisyExpectedHypervolumeImprovement(
                model,
                torch.tensor(reference),
                known,
                sampler=SobolQMCNormalSampler(torch.Size([composite.SAMPLES]), seed=seed),
                objective=GenericMCMultiOutputObjective(objectives),
                constraints=constraints or None,
                prune_baseline=True,
            )
        else:
            acquisition = get_acquisition_function(
                "qLogPF", model, GenericMCObjective(lambda samples, X: objectives(samples, X)[..., 0]), known,
                constraints=constraints, mc_samples=composite.SAMPLES, seed=seed,
            )  # fmt: skip
            # the probability of feasibility calls no objective
            acquisition.register_forward_pre_hook(lambda _, given: at.__setitem__(0, cube.natural(given[0])))
        # A line search that ends at rounding counts as a failure, after which BoTorch would discard all restarts and
        # begin anew, twice as long and no better.
        found = cube.best(acquisition, options={"maxiter": MOST}, retry_on_optimization_warning=False)
    return np.clip(found.detach().numpy(), 0.0, 1.0)


def ax_loop(benchmark: FrontBenchmark, told: Sequence[Told], seed: int) -> np.ndarray:
    """Return what Ax suggests, with its default generation strategy for several objectives.

    It is told functions, not outputs, since it knows no composites; and the reference point, as thresholds.
    """
    import ax

    logging.getLogger("ax.api.client").setLevel(logging.ERROR)  # a line for each told trial
    problem, names = benchmark.problem, [f"v{j}" for j in range(benchmark.problem.d)]
    goals, limits = problem.goal_places, range(1, problem.k)
    least = np.array(benchmark.reference) * problem.goal_signs
    client = ax.Client(random_seed=seed)
    client.configure_experiment(
        [ax.RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0)) for name in names]
    )
    client.configure_optimization(
        ", ".join(f"f{i}" for i in goals),
        [*(f"f{i} >= {end:.12f}" for i, end in zip(goals, least, strict=True)), *(f"f{i} >= 0" for i in limits)],
    )
    client.configure_generation_strategy(method="fast", initialization_budget=0, initialize_with_center=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for u, _, f in told:
            index = client.attach_trial(dict(zip(names, u.tolist(), strict=True)))
            client.complete_trial(index, {f"f{i}": (float(f[i]), 0.0) for i in (*goals, *limits)})
        (found,) = client.get_next_trials(1).values()
    return np.array([found[name] for name in names])


CONTENDERS: dict[str, Callable[..., np.ndarray]] = {
    "botorch": botorch_loop,
    "ax": ax_loop,
    "optuna-nsga2": partial(optuna_loop, sampler="nsga2"),
    "optuna-tpe": partial(optuna_loop, sampler="tpe"),
}


# --- One run ----------------------------------------------------------------------------------------------------------


class Course:
    """A run: points, what was told, and the time of suggestions."""

    def __init__(self, benchmark: FrontBenchmark) -> None:
        self.benchmark, self.told, self.wall, self.cpu = benchmark, [], [], []

    def add(self, u: np.ndarray) -> np.ndarray:
        """Evaluate a point of the unit cube, and keep it."""
        problem = self.benchmark.problem
        X = problem.from_unit(u[None])
        y = np.array([np.asarray(each, dtype=float).ravel()[0] for each in self.benchmark.h(*X.T)])
        self.told.append((u, y, self.benchmark.truth(X)[0]))
        return y

    def timed(self, suggest: Callable[[], Any]) -> Any:
        """Return a suggestion, and keep its time."""
        wall, cpu = time.perf_counter(), time.process_time()
        found = suggest()
        self.wall.append(round(time.perf_counter() - wall, 6))
        self.cpu.append(round(time.process_time() - cpu, 6))
        return found

    def told_by(self, study: Study) -> None:
        """Ask, evaluate and tell once; asks of the initial design are not timed."""
        trial = study.ask() if study.used < study.initial else self.timed(study.ask)
        y = self.add(study.problem.to_unit(np.array(trial.x.array)))
        study.tell(trial, dict(zip(study.problem.outputs, y.tolist(), strict=True)), anyway=True)

    def suggested(self, loop: str, seed: int) -> None:
        """Evaluate what a contender suggests."""
        own = int(Stream(seed).at("contender", len(self.told)).generator().integers(2**31))
        self.add(self.timed(lambda: CONTENDERS[loop](self.benchmark, self.told, own)))

    def volumes(self) -> list[float]:
        """Return, after each evaluation, the share of the hypervolume of the whole front."""
        benchmark = self.benchmark
        f = np.array([each for _, _, each in self.told])
        fine = benchmark.is_strictly_feasible(f, sizes_of(benchmark))
        signs = benchmark.problem.goal_signs
        P = np.where(fine[:, None], benchmark.objectives(f), np.nan)
        reference = np.array(benchmark.reference) * signs
        return [hypervolume(P[: t + 1], reference) / benchmark.volume for t in range(len(P))]


def sizes_of(benchmark: FrontBenchmark) -> np.ndarray:
    """Return the median size of each constraint over the box."""
    problem = benchmark.problem
    f = benchmark.truth(problem.from_unit(Stream(0).at("sizes").sobol(4096, problem.d)))
    return np.median(np.abs(f[:, 1 : problem.k]), 0)


def started(benchmark: FrontBenchmark, loop: str, seed: int) -> Study:
    """Return the study of a run, whose initial design all loops have in common."""
    return Study(benchmark.problem, solver=OURS.get(loop, "cuqb"), seed=seed, patience=None)


def run(item: slices.Item, begun: Sequence[Any] = (), keep: Any = lambda piece: None) -> dict[str, Any]:
    """Perform one run, or continue it; an error ends it, and what was done before counts."""
    loop, seed = item["loop"], item["seed"]
    warm = Course(suite.front("binh-korn"))
    study = started(warm.benchmark, loop, 0)
    for _ in range(study.initial):
        warm.told_by(study)
    warm.told_by(study) if loop in OURS else warm.suggested(loop, 0)
    benchmark = suite.front(item["problem"])
    course, study, error = Course(benchmark), started(benchmark, loop, seed), None
    try:
        for u, spent in begun:
            course.add(np.array(u))
            if spent:
                course.wall.append(spent[0])
                course.cpu.append(spent[1])
        while len(course.told) < study.initial:
            course.told_by(study)
            if loop not in OURS:
                keep([course.told[-1][0].tolist(), []])
        while len(course.told) < item["budget"]:
            if loop in OURS:
                course.told_by(study)
            else:
                course.suggested(loop, seed)
                keep([course.told[-1][0].tolist(), [course.wall[-1], course.cpu[-1]]])
    except Exception as raised:
        error = f"{type(raised).__name__} at evaluation {len(course.told) + 1}: {raised}"
    problem = benchmark.problem
    return {
        "size": {"d": problem.d, "m": problem.m, "n": problem.n, "initial": study.initial, "budget": item["budget"]},
        "wall": course.wall,
        "cpu": course.cpu,
        "volume": [round(each, 9) for each in course.volumes()],
        "error": error,
    }


def first_alone(benchmark: FrontBenchmark) -> FrontBenchmark:
    """Return the same problem with its first objective only."""
    problem = benchmark.problem
    goal = problem.goals[0]
    words: dict[str, Any] = {"maximize": None, "minimize": None, goal.sense: goal.given, "name": goal.name}
    return replace(benchmark, problem=problem.revised(**words))


def beside(item: slices.Item) -> dict[str, Any]:
    """Run a study of several objectives and one of the first of them in turns; return the time of their suggestions."""
    warm = suite.front("binh-korn")
    pairs: list[tuple[Course, Study]] = []
    for benchmark, budget in (
        (warm, started(warm, "pied", 0).initial + 2),
        (suite.front(item["problem"]), item["budget"]),
    ):
        both = [benchmark, first_alone(benchmark)]
        pairs = [(Course(each), started(each, "pied", item["seed"])) for each in both]
        for _ in range(budget):
            for course, study in pairs:
                course.told_by(study)
    (several, _), (one, _) = pairs
    problem = several.benchmark.problem
    return {
        "size": {"d": problem.d, "m": problem.m, "n": problem.n, "budget": item["budget"]},
        "several": several.cpu,
        "one": one.cpu,
        "error": None,
    }


# --- The page ---------------------------------------------------------------------------------------------------------

Cases = dict[str, dict[str, list[Any]]]


def cases_of(records: Iterable[Any]) -> Cases:
    """Arrange the records of runs by problem and loop; a run that was cut off counts as far as it came.

    Of runs of the same loop and seed with different budgets, the longest counts.
    """
    cases: Cases = {}
    for record in sorted(records, key=lambda each: each["item"]["budget"]):
        item, found = record["item"], replayed(record) if "begun" in record else record
        if "volume" in found:
            of_loop = cases.setdefault(item["problem"], {}).setdefault(item["loop"], [])
            others = [each for each in of_loop if each["item"]["seed"] != item["seed"]]
            longer = [each for each in of_loop if each not in others and len(each["volume"]) > len(found["volume"])]
            of_loop[:] = others + (longer or [found])
    return {problem: cases[problem] for problem in suite.sets["fronts"] if problem in cases}


def replayed(record: Any) -> dict[str, Any]:
    """Return the record of a run that was cut off, from its points."""
    benchmark = suite.front(record["item"]["problem"])
    course, spent = Course(benchmark), [spent for _, spent in record["begun"] if spent]
    for u, _ in record["begun"]:
        course.add(np.array(u))
    problem = benchmark.problem
    return {
        "item": record["item"],
        "size": {"d": problem.d, "m": problem.m, "n": problem.n, "budget": record["item"]["budget"]},
        "wall": [wall for wall, _ in spent],
        "cpu": [cpu for _, cpu in spent],
        "volume": course.volumes(),
        "error": None,
    }


def reached(runs: Sequence[Any], at: int) -> int:
    """Return how many evaluations all runs have, at most so many."""
    return min([at, *(len(each["volume"]) for each in runs)])


def missing(runs: Sequence[Any], at: int) -> float:
    """Return the median share of the hypervolume that is missing after so many evaluations."""
    values = [1.0 - each["volume"][min(at, len(each["volume"])) - 1] for each in runs if each["volume"]]
    return float(np.median(values)) if values else float("nan")


def table(cases: Cases, at: int) -> str:
    """Return one row for each problem, and the number of problems in which pied leads each loop.

    A loop is compared with pied in the same seeds; one whose runs were cut off, at the evaluation that it reached. Runs
    with a smaller budget are left out.
    """
    cases = {
        name: {loop: kept for loop, runs in loops.items() if (kept := [r for r in runs if r["item"]["budget"] >= at])}
        for name, loops in cases.items()
    }
    present = [loop for loop in LOOPS if any(loop in loops for loops in cases.values())]
    rows, leads = [], dict.fromkeys(present, 0)
    counted = dict.fromkeys(present, 0)
    for name, loops in cases.items():
        values = {loop: missing(loops[loop], at) for loop in present if loop in loops}
        whole = {loop: value for loop, value in values.items() if reached(loops[loop], at) == at}
        cells = []
        for loop in present:
            if loop not in values:
                cells.append("-")
                continue
            came = reached(loops[loop], at)
            mark = "**" if loop in whole and whole[loop] == min(whole.values()) else ""
            cells.append(f"{mark}{100 * values[loop]:.2f} %{mark}" + (f" (at {came})" if came < at else ""))
            seeds = {each["item"]["seed"] for each in loops[loop]}
            ours = [each for each in loops.get("pied", []) if each["item"]["seed"] in seeds]
            if ours and loop != "pied":
                counted[loop] += 1
                leads[loop] += missing(ours, came) < missing(loops[loop], came)
        rows.append([name, *cells])
    rows.append(["pied ahead", *(f"{leads[loop]} of {counted[loop]}" if counted[loop] else "-" for loop in present)])
    return report.table(["problem", *present], rows)


def ratios(records: Iterable[Any]) -> str:
    """Return one row for each problem: seconds per suggestion of several objectives and of the first one alone."""
    rows, found = [], [each for each in records if "several" in each]
    for name in suite.sets["fronts"]:
        own = [each for each in found if each["item"]["problem"] == name]
        if own:
            several, one = (np.median([t for each in own for t in each[word]]) for word in ("several", "one"))
            whole = sum(sum(each["several"]) for each in own) / sum(sum(each["one"]) for each in own)
            rows.append([name, f"{several:.3f}", f"{one:.3f}", f"{several / one:.2f}", f"{whole:.2f}"])
    heads = ["problem", "several objectives, s", "the first alone, s", "ratio of medians", "ratio of sums"]
    return report.table(heads, rows) if rows else ""


def times(cases: Cases) -> str:
    """Return one row for each problem: median seconds of a suggestion, by loop."""
    present = [loop for loop in LOOPS if any(loop in loops for loops in cases.values())]
    rows = []
    for name, loops in cases.items():
        spent = [[t for r in loops.get(loop, []) for t in r["cpu"]] for loop in present]
        size = next(iter(loops.values()))[0]["size"]
        rows.append(
            [name, *(size[word] for word in ("d", "m", "n")), *(f"{np.median(t):.3f}" if t else "-" for t in spent)]
        )
    return report.table(["problem", "d", "m", "n", *present], rows)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    cases, beside_one = cases_of(records), ratios(records)
    blocks = [
        slices.heading("Fronts of two objectives", records),
        "Runs from the same initial designs, each in a process of its own on one thread. Hypervolume of the strictly "
        "feasible evaluations, reference point a tenth of the front's extent below its worst values; seconds are "
        f"processor seconds. BoTorch: {composite.SAMPLES} samples, {composite.RAW} raw samples, {composite.RESTARTS} "
        f"restarts of at most {MOST} iterations, baseline pruned, as in its tutorials; outputs standardized. Ax: its "
        "default strategy, functions as black boxes. "
        f'NSGA-II: {POPULATION} a generation. "(at 31)": the time limit ended runs there; they are compared with pied '
        "after as many evaluations, in the same seeds.",
        slices.loads(records),
    ]
    for at in AT:
        if any(r["size"]["budget"] >= at for loops in cases.values() for runs in loops.values() for r in runs):
            blocks += [f"## Hypervolume still missing after {at} evaluations (median of the seeds)", table(cases, at)]
    blocks += ["## Processor seconds per suggestion (median)", times(cases)]
    if beside_one:
        blocks += [
            "## Processor seconds per suggestion, beside one objective",
            "Each problem and the same with its first objective only, by turns in one process, from the same initial "
            "design.",
            beside_one,
        ]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "loop", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def present(loops: Sequence[str]) -> list[str]:
    """Return the loops whose libraries are installed; say which are left out."""
    absent = [loop for loop in loops if loop in NEEDS and find_spec(NEEDS[loop]) is None]
    if absent:
        print(f"left out, because not installed: {', '.join(absent)}", file=sys.stderr, flush=True)
    return [loop for loop in loops if loop not in absent]


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="fronts.jsonl.gz", seeds=10)
    every = suite.sets["fronts"]
    parser.add_argument("--problems", nargs="+", choices=every, default=every, metavar="NAME", help="default all")
    parser.add_argument("--contenders", "--loops", dest="loops", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"evaluations of a run; default {BUDGET}")
    parser.add_argument("--ratio", action="store_true", help="time suggestions beside those of one objective instead")
    parser.add_argument("--one", type=json.loads, metavar="RUN", help="perform one run here and print its record")
    given = parser.parse_args(words)
    if given.one is not None:
        slices.alone(given.one, (lambda item, *_: beside(item)) if given.one["loop"] == "ratio" else run)
        return 0
    if given.report:
        return slices.write(given, page, "fronts.md")
    loops = ["ratio"] if given.ratio else present(given.loops)
    items = slices.ordered(
        {"problem": problem, "loop": loop, "seed": seed, "budget": given.budget}
        for seed in range(given.seeds) for problem in given.problems for loop in loops
    )  # fmt: skip
    return slices.work_alone(items, given, __file__)


if __name__ == "__main__":
    main()
