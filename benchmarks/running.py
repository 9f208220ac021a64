"""Plants that are running: a reactor whose feed and price change from trial to trial, and one whose catalyst ages.

    python benchmarks/running.py --limit 500 --out running.jsonl.gz       # a part; repeat to continue
    python benchmarks/running.py --out running.jsonl.gz --report          # the page

The reactor of Williams and Otto. A run tells 40 trials, each at the values that the hour brings; the decision is the
recommendation at the values of the next hour. Beside it is the same search on models of profit and limits themselves.
"""

import slices  # must be first, see slices.py

# isort: split
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import report
from scipy.optimize import minimize

from pied import Observed, Problem, Study
from pied.errors import PiedError
from pied.rng import Stream
from pied.suite.applied import williams_otto

OUTPUTS = ["X_A", "X_G", "X_P", "X_E"]
PLANTS = {
    "feed and price change": {"F_A": Observed(1.5, 2.2), "price": Observed(900.0, 1200.0)},
    "the catalyst ages": {"day": Observed(0.0, 60.0)},
}
"""By name: what is observed."""
KNOWN = ("g known", "g folded")
STAGES = (15, 20, 30, 40)
"""Trials after which a decision is taken."""
AGEING = 80.0
"""Days in which the activity falls to 1/e."""
LIMITS = {"residual A": "X_A <= 0.12", "byproduct G": "X_G <= 0.08"}
WITHIN = 1e-3
"""Of the largest profit: a decision that loses less is as good as the best."""
BROKEN = 1e-5
"""A mass fraction by which a limit may be missed."""
POLICY = 10
"""Points of the policy that is compared with the truth at the end."""


def stated(plant: str, known: str) -> Problem:
    """Return the statement."""
    feed, price = ("F_A", "price") if plant == "feed and price change" else ("1.8275", "1043.38")
    variables = {"F_B": (4.0, 7.0), "T_r": (70.0, 100.0), **PLANTS[plant]}
    inputs = {name: [each for each in variables if each != "price"] for name in OUTPUTS}
    problem = Problem(
        variables, OUTPUTS, maximize=f"({price}*X_P + 20.92*X_E)*({feed} + F_B) - 79.23*{feed} - 118.34*F_B",
        subject_to=LIMITS, inputs=inputs, noise=0, blackbox=reactor,
    )  # fmt: skip
    return problem if known == "g known" else problem.folded()


def reactor(x: Mapping[str, Any]) -> dict[str, float]:
    """Return what is measured."""
    activity = float(np.exp(-x["day"] / AGEING)) if "day" in x else 1.0
    found = williams_otto(x["F_B"], x["T_r"], F_A=x.get("F_A", 1.8275), activity=activity)
    return {name: found[name] for name in OUTPUTS}


def hour(plant: str, seed: int, number: int) -> dict[str, float]:
    """Return what an hour brings."""
    if plant == "the catalyst ages":
        return {"day": float(number)}
    first, second = Stream(seed).at("hour", number).uniform(2).tolist()
    return {"F_A": round(1.5 + 0.7 * first, 3), "price": round(900.0 + 300.0 * second)}


def profit(plant: str, settings: Sequence[float], now: Mapping[str, float]) -> tuple[float, float]:
    """Return the true profit, and by how much the worse limit is missed."""
    x = {"F_B": float(settings[0]), "T_r": float(settings[1]), **now}
    y = reactor(x)
    feed, price = now.get("F_A", 1.8275), now.get("price", 1043.38)
    value = (price * y["X_P"] + 20.92 * y["X_E"]) * (feed + x["F_B"]) - 79.23 * feed - 118.34 * x["F_B"]
    return value, max(y["X_A"] - 0.12, y["X_G"] - 0.08)


def optimum(plant: str, now: Mapping[str, float]) -> float:
    """Return the largest true profit that meets the limits: the best of several local searches."""
    starts = [(F_B, T_r) for F_B in (4.3, 5.0, 6.0) for T_r in (78.0, 85.0, 93.0)]
    best = -np.inf
    for start in starts:
        found = minimize(
            lambda z: -profit(plant, z, now)[0], start, method="SLSQP", bounds=[(4, 7), (70, 100)],
            constraints={"type": "ineq", "fun": lambda z: -1e3 * profit(plant, z, now)[1]}, options={"ftol": 1e-10},
        )  # fmt: skip
        value, missed = profit(plant, found.x, now)
        best = max(best, value if missed <= BROKEN else -np.inf)
    return best


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return the loss of each decision, and which points of the policy hold."""
    plant, seed = item["problem"], item["seed"]
    problem = stated(plant, item["known"])
    losses: dict[str, float | None] = {}
    with Study(problem, seed=seed, patience=None) as study:
        for number in range(1, max(STAGES) + 1):
            trial = study.ask(given=hour(plant, seed, number))
            study.tell(trial, problem.named_y(problem.evaluate(trial.x)), anyway=True)
            if number in STAGES:
                losses[str(number)] = loss(plant, study, hour(plant, seed, number + 1))
        seconds = [each.why.seconds for each in study.trials[study.initial :]]
        holds = policy_holds(plant, study, seed)
    return {"loss": losses, "policy": holds, "seconds": float(np.median(seconds))}


def loss(plant: str, study: Study, now: Mapping[str, float]) -> float | None:
    """Return what a decision loses, as a share of the largest profit; None where it breaks a limit."""
    try:
        found = study.result(given=now).x
    except PiedError:
        return None
    if found is None:
        return None
    value, missed = profit(plant, (found["F_B"], found["T_r"]), now)
    best = optimum(plant, now)
    return None if missed > BROKEN else max(0.0, (best - value) / abs(best))


def policy_holds(plant: str, study: Study, seed: int) -> list[bool]:
    """Return at some points, unlike all trials, whether the true profit of the policy lies within its bounds."""
    holds = []
    for place in range(POLICY):
        now = hour(plant, seed, 1000 + place) if plant == "feed and price change" else {"day": 4.0 * place}
        (found,) = study.policy({name: [value] for name, value in now.items()}).results
        if found.x is not None:
            low, high = found.bounds[found.objective]
            value, _ = profit(plant, (found.x["F_B"], found.x["T_r"]), now)
            holds.append(bool(low - 1e-6 * abs(value) <= value <= high + 1e-6 * abs(value)))
    return holds


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    fine = [record for record in records if not record.get("error")]
    rows = []
    for plant in PLANTS:
        for known in KNOWN:
            own = [r for r in fine if (r["item"]["problem"], r["item"]["known"]) == (plant, known)]
            if own:
                rows.append([plant, known, len(own), *(cell(own, stage) for stage in STAGES), *ends(own)])
    columns = ["plant", "search", "runs", *(f"after {stage}" for stage in STAGES), "policy holds", "seconds"]
    words = (
        f"Decisions that lose less than {WITHIN:g} of the largest profit and meet the limits, and the median loss of "
        "the others that meet them; points of the policy whose true profit lies within the stated bounds."
    )
    blocks = [slices.heading("Plants that are running", records), words, report.table(columns, rows)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "known", "seed"))]) + "\n"


def cell(records: Sequence[Any], stage: int) -> str:
    """Return how many decisions were good at a stage."""
    losses = [record["loss"][str(stage)] for record in records]
    good = sum(each is not None and each <= WITHIN for each in losses)
    known = sorted(each for each in losses if each is not None)
    return f"{good} of {len(losses)}" + (f", median {known[len(known) // 2]:.1e}" if known else "")


def ends(records: Sequence[Any]) -> tuple[str, str]:
    """Return how often a policy held, and the seconds of a suggestion."""
    held = [each for record in records for each in record["policy"]]
    return f"{sum(held)} of {len(held)}", f"{report.quantile([record['seconds'] for record in records], 0.5):.2g}"


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    given = slices.parser(__doc__, out="running.jsonl.gz", seeds=10).parse_args(words)
    if given.report:
        return slices.write(given, page, "running.md")
    items = slices.ordered(
        {"problem": plant, "known": known, "seed": seed}
        for plant in PLANTS for seed in range(given.seeds) for known in KNOWN
    )  # fmt: skip
    return slices.work_on(items, run, given)


if __name__ == "__main__":
    main()
