"""Careful studies: how many trials break a limit, and what that costs, beside searches that may break them.

    python benchmarks/careful.py --limit 500 --out careful.jsonl.gz       # a part; repeat to continue
    python benchmarks/careful.py --out careful.jsonl.gz --report          # the page

On the suite, on rough problems, and in campaigns of a laboratory (`campaigns`, even seeds). Each run begins with the
same settings that meet all limits, drawn from those of the box. Beside `careful=0.95` are the same on models of
objective and limits themselves, the rule of SafeOpt on these, a search that only verifies, and the usual one.
"""

import slices  # must be first, see slices.py

# isort: split
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import report
import runner
from campaigns import Campaign
from numpy import ndarray
from safeopt import NoneSafe, safeopt
from suite_sweep import names_of

from pied import CUQB, Problem, Study
from pied.errors import EvaluationError, PiedError
from pied.records import spread
from pied.rng import Stream
from pied.suite.benchmark import NoisyBlackBox

SEARCHES = {
    "careful": CUQB(careful=0.95),
    "careful, g folded": CUQB(careful=0.95),
    "SafeOpt, g folded": None,
    "verify": CUQB(verify_every=1),
    "usual": CUQB(),
}
"""By name: the settings; None: its own rule."""
NOISES = (0.0, 0.02)
CAMPAIGNS = 8
"""Campaigns, by default."""
BUDGET = 30
"""Trials of a run, beside those it begins with."""
WITHIN = 1e-6
"""Of a limit's scale: a limit that is missed by less is met."""
MARGIN, CAMPAIGN_MARGIN = 0.02, 0.1
"""Of the same scale: by how much the first settings meet each limit; in campaigns that is far beyond their noise."""
DRAWN = 2**16
"""Settings of the box among which the first ones are sought."""


class Case(Protocol):
    """A problem with its truth."""

    problem: Problem
    first: list[Any]
    """Settings that meet all limits."""

    def measured(self, x: Any, number: int) -> Any:
        """Return the outputs; the noise depends on the number of the trial alone; None: the evaluation failed."""

    def truth(self, x: Any) -> tuple[float, float]:
        """Return the normalized regret, and by how much the worst limit is missed, as a share of its scale."""


class SuiteCase:
    """A problem of the suite; noise is a share of the spread of each output over the box."""

    def __init__(self, name: str, noise: float, seed: int, folded: bool) -> None:
        self.exact = exact = runner.benchmark_of(name)
        whole, structure = exact.whole, "black" if folded else "full"
        Y = exact.outputs(whole.from_unit(Stream(0).at("noise").sobol(1024, whole.d)))
        std = dict(zip(whole.outputs, (noise * spread(Y)).tolist(), strict=True)) if noise else 0.0
        self.problem = exact.told(structure, std, seed=seed).problem
        U = Stream(seed).at("safe").sobol(DRAWN, whole.d)
        f = exact.truth(whole.from_unit(U))
        safe = U[(f[:, 1:] >= MARGIN * exact.scales[1:]).all(1)][:2]
        self.first = [whole.named_x(row) for row in whole.from_unit(safe)]

    def measured(self, x: Any, number: int) -> Any:
        """Return the outputs."""
        if isinstance(self.problem.blackbox, NoisyBlackBox):
            self.problem.blackbox.calls = number
        return self.problem.named_y(self.problem.evaluate(x))

    def truth(self, x: Any) -> tuple[float, float]:
        """Return regret and what is missed."""
        X = self.exact.whole.point(dict(x))[None]
        missed = -(self.exact.truth(X)[0, 1:] / self.exact.scales[1:])
        return max(float(self.exact.normalized_regret(X)[0]), 0.0), float(missed.max(initial=-np.inf))


class CampaignCase:
    """A campaign of a laboratory, with its own noise."""

    def __init__(self, name: str, folded: bool) -> None:
        self.campaign = campaign = Campaign(int(name.rpartition(":")[2]))
        self.stated = campaign.problem
        self.problem = self.stated.folded() if folded else self.stated
        T, C, Y = campaign._pool
        rows = np.flatnonzero(campaign.excess(Y) <= -CAMPAIGN_MARGIN)[:4]
        self.first = [campaign.named(T[row], C[row].tolist()) for row in rows]

    def measured(self, x: Any, number: int) -> Any:
        """Return the outputs, or objective and limits; None where the evaluation failed by chance."""
        y = self.campaign.measured(x, number)
        if y is None or self.problem is self.stated:
            return y
        Y = np.array([[[y[name] for name in self.stated.outputs]]])
        f = [np.ravel(each)[0] for each in self.stated.g(self.stated.point(x)[None], Y)]
        return {name: float(f[self.stated.functions.index(name)]) for name in self.problem.outputs}

    def truth(self, x: Any) -> tuple[float, float]:
        """Return regret and what is missed."""
        value, excess, _ = self.campaign.truth(x)
        return max((self.campaign.best - value) / self.campaign.unit_of_value, 0.0), excess


def case_of(item: slices.Item) -> Case:
    """Return the problem of a run."""
    folded = "folded" in item["search"]
    if item["problem"].startswith("campaign:"):
        return CampaignCase(item["problem"], folded)
    return SuiteCase(item["problem"], item["noise"], item["seed"], folded)


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return for each trial by how much it breaks a limit, and the regret so far."""
    case, settings, seed = case_of(item), SEARCHES[item["search"]], item["seed"]
    missed, regrets, ended = [], [], ""
    with Study(case.problem, solver=settings or CUQB(), seed=seed, patience=None, initial=2) as study:
        for number, x in enumerate(case.first):
            if (y := case.measured(x, 1000 + number)) is not None:
                study.add(x, y)
        while len(missed) < item["budget"]:
            try:
                x = next_of(study, case, settings is None, len(missed))
            except (PiedError, EvaluationError, NoneSafe) as error:
                ended = str(error) or "no setting is safe"
                break
            regret, miss = case.truth(x)
            missed.append(miss)
            value = np.inf if miss > WITHIN else regret
            regrets.append(min([value, *regrets[-1:]]))
    return {"missed": missed, "regret": [each if np.isfinite(each) else None for each in regrets], "ended": ended}


def next_of(study: Study, case: Case, by_rule: bool, place: int) -> Mapping[str, Any]:
    """Ask for a trial, or take the point of SafeOpt's rule, and tell what is measured there; return its settings."""
    if not by_rule:
        trial = study.ask()
        y = case.measured(trial.x, trial.number)
        if y is None:
            study.fail(trial, "the instrument was down", not_the_settings=True)
        else:
            study.tell(trial, y, anyway=True)
        return trial.x
    problem = case.problem
    u: ndarray = safeopt(problem, study.data, Stream(0).at("safeopt", place))
    x = problem.named_x(problem.from_unit(u[None])[0])
    if (y := case.measured(x, 1 + place)) is not None:
        study.add(x, y)
    return x


# --- The page ---------------------------------------------------------------------------------------------------------


def items_of(problems: Sequence[str], seeds: range, noises: Sequence[float], budget: int) -> list[slices.Item]:
    """Return every run, those of one problem and seed next to each other; a campaign has its own noise and seed."""
    return slices.ordered(
        {"problem": problem, "noise": sigma, "search": search, "seed": seed, "budget": budget}
        for problem in problems
        for sigma in (noises if not problem.startswith("campaign:") else ["its own"])
        for seed in (seeds if not problem.startswith("campaign:") else seeds[:1])
        for search in SEARCHES
    )


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    fine = [record for record in records if not record.get("error")]
    blocks = [
        slices.heading("Careful studies", records),
        f"A trial breaks a limit if its true value misses it by more than {WITHIN:g} of its benchmark scale "
        "(campaigns: of the range of its output). Regret: of the best trial that breaks none, normalized; median over "
        "runs after 10, 20 and 30 trials.",
    ]
    groups: dict[str, list[Any]] = {}
    for record in fine:
        groups.setdefault(group_of(record["item"]), []).append(record)
    for name in sorted(groups):
        rows = []
        by = {"all": groups[name]}
        for record in groups[name]:
            if not record["item"]["problem"].startswith("campaign:"):
                by.setdefault(record["item"]["problem"], []).append(record)
        for problem, mine in by.items():
            for search in SEARCHES:
                if own := [record for record in mine if record["item"]["search"] == search]:
                    rows.append([problem, search, len(own), *row(own)])
        blocks += [f"## {name}", report.table(COLUMNS, rows)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "noise", "search", "seed"))]) + "\n"


def group_of(item: slices.Item) -> str:
    """Return the table of a run."""
    if item["problem"].startswith("campaign:"):
        return "Campaigns of a laboratory"
    kind = "Rough problems" if item["problem"] in names_of(["rough"]) else "The suite"
    return f"{kind}, {'exact' if not item['noise'] else format(item['noise'], '.0%') + ' noise'}"


COLUMNS = ["problem", "search", "runs", "trials that break a limit", "share", "regret: 10", "20", "30", "ended early"]


def row(records: Sequence[Any]) -> list[str]:
    """Return the cells of some runs."""
    missed = [each > WITHIN for record in records for each in record["missed"]]
    regrets = [report.quantile([regret_at(each, place) for each in records], 0.5) for place in (10, 20, 30)]
    return [
        f"{sum(missed)} of {len(missed)}", f"{sum(missed) / max(len(missed), 1):.3f}",
        *("-" if not np.isfinite(each) else f"{each:.1e}" for each in regrets),
        f"{sum(bool(r['ended']) for r in records)}",
    ]  # fmt: skip


def regret_at(record: Any, place: int) -> float:
    """Return the regret after so many trials; that of the last one if a run ended before."""
    known = record["regret"][:place]
    return float("inf") if not known or known[-1] is None else float(known[-1])


def problems_of(words: Iterable[str], campaigns: int) -> list[str]:
    """Return those with limits that some outputs decide, and campaigns of even seeds."""
    found = [
        name
        for name in names_of(words)
        if any(each.kind != "white" for each in runner.benchmark_of(name).whole.structure[1:])
    ]
    return [*found, *(f"campaign:{2 * place}" for place in range(campaigns))]


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="careful.jsonl.gz", seeds=2)
    parser.add_argument(
        "--problems", nargs="*", metavar="NAME", default=["paper", "rough"], help="names or sets of the suite"
    )
    parser.add_argument("--campaigns", type=int, default=CAMPAIGNS, help=f"how many; default {CAMPAIGNS}")
    parser.add_argument("--noise", nargs="+", type=float, choices=NOISES, default=list(NOISES), help="default all")
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"trials; default {BUDGET}")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default 0")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "careful.md")
    problems = problems_of(given.problems, given.campaigns)
    seeds = range(given.first, given.first + given.seeds)
    return slices.work_on(items_of(problems, seeds, given.noise, given.budget), run, given)


if __name__ == "__main__":
    main()
