"""How often the true price of a limit lies within its stated bounds, on the suite and on random problems.

    python benchmarks/sensitivities.py --seeds 2 --jobs 2 --limit 450 --out sensitivities.jsonl    # again and again
    python benchmarks/sensitivities.py --out sensitivities.jsonl --report                          # the page

A study runs for a budget, then states what a unit of each limit is worth (`Study.sensitivities`) and the best value at
limits a little looser and tighter (`Study.what_if`). The truth is solved again with the moved limits, from the known
optimum: differences of its value towards looser limits, of second order, are the true prices. Counted are the limits
that bind in the truth or may bind by the belief, and only studies that have found the true optimum to 1 %: elsewhere
the price of another point is stated.
Needs numpy and scipy alone.
"""

import slices  # first: see there

# isort: split
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import report
from numpy import ndarray
from scipy.optimize import minimize

import pied
from pied import suite

DRAWS = 10
BUDGET = 40

STEP = 1e-3
"""In benchmark scales of a constraint: step of the differences."""
MOVED = 0.05
"""In benchmark scales: by how much limits move in what-if questions."""
NEAR = 0.01
"""Relative to the objective's range: a study that is further from the optimum is not counted."""
ROOM = 0.01
"""Relative: errors of the differences of the truth."""


def names(draws: int) -> list[str]:
    """Return the problems with limits: those of the suite, and random ones."""
    known = [name for name in suite if suite[name].problem.n]
    drawn = (seed for seed in itertools.count() if suite.random(seed).problem.n)
    return known + [f"random {seed}" for seed in itertools.islice(drawn, draws)]


def benchmark(name: str) -> Any:
    """Return a problem by its name."""
    kind, _, seed = name.partition(" ")
    return suite.random(int(seed)) if kind == "random" and seed else suite[name]


def true_best(truth: Any, low: ndarray, high: ndarray, start: ndarray, shift: ndarray, scales: ndarray) -> float:
    """Return the true optimum near a point with moved limits; NaN if it is not found."""
    width = high - low

    def f(z: ndarray) -> ndarray:
        return (truth(low + width * np.clip(z, 0, 1)[None])[0] + shift) / scales

    starts = [np.clip((start - low) / width, 0, 1)]
    starts.append(np.clip(starts[0] + 0.01 * (0.5 - starts[0]), 0, 1))
    best = math.nan
    for z in starts:
        found = minimize(
            lambda z: -f(z)[0], z, bounds=[(0, 1)] * len(z), method="SLSQP",
            constraints={"type": "ineq", "fun": lambda z: f(z)[1:]}, options={"ftol": 1e-13, "maxiter": 300},
        )  # fmt: skip
        there = f(found.x)
        if (there[1:] >= -1e-7).all() and not there[0] * scales[0] <= best:
            best = float(there[0] * scales[0])
    return best


def measured(item: slices.Item) -> dict[str, Any]:
    """Run one study and compare its prices with the truth."""
    name, seed, budget = item["problem"], item["seed"], item["budget"]
    made = benchmark(name)
    problem = made.problem
    if problem.grid is not None or problem.listing is not None or made.known is None:
        return {"skipped": "no continuous optimum"}
    study = pied.Study(problem, seed=seed)
    study.run(budget, progress=False)
    low, high = problem.bounds.T
    start = np.array(
        [float(each) for each in made.known.x.values()] if hasattr(made.known.x, "values") else made.known.x
    )
    U = np.random.default_rng(0).random((512, len(low)))
    values = made.truth(low + (high - low) * U)
    scales = np.nanmedian(np.abs(values), 0)
    none = np.zeros(problem.k)
    best = true_best(made.truth, low, high, start, none, scales)
    result = study.result()
    spread = abs(best - float(np.nanmedian(values[:, 0])))
    far = abs(best - problem.user_value(result.value)) / spread if result.x is not None else math.inf
    found = study.result().sensitivities
    if found is None or not far <= NEAR:
        return {"skipped": f"optimum not found to 1 % ({100 * far:.2g} %)"}
    rows, answers = [], []
    for limit, each in found.limits.items():
        shift = none.copy()
        place = 1 + problem.constraints.index(limit)
        step = STEP * scales[place]
        shift[place] = step
        once, twice = (true_best(made.truth, low, high, start, times * shift, scales) for times in (1, 2))
        rate = (4 * once - twice - 3 * best) / (2 * step)
        if not math.isfinite(rate) or (abs(rate) * scales[place] < 1e-6 * spread and not each.binds):
            continue
        room = ROOM * abs(rate) + 1e-4 * spread / scales[place]
        rows.append({"limit": limit, "true": rate, "rate": each.rate, "bounds": each.bounds,
                     "inside": bool(each.bounds[0] - room <= rate <= each.bounds[1] + room)})  # fmt: skip
        stated = study.outlook.limits[limit]
        for side in (1.0, -1.0):
            moved = side * MOVED * scales[place]
            value = true_best(made.truth, low, high, start, shift * (moved / step), scales)
            answer = study.what_if({limit: stated.value + (moved if stated.is_upper else -moved)})
            if math.isfinite(value) and answer.x is not None:
                ends = sorted(problem.user_value(end) for end in answer.bounds)
                slack = 1e-3 * spread
                answers.append(bool(ends[0] - slack <= value <= ends[1] + slack))
    return {"rows": rows, "answers": answers}


def share(counts: Sequence[bool]) -> str:
    """Return how many of some hold."""
    return f"{sum(counts)} of {len(counts)} ({100 * sum(counts) / len(counts):.0f} %)" if counts else "-"


def summary(records: Iterable[Any]) -> str:
    """Return the shares of prices and answers within their bounds, on the suite, on random problems, and on both."""
    rows = []
    counted = [each for each in records if "rows" in each]
    for title, is_in in (("suite", (False,)), ("random problems", (True,)), ("both", (False, True))):
        own = [each for each in counted if each["item"]["problem"].startswith("random ") in is_in]
        prices = [row["inside"] for each in own for row in each["rows"]]
        answers = [inside for each in own for inside in each["answers"]]
        rows.append([title, str(len(own)), share(prices), share(answers)])
    heads = ["problems", "studies", "prices within their bounds", "best values within the bounds of what-if"]
    return report.table(heads, rows)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    rows = []
    for each in sorted(records, key=lambda r: (r["item"]["problem"].startswith("random "), report.key(r["item"]))):
        item = each["item"]
        for row in each.get("rows", []):
            low, high = row["bounds"]
            cells = [f"{row['true']:.4g}", f"{row['rate']:.4g}", f"{low:.4g} to {high:.4g}"]
            mark = "yes" if row["inside"] else "**no**"
            rows.append([item["problem"], str(item["seed"]), f"`{row['limit']}`", *cells, mark])
    left = [each for each in records if "skipped" in each]
    why = sorted(f"{each['item']['problem']} {each['item']['seed']}: {each['skipped']}" for each in left)
    blocks = [
        slices.heading("Prices of limits against the truth", records),
        "Each study ran for its budget, then stated what a unit of each limit is worth, with bounds, and the best "
        "value at limits moved by 5 % of their benchmark scale. The truth: differences of the true optimum, "
        f"solved again with looser limits; {100 * ROOM:g} % of a price is allowed for their errors. Counted are limits "
        "that bind in the truth or may bind by the belief, in studies that had found the optimum to 1 %.",
        summary(records),
        "## Prices",
        report.table(["problem", "seed", "limit", "true price", "stated", "bounds", "within"], rows),
    ]
    if why:
        blocks += [f"## Not counted: {len(left)} of {len(records)} studies", "\n".join(f"- {each}" for each in why)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "seed"))]) + "\n"


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many studies are left, or the page."""
    parser = slices.parser(__doc__, out="sensitivities.jsonl", seeds=2)
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"evaluations of a study; default {BUDGET}")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"random problems; default {DRAWS}")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="names of problems")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "sensitivities.md")
    chosen = given.only or names(given.draws)
    items = slices.ordered(
        {"problem": name, "seed": seed, "budget": given.budget} for name in chosen for seed in range(given.seeds)
    )
    return slices.work_on(items, measured, given)


if __name__ == "__main__":
    main()
