"""Seconds per proposal, compared with what a BoTorch user would write, and the subproblem value that each reaches.

    python benchmarks/suggest.py                          # all cases, 7 problems at N = 15, 50, 100
    python benchmarks/suggest.py --problems g09 --sizes 50 --reference-repeats 3
    python benchmarks/suggest.py --check                  # before a release: fails when half of the lead is lost

Three methods, in turn in one process, on one thread, from the same data (N Sobol points, exact outputs):

- reference: one SingleTaskGP per output, `fit_gpytorch_mll`, the 0.95 quantile of g(x, h(x)) from 512 Sobol samples
  (BoTorch's own default) as an acquisition function with the paper's penalty for constraints, `optimize_acqf` with 8192
  raw samples and 3 restarts;
- paper: `CUQB.paper()`;
- default: `CUQB()`, asked repeatedly while the data grow by an eighth, so that the mean includes one selection of
  models and a proportional number of verifications; the first, cold ask is shown separately.

Times are processor times, which depend less on the load of the machine. A reference proposal is measured once per
repeat, and the smallest time is kept for each of the three methods, because disturbances only add time.

The second table gives the same belief, the reference's models, to both searches: the upper bound reached is
compared, in units of the objective's spread, if both satisfy the constraints' upper bounds.
"""

import argparse
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import report
import torch
from numpy import ndarray
from report import table
from torch import Tensor

from pied import suite
from pied.bounds.believer import Believer, optimistic
from pied.bounds.composite import Composite
from pied.problem import Problem
from pied.records.trial import Dataset, Why, spread
from pied.rng import Stream
from pied.search.functions import Functions
from pied.search.multistart import Search
from pied.solvers.cuqb import CUQB

PROBLEMS = ("booth", "rosenbrock", "williams-otto", "g09", "ex724", "ex216", "environmental")
SIZES = (15, 50, 100)
LEVEL = 0.95
RHO = 1e5
RAW, RESTARTS, SAMPLES = 8192, 3, 512
RAW_AT_ONCE = 512  # the fastest of 64, 512 and 4096 for most cases; all at once needs gigabytes at N = 100
TARGET, LEAST = 20.0, 8.0
CHECKED = (("williams-otto", 15), ("g09", 15), ("ex216", 15))  # the cases of --check
CASE = ("problem", "d", "m", "N")
WAYS = ("reference", "paper", "default")


# --- The data ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """A problem and its data."""

    name: str
    problem: Problem
    U: ndarray
    Y: ndarray

    @classmethod
    def of(cls, name: str, count: int) -> "Case":
        """Evaluate the black box at Sobol points."""
        problem = suite[name].problem
        U = Stream(0).at("suggest", name).sobol(count, problem.d)
        Y = np.stack([problem.evaluate(problem.named_x(x)) for x in problem.from_unit(U)])
        return cls(name, problem, U, Y)

    def data(self, count: int, memory: Any = None) -> Dataset:
        """Return the first points as a dataset."""
        last = Why("explore", memory=memory) if memory else None
        return Dataset(tuple(range(1, count + 1)), self.U[:count], self.Y[:count], self.U[:0], last)


# --- The reference ----------------------------------------------------------------------------------------------------


def reference_fit(case: Case, count: int) -> Any:
    """Fit BoTorch's models to exact outputs."""
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP, SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    models, U = [], torch.tensor(case.U[:count])
    for j in range(case.problem.m):
        y = torch.tensor(case.Y[:count, j : j + 1])
        model = SingleTaskGP(U, y, torch.full_like(y, 1e-6 * float(y.var())))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        models.append(model)
    return ModelListGP(*models) if len(models) > 1 else models[0]


def acquisition(problem: Problem, model: Any) -> Any:
    """Return the upper quantile bound as a BoTorch user would write it."""
    from botorch.acquisition import AcquisitionFunction
    from botorch.sampling import SobolQMCNormalSampler
    from botorch.utils.transforms import t_batch_mode_transform

    class UpperQuantile(AcquisitionFunction):
        def __init__(self) -> None:
            super().__init__(model)
            self.sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=0)

        @t_batch_mode_transform(expected_q=1)
        def forward(self, X: Tensor) -> Tensor:
            Y = self.sampler(self.model.posterior(X))[:, :, 0, :]
            G = _Functions.apply(X[:, 0], Y, problem)
            Q = torch.quantile(G, LEVEL, dim=1)
            return Q[0] - RHO * (-Q[1:]).clamp_min(0.0).sum(0)

    return UpperQuantile()


class _Functions(torch.autograd.Function):
    """g as a function of tensors, with the slopes that a problem computes."""

    @staticmethod
    def forward(ctx: Any, U: Tensor, Y: Tensor, problem: Problem) -> Tensor:
        X, which = problem.from_unit(U.detach().numpy()), tuple(range(problem.k))
        if not any(ctx.needs_input_grad):
            G = problem.g(X, Y.detach().numpy(), which)
            return torch.from_numpy(np.stack([np.broadcast_to(g, Y.shape[:2]) for g in G]))
        values, ctx.back = problem.traced(X, Y.detach().numpy(), which)
        ctx.unit_slopes = problem.unit_slopes(X)
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        by_x, by_Y = ctx.back(grads[0].numpy())
        return torch.from_numpy(by_x.sum(0) * ctx.unit_slopes), torch.from_numpy(by_Y.sum(0)), None


def unit_box(d: int) -> Tensor:
    """Return the box in BoTorch's form."""
    return torch.stack([torch.zeros(d, dtype=torch.float64), torch.ones(d, dtype=torch.float64)])


def screened(acquisition: Any, d: int) -> Tensor:
    """Choose starts among the raw samples."""
    from botorch.optim.initializers import gen_batch_initial_conditions
    from botorch.utils.sampling import manual_seed

    with manual_seed(0):
        return gen_batch_initial_conditions(
            acquisition, unit_box(d), 1, RESTARTS, RAW, options={"init_batch_limit": RAW_AT_ONCE}
        )


def solved(acquisition: Any, d: int, starts: Tensor) -> Tensor:
    """Maximize the acquisition from its starts."""
    from botorch.optim import optimize_acqf

    return optimize_acqf(acquisition, unit_box(d), 1, RESTARTS, batch_initial_conditions=starts)[0][0].detach()


def reference(case: Case, count: int) -> dict[str, float]:
    """Seconds of one suggestion by the reference."""
    watch = Watch()
    with watch("fit"):
        model = reference_fit(case, count)
    function = acquisition(case.problem, model)
    with watch("screening"):
        starts = screened(function, case.problem.d)
    with watch("solving"):
        solved(function, case.problem.d, starts)
    return watch.seconds


# --- Ours -------------------------------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Processor seconds by name."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - began


def ours(settings: CUQB, case: Case, count: int) -> tuple[dict[str, float], float]:
    """Mean seconds of a suggestion over a cycle of the model schedule, by part; and of the first, cold one."""
    asks = len(case.U) - count
    run = settings.start(case.problem, Stream(0))
    watch = Watch()
    began = time.process_time()
    proposal = run.ask(count, case.data(count))
    cold = time.process_time() - began
    with timed(watch):
        for extra in range(1, asks + 1):
            proposal = run.ask(count + extra, case.data(count + extra, proposal.why.memory))
    parts = {name: seconds / asks for name, seconds in watch.seconds.items()}
    return {
        "fit": parts["fit"],
        "screening": parts.get("screening", 0.0),
        "solving": parts["all"] - parts["fit"] - parts.get("screening", 0.0),
    }, cold


@contextmanager
def timed(watch: Watch) -> Iterator[None]:
    """Measure the time of fits and screenings during proposals."""
    places: list[tuple[Any, str, str]] = [
        (Believer, "fit", "fit"),
        (Search, "_breed", "screening"),
        (CUQB.start(CUQB(), suite["booth"].problem, Stream(0)).__class__, "_propose", "all"),
    ]
    kept = [getattr(place, name) for place, name, _ in places]

    def watched(function: Callable[..., Any], word: str) -> Callable[..., Any]:
        def call(*args: Any, **words: Any) -> Any:
            with watch(word):
                return function(*args, **words)

        return call

    for (place, name, word), function in zip(places, kept, strict=True):
        setattr(place, name, watched(function, word))
    try:
        yield
    finally:
        for (place, name, _), function in zip(places, kept, strict=True):
            setattr(place, name, function)


# --- The same belief --------------------------------------------------------------------------------------------------


def values(case: Case, count: int) -> dict[str, float | None]:
    """Upper bound reached by both searches under the reference's models, over the spread; None: a bound is broken."""
    from pied import bridge

    problem, stream = case.problem, Stream(0).at("values")
    model = reference_fit(case, count)
    composite = Composite(problem, bridge.belief(model), stream, told=case.Y[:count])
    bounds = optimistic(composite, LEVEL)
    search = Search()
    data = case.data(count)
    known = data.U[:1]
    pool = search.screen(stream, problem.d, known)
    scales = spread(composite.values(pool, [0.5] * problem.k, screening=True))
    mine = search.solve(bounds, scales, pool, known, stream)
    function = acquisition(problem, model)
    theirs = solved(function, problem.d, screened(function, problem.d)).numpy()
    return {"reference": _value(bounds, scales, theirs), "default": _value(bounds, scales, mine.u)}


def _value(bounds: Functions, scales: ndarray, u: ndarray) -> float | None:
    f = bounds.values_and_slopes(u[None])[0][0] / scales
    return float(f[0]) if (f[1:] >= -1e-6).all() else None


# --- The report -------------------------------------------------------------------------------------------------------


def measure(name: str, count: int, repeats: int, reference_repeats: int, with_paper: bool) -> dict[str, Any]:
    """Measure one case with the three methods in turn."""
    case = Case.of(name, count + max(4, math.ceil(count / 8)))
    reference(case, count), ours(CUQB(strict=True), case, count)  # warm up
    runs: dict[str, list[Any]] = {"reference": [], "paper": [], "default": [], "cold": []}
    for turn in range(max(repeats, reference_repeats)):
        if turn < reference_repeats:
            runs["reference"].append(reference(case, count))
        if turn == 0 and with_paper:
            short = Case(case.name, case.problem, case.U[: count + 1], case.Y[: count + 1])
            runs["paper"].append(ours(CUQB.paper(), short, count)[0])
        if turn < repeats:
            parts, cold = ours(CUQB(strict=True), case, count)
            runs["default"].append(parts)
            runs["cold"].append(cold)

    def best(way: str) -> dict[str, float]:
        return min(runs[way], key=lambda parts: sum(parts.values())) if runs[way] else {}

    return {
        "problem": name,
        "N": count,
        "d": case.problem.d,
        "m": case.problem.m,
        "reference": best("reference"),
        "paper": best("paper"),
        "default": best("default"),
        "cold": min(runs["cold"]),
        "value": values(case, count),
    }


def ratio(record: dict[str, Any]) -> float:
    """How many times faster the default is."""
    return sum(record["reference"].values()) / sum(record["default"].values())


def page(records: list[dict[str, Any]]) -> str:
    """Write the page."""
    ratios = [ratio(record) for record in records]
    mean = math.exp(sum(math.log(each) for each in ratios) / len(ratios))
    origin = report.made()
    lines = [
        "# Seconds per suggestion",
        "",
        f"- version {origin['version']}, commit {origin['commit']}, code {origin['code']}",
        f"- command: `{origin['command']}`",
        f"- machine: {origin['machine']}, one thread; date: {origin['date']}",
        "",
        f"Default against reference: **{mean:.1f}** times faster in the geometric mean (target {TARGET:g}), "
        f"{min(ratios):.1f} in the worst case (target {LEAST:g}).",
        "",
        "Milliseconds: all (fit + screening + solving). Cold: the first ask on these data.",
        "",
        table(
            ["problem", "d", "m", "N", "reference", "`CUQB.paper()`", "default", "cold", "times faster"],
            [
                [*(r[word] for word in CASE), *(_parts(r[way]) for way in WAYS), _ms(r["cold"]), f"{ratio(r):.1f}"]
                for r in records
            ],
        ),
        "",
        "## The same belief for both",
        "",
        "Upper bound of the objective over its spread; 'broken': the point violates an upper bound of a constraint.",
        "",
        table(
            ["problem", "N", "reference", "default", "default ahead by"],
            [[r["problem"], r["N"], *_values(r["value"])] for r in records],
        ),
    ]
    return "\n".join(lines) + "\n"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.0f}"


def _parts(parts: dict[str, float]) -> str:
    if not parts:
        return "-"
    each = " + ".join(_ms(parts[name]) for name in ("fit", "screening", "solving"))
    return f"{_ms(sum(parts.values()))} ({each})"


def _values(value: dict[str, float | None]) -> list[str]:
    theirs, mine = value["reference"], value["default"]
    shown = ["broken" if each is None else f"{each:.6f}" for each in (theirs, mine)]
    return [*shown, f"{mine - theirs:.1e}" if mine is not None and theirs is not None else "-"]


def published(name: str, count: int, page: Path) -> float:
    """Return how many times faster a case was when the page was made."""
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and cells[0] == name and cells[3] == str(count):
            return float(cells[-1])
    raise SystemExit(f"{page.name} has no row for {name} at N = {count}")


def check(page: Path) -> int:
    """Measure a few small cases and compare their geometric mean with half of the published one."""
    now, then = 1.0, 1.0
    for name, count in CHECKED:
        case = Case.of(name, count + 4)
        ours(CUQB(strict=True), case, count)  # warm up
        theirs = sum(reference(case, count).values())
        mine = min(sum(ours(CUQB(strict=True), case, count)[0].values()) for _ in range(2))
        print(f"{name} N = {count}: {theirs / mine:.1f} times faster, published {published(name, count, page):.1f}")
        now, then = now * theirs / mine, then * published(name, count, page)
    return 0 if now >= then / 2 ** len(CHECKED) else 1


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=PROBLEMS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--reference-repeats", type=int, default=2)
    parser.add_argument("--no-paper", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail when half of the published lead is lost; seconds")
    parser.add_argument("--out", type=Path, default=report.RESULTS / "suggest.md")
    words = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if words.check:
        raise SystemExit(check(report.RESULTS / "suggest.md"))
    records = []
    for name in words.problems:
        for count in words.sizes:
            record = measure(name, count, words.repeats, words.reference_repeats, not words.no_paper)
            records.append(record)
            print(
                f"{name:14s} N = {count:3d}: {ratio(record):5.1f} times faster, {_parts(record['default'])} ms, "
                f"reference {_parts(record['reference'])} ms, values {_values(record['value'])}",
                flush=True,
            )
    words.out.write_text(page(records))
    print(words.out)


if __name__ == "__main__":
    main()
