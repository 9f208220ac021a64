"""Campaigns of a laboratory: settings of mixed kinds, noise, rounding, a few old rows; what is said and reached.

    python benchmarks/campaigns.py --loops pied optuna-gp --seeds 10 --jobs 16 --out campaigns.jsonl
    python benchmarks/campaigns.py --frozen ...        # the odd seeds: for counting alone
    python benchmarks/campaigns.py --list 3 7 8 ...    # any seeds
    python benchmarks/campaigns.py --impossible ...    # limits that no settings meet: how soon that is seen
    python benchmarks/campaigns.py --out campaigns.jsonl --report

A campaign (`laboratory`) is drawn by its seed. Odd seeds are frozen: nobody looks at them while a method is changed.
All loops are given the same old rows and the same noise; those of other libraries recommend the best measured settings
that meet all limits as measured. Runs that are in the file already are not repeated.
"""

import slices  # first: see there

# isort: split
import math
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import report
from laboratory import Campaign
from spaces import Told

from pied import Infeasible, SolverDone, Study
from pied.bounds.trust import Trust, foretold

STAGES = (0, 1, 2, 3, 5, 8, 10, 16, 20, 24, 40)
"""Proposals after which the study is asked what it says."""
FORESEEN = (5, 10, 16)
"""Proposals after which it is asked how many more it takes until half of the gap is left."""
BROKEN = 0.02  # of an output's range: a limit that is broken by less is met, within the noise
STATED, SURE = 0.95, 0.99  # a limit said to be met with this probability and more is a statement, or a sure one
FIRST = 10
"""Measurements that other libraries take at random, old rows included: the default of Optuna."""
LOOPS = ("pied", "optuna-gp", "optuna-tpe")


def run(item: slices.Item) -> dict[str, Any]:
    """Run one campaign, and write down what was said and what is true."""
    campaign = Campaign(item["seed"], item["impossible"])
    if item["impossible"]:
        return verdict(campaign, item)
    return own(campaign, item) if item["loop"] == "pied" else other(campaign, item)


def begun(campaign: Campaign, solver: str) -> Study:
    """A study with the old rows."""
    study = Study(campaign.problem, seed=campaign.seed, solver=solver)
    for x, y in rows(campaign):
        study.add(x, y)
    return study


def rows(campaign: Campaign) -> list[tuple[dict[str, Any], dict[str, float]]]:
    """The old rows that were measured."""
    every = [(x, campaign.measured(x, 1000 + number)) for number, x in enumerate(campaign.old)]
    return [(x, y) for x, y in every if y is not None]


def told(study: Study, campaign: Campaign, number: int) -> dict[str, Any] | None:
    """Let the study propose and measure once; None where it ends."""
    try:
        trial = study.ask()
    except (Infeasible, SolverDone):
        return None
    y = campaign.measured(trial.x, number)
    if y is None:
        study.fail(trial, "the instrument was down", not_the_settings=True)
    else:
        study.tell(trial, y, anyway=True)
    return {"aim": trial.why.aim, "excess": campaign.truth(trial.x)[1]}


def own(campaign: Campaign, item: slices.Item) -> dict[str, Any]:
    """Our run."""
    study, budget = begun(campaign, item["solver"]), item["budget"]
    said: list[dict[str, Any]] = []
    proposals: list[dict[str, Any]] = []
    forecasts: list[dict[str, Any]] = []
    for t in range(budget + 1):
        if len(study.data.U) >= 2:
            if t in STAGES:
                said += [{"t": t, "rule": rule, **statement(study, campaign, rule)} for rule in item["rules"]]
            if t >= FORESEEN[0]:
                foreseen(study, t, forecasts)
        made = told(study, campaign, t) if t < budget else None
        if made is None:
            break
        proposals.append(made)
    trust = Trust(study.problem, study.data, 0.95)
    misses = [
        [row, miss.tolist()] for (row, _), miss in zip(foretold(study.problem, study.data), trust.misses, strict=True)
    ]
    return {
        "old": len(campaign.old), "misses": misses, "said": said, "proposals": proposals, "forecasts": forecasts,
        "status": str(study.status),
    }  # fmt: skip


def foreseen(study: Study, t: int, forecasts: list[dict[str, Any]]) -> None:
    """Note which forecasts have come true, and make one where it is its turn."""
    open_ones = [each for each in forecasts if each["took"] is None]
    if t not in FORESEEN and not open_ones:
        return
    gap = study.result().gap
    if gap is None or math.isinf(gap):
        return
    for each in open_ones:
        each["took"] = t - each["t"] if gap <= each["wanted"] else None
    if t in FORESEEN and gap > 0:
        found = study.how_many(gap=0.5 * gap)
        forecasts.append({"t": t, "wanted": found.wanted, "fewest": found.fewest, "most": found.most, "took": None})


def statement(study: Study, campaign: Campaign, rule: str) -> dict[str, Any]:
    """What the study says now by a rule of recommendation, and what is true of it."""
    result = study.result(rule or None)
    if result.x is None:
        return {"recommends": False}
    value, excess, y = campaign.truth(result.x)
    low, high = result.bounds[result.objective]
    unit = campaign.unit_of_value
    probabilities = {name: result.probability.get(name, math.nan) for name in study.problem.constraints}
    kept = {f"limit {place}": y[f"y{j}"] <= limit for place, (j, limit) in enumerate(campaign.limits)}
    gap = result.gap
    return {
        "recommends": True,
        "told": result.trial is not None,
        "few": result.is_too_few,
        "inside": bool(low <= value <= high),
        "width": (high - low) / unit,
        "regret": (campaign.best - value) / unit,
        "excess": excess,
        "feasible": result.is_feasible,
        "limits": [[probabilities[name], bool(kept[name])] for name in probabilities],
        "gap": None if gap is None or math.isinf(gap) else gap / unit,
    }


def verdict(campaign: Campaign, item: slices.Item) -> dict[str, Any]:
    """Our run of an impossible campaign, until it is seen to be one or the time for that is over."""
    study, t = begun(campaign, item["solver"]), 0
    while t < campaign.declared_in_time and told(study, campaign, t) is not None:
        t += 1
    is_declared = "INFEASIBLE" in str(study.status).upper()
    return {"declared": t if is_declared else None, "within": campaign.declared_in_time, "old": len(campaign.old)}


def other(campaign: Campaign, item: slices.Item) -> dict[str, Any]:
    """The run of another library: told objective and limits, it recommends the best measured settings."""
    from contenders import optuna_loop

    problem = campaign.problem
    done = [evaluation(campaign, x, y) for x, y in rows(campaign)]
    said: list[dict[str, Any]] = []
    proposals: list[dict[str, Any]] = []
    asked = SimpleNamespace(whole=problem, noise=True)
    for t in range(item["budget"] + 1):
        if t in STAGES and done:
            said.append({"t": t, "rule": "", **chosen(campaign, done)})
        if t == item["budget"]:
            break
        words = {"sampler": item["loop"].partition("-")[2], "startup": FIRST}
        x = optuna_loop(asked, done, 1000 * campaign.seed + t, **words)
        proposals.append({"aim": item["loop"], "excess": campaign.truth(x)[1]})
        y = campaign.measured(x, t)
        done += [] if y is None else [evaluation(campaign, x, y)]
    return {"old": len(campaign.old), "said": said, "proposals": proposals}


def evaluation(campaign: Campaign, x: Mapping[str, Any], y: Mapping[str, float]) -> Told:
    """A measurement as the other libraries are told it: limits in ranges of their outputs."""
    shares, places = campaign.unit(x)
    Y = np.array([list(y.values())])
    value = float(campaign.objective(shares[None], np.array([places]), Y)[0])
    slack = [(limit - float(Y[0, j])) / float(campaign.ranges[j]) for j, limit in campaign.limits]
    return Told(dict(x), list(y.values()), [value, *slack])


def chosen(campaign: Campaign, done: Sequence[Told]) -> dict[str, Any]:
    """The best measured settings that meet all limits as measured, else those that break them least."""
    best = max(done, key=lambda each: (min(0.0, *each.f[1:]), each.f[0]))
    value, excess, _ = campaign.truth(best.x)
    return {
        "recommends": True, "told": True, "few": True, "regret": (campaign.best - value) / campaign.unit_of_value,
        "excess": excess, "feasible": min(best.f[1:]) >= 0, "limits": [], "gap": None,
    }  # fmt: skip


# --- The page ---------------------------------------------------------------------------------------------------------


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """One table by stage for each loop and rule, and one of the verdicts."""
    fine = [each for each in records if "error" not in each]
    usual = [each for each in fine if not each["item"]["impossible"]]
    parts = [slices.heading("Campaigns of a laboratory", list(records))]
    for loop in dict.fromkeys(each["item"]["loop"] for each in usual):
        mine = [each for each in usual if each["item"]["loop"] == loop]
        for rule in dict.fromkeys(each["rule"] for record in mine for each in record["said"]):
            parts += [f"## {loop}{f', rule {rule}' if rule else ''}: {len(mine)} campaigns", table(mine, rule)]
        late = [each for record in mine for each in record["proposals"][5:]]
        broken = sum(each["excess"] > BROKEN for each in late)
        parts.append(
            f"Proposals after the fifth that break a limit by more than its tolerance: {broken} of {len(late)}."
        )
        if loop == "pied":
            false = sum("INFEASIBLE" in each["status"].upper() for each in mine)
            parts.append(f"Called infeasible: {false} of {len(mine)} (0 wanted). {forecast(mine)}")
    parts += beside(usual) + verdicts([each for each in fine if each["item"]["impossible"]])
    return "\n\n".join([*parts, *slices.troubles(records, ["seed", "loop"])]) + "\n"


def lost(said: Mapping[str, Any]) -> float:
    """Regret, and ten times the excess over a limit."""
    return float(said["regret"] + 10 * max(0.0, said["excess"]))


def table(records: Sequence[Mapping[str, Any]], rule: str) -> str:
    """What was said by one rule, by stage."""
    lines = []
    for t in STAGES:
        every = [each for record in records for each in record["said"] if (each["t"], each["rule"]) == (t, rule)]
        said = [each for each in every if each["recommends"]]
        if not said:
            continue
        ranged = [each["inside"] for each in said if not each["few"]]
        stated, sure = ([kept for each in said for p, kept in each["limits"] if p >= least] for least in (STATED, SURE))
        gaps = [each["gap"] >= each["regret"] - 1e-9 for each in said if each["gap"] is not None]
        loss = [lost(each) for each in said]
        lines.append([
            str(t), str(len(said)), f"{sum(ranged)} of {len(ranged)}", f"{stated.count(False)} of {len(stated)}",
            f"{sure.count(False)} of {len(sure)}", f"{sum(gaps)} of {len(gaps)}",
            f"{np.median(loss):.3f}, {np.quantile(loss, 0.9):.3f}",
            f"{sum(each['regret'] <= 0.01 and each['excess'] <= BROKEN for each in said)}",
            f"{sum(each['excess'] > BROKEN for each in said)} of {len(said)}",
        ])  # fmt: skip
    head = [
        "proposals", "statements", "value within its range", "limits said to hold (0.95) that do not", "the same, 0.99",
        "gap covers", "regret: median, 9th of ten", "within 1 %", "breaks a limit",
    ]  # fmt: skip
    return report.table(head, lines)


def forecast(records: Iterable[Mapping[str, Any]]) -> str:
    """Which forecasts of how many more measurements held; some are open at the end of the run."""
    held = [is_held(each, record["item"]["budget"] - each["t"]) for record in records for each in record["forecasts"]]
    known = [each for each in held if each is not None]
    return (
        f"How many more until half of the gap is left: {sum(known)} of {len(known)} forecasts held, "
        f"{len(held) - len(known)} were open at the end."
    )


def is_held(said: Mapping[str, Any], left: int) -> bool | None:
    """Whether a forecast came true; None if the run ended before that could be told."""
    most = math.inf if said["most"] is None else said["most"]
    if said["took"] is not None:
        return bool(said["fewest"] <= said["took"] <= most)
    return False if most <= left else None


def beside(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each loop beside ours, campaign by campaign, after 8, 16 and 24 proposals."""
    loss = {
        (record["item"]["loop"], record["item"]["seed"], each["t"]): lost(each)
        for record in records
        for each in record["said"]
        if each["recommends"] and each["rule"] == record["said"][0]["rule"]
    }
    lines = []
    for loop in dict.fromkeys(name for name, _, _ in loss if name != "pied"):
        for t in (8, 16, 24):
            seeds = [seed for name, seed, at in loss if (name, at) == (loop, t) and ("pied", seed, t) in loss]
            ours, theirs = (np.array([loss[name, seed, t] for seed in seeds]) for name in ("pied", loop))
            if seeds:
                lines.append([
                    loop, str(t), str(len(seeds)), f"{np.median(ours):.3f}", f"{np.median(theirs):.3f}",
                    f"{(ours < theirs - 1e-3).sum()}, {(ours > theirs + 1e-3).sum()}",
                ])  # fmt: skip
    head = ["beside", "proposals", "campaigns", "our median loss", "its median loss", "ours better, worse"]
    return (
        ["## Beside others: regret, and ten times the excess over a limit", report.table(head, lines)] if lines else []
    )


def verdicts(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """How soon impossible campaigns were seen to be so."""
    if not records:
        return []
    lines = [
        [str(r["item"]["seed"]), str(r["old"]), str(r["within"]), str(r["declared"] or "-")]
        for r in sorted(records, key=lambda each: int(each["item"]["seed"]))
    ]
    good = sum(each["declared"] is not None for each in records)
    return [
        f"## Impossible campaigns: {good} of {len(records)} seen in time",
        report.table(["seed", "old rows", "in time: evaluations", "seen after"], lines),
    ]


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="campaigns.jsonl", seeds=10)
    parser.add_argument("--frozen", action="store_true", help="odd seeds instead of even ones")
    parser.add_argument("--list", type=int, nargs="+", metavar="SEED", help="these seeds")
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=["pied"])
    parser.add_argument("--impossible", action="store_true", help="with limits that no settings meet")
    parser.add_argument("--budget", type=int, default=24)
    parser.add_argument("--solver", default="cuqb", help="of our loop")
    parser.add_argument("--rules", nargs="+", default=[""], help="rules of recommendation that are compared")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "campaigns.md")
    seeds = given.list or [2 * place + given.frozen for place in range(given.seeds)]
    usual = {"problem": "campaign", "impossible": given.impossible, "budget": given.budget}
    own_words = {"solver": given.solver, "rules": given.rules}
    loops = ["pied"] if given.impossible else given.loops
    items = [
        {**usual, "seed": seed, "loop": loop, **(own_words if loop == "pied" else {})}
        for seed in seeds
        for loop in loops
    ]
    return slices.work_on(items, run, given)


if __name__ == "__main__":
    main()
