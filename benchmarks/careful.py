"""Careful studies: how many trials break a limit, and what that costs, beside searches that may break them.

    python benchmarks/careful.py --limit 500 --out careful.jsonl.gz       # a part; repeat to continue
    python benchmarks/careful.py --out careful.jsonl.gz --report          # the page

Each run begins with the same two settings that meet all limits, drawn from those of the box. Beside `careful=0.95` are
the usual search, one that only verifies, and the rule of SafeOpt: the same, on models of the functions themselves.
"""

import slices  # must be first, see slices.py

# isort: split
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import report
import runner
from noise import noisy
from suite_sweep import names_of

from pied import CUQB, Study
from pied.errors import EvaluationError, PiedError
from pied.rng import Stream
from pied.suite.benchmark import NoisyBlackBox

SEARCHES = {
    "careful": (CUQB(careful=0.95), "full"),
    "careful, g folded": (CUQB(careful=0.95), "black"),
    "verify": (CUQB(verify_every=1), "full"),
    "usual": (CUQB(), "full"),
}
"""By name: the settings, and how much of g the search knows."""
PROBLEMS = ("williams-otto", "rosen-suzuki", "ex211", "ex212", "ex314", "bazaraa", "g09", "rough")
NOISES = (0.0, 0.02)
BUDGET = 30
"""Trials of a run, beside the two it begins with."""
WITHIN = 1e-6
"""Of a limit's benchmark scale: a limit that is missed by less is met."""
MARGIN = 0.02
"""Of the same scale: by how much the first settings meet each limit."""
DRAWN = 2**16
"""Settings of the box among which the first two are sought."""


def items_of(problems: Sequence[str], seeds: int, noises: Sequence[float], budget: int) -> list[slices.Item]:
    """Return every run, those of one problem and seed next to each other."""
    return slices.ordered(
        {"problem": problem, "noise": sigma, "search": search, "seed": seed, "budget": budget}
        for problem in problems for sigma in noises for seed in range(seeds) for search in SEARCHES
    )  # fmt: skip


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return for each trial whether it breaks a limit, and the regret so far."""
    exact = runner.benchmark_of(item["problem"])
    settings, structure = SEARCHES[item["search"]]
    sigma, seed = item["noise"], item["seed"]
    told = noisy(item["problem"], structure, sigma, seed) if sigma else exact.told(structure, 0)
    problem, first = told.problem, safe_points(exact, seed)
    broken, regrets, ended = [], [], ""
    with Study(problem, solver=replace(settings), seed=seed, patience=None, initial=2) as study:
        for number, u in enumerate(first):
            study.add(x := exact.whole.named_x(exact.whole.from_unit(u[None])[0]), measured(problem, x, number))
        while len(broken) < item["budget"]:
            try:
                trial = study.ask()
                study.tell(trial, measured(problem, trial.x, trial.number), anyway=True)
            except (PiedError, EvaluationError) as error:
                ended = str(error)
                break
            X = exact.whole.point(dict(trial.x))[None]
            broken.append(not bool((exact.truth(X)[0, 1:] >= -WITHIN * exact.scales[1:]).all()))
            value = np.inf if broken[-1] else max(float(exact.normalized_regret(X)[0]), 0.0)
            regrets.append(min([value, *regrets[-1:]]))
    return {"broken": broken, "regret": [each if np.isfinite(each) else None for each in regrets], "ended": ended}


def safe_points(benchmark: Any, seed: int) -> Any:
    """Return two settings that meet all limits, drawn from those that do."""
    U = Stream(seed).at("safe").sobol(DRAWN, benchmark.whole.d)
    f = benchmark.truth(benchmark.whole.from_unit(U))
    return U[(f[:, 1:] >= MARGIN * benchmark.scales[1:]).all(1)][:2]


def measured(problem: Any, x: Any, number: int) -> Any:
    """Return the outputs; the noise depends on the number of the trial alone."""
    if isinstance(problem.blackbox, NoisyBlackBox):
        problem.blackbox.calls = number
    return problem.named_y(problem.evaluate(x))


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    fine = [record for record in records if not record.get("error")]
    blocks = [
        slices.heading("Careful studies", records),
        f"A trial breaks a limit if it misses it by more than {WITHIN:g} of its benchmark scale. Regret: of the best "
        "trial that breaks none, normalized; median over runs after 10, 20 and 30 trials.",
    ]
    for sigma in sorted({record["item"]["noise"] for record in fine}):
        rows = []
        mine = [record for record in fine if record["item"]["noise"] == sigma]
        for problem in dict.fromkeys(record["item"]["problem"] for record in mine):
            for search in SEARCHES:
                own = [r for r in mine if (r["item"]["problem"], r["item"]["search"]) == (problem, search)]
                if own:
                    rows.append([problem, search, len(own), *row(own)])
        rows += [
            ["all", search, len(own), *row(own)]
            for search in SEARCHES
            if (own := [record for record in mine if record["item"]["search"] == search])
        ]
        blocks += [f"## {'Exact' if not sigma else f'{sigma:.0%} noise'}", report.table(COLUMNS, rows)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "noise", "search", "seed"))]) + "\n"


COLUMNS = ["problem", "search", "runs", "trials that break a limit", "share", "regret: 10", "20", "30", "ended early"]


def row(records: Sequence[Any]) -> list[str]:
    """Return the cells of some runs."""
    broken, count = (sum(fold(each["broken"]) for each in records) for fold in (sum, len))
    regrets = [report.quantile([regret_at(each, place) for each in records], 0.5) for place in (10, 20, 30)]
    return [
        f"{broken} of {count}", f"{broken / max(count, 1):.3f}",
        *("-" if not np.isfinite(each) else f"{each:.1e}" for each in regrets),
        f"{sum(bool(r['ended']) for r in records)}",
    ]  # fmt: skip


def regret_at(record: Any, place: int) -> float:
    """Return the regret after so many trials; that of the last one if a run ended before."""
    known = record["regret"][:place]
    return float("inf") if not known or known[-1] is None else float(known[-1])


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="careful.jsonl.gz", seeds=2)
    parser.add_argument(
        "--problems", nargs="+", metavar="NAME", default=list(PROBLEMS), help="names or sets of the suite"
    )
    parser.add_argument("--noise", nargs="+", type=float, choices=NOISES, default=list(NOISES), help="default all")
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"trials; default {BUDGET}")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "careful.md")
    return slices.work_on(items_of(names_of(given.problems), given.seeds, given.noise, given.budget), run, given)


if __name__ == "__main__":
    main()
