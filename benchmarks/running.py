"""Plants that are running: what is measured changes from trial to trial, and decisions are for the next hour.

    python benchmarks/running.py --limit 500 --out running.jsonl.gz       # a part; repeat to continue
    python benchmarks/running.py --out running.jsonl.gz --report          # the page

A run tells 40 trials, each at the values that the hour brings (`plants`); the decision is the recommendation at the
values of the next hour. Beside it are the same search on models of objective and limits themselves, a contextual GP-UCB
on them, and, where it is installed, Ax with fixed features, which decides by its model's mean.
"""

import slices  # must be first, see slices.py

# isort: split
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plants
import report
from safeopt import PLAIN

from pied import CUQB, Study
from pied.bounds import Believer
from pied.errors import PiedError
from pied.rng import Stream
from pied.solvers import moves

UCB = CUQB(
    level=0.977, moves=moves.PUBLISHED, verify_every=None, joint=False, compare=False, believer=Believer(PLAIN)
)  # fmt: skip
"""Krause and Ong's contextual GP-UCB, with upper bounds of the limits: two deviations."""
SEARCHES = {"g known": CUQB(), "g folded": CUQB(), "GP-UCB, g folded": UCB, "Ax, g folded": None}
"""By name: the settings; None: a library's."""
STAGES = (10, 12, 15, 20, 25, 30, 40)
"""Trials after which a decision is taken."""
WITHIN, NEAR = 1e-3, 1e-2
"""A decision that loses less is as good as the best; near it."""
POLICY = 10
"""Points of the policy that is compared with the truth at the end."""
CANDIDATES, CLOSER = 1024, (1.0, 0.1, 0.01)
"""Settings among which a model's mean is best, and how near to the best so far they are drawn, in turn."""


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return the loss of each decision, and which points of the policy hold."""
    return run_ax(item) if SEARCHES[item["search"]] is None else run_own(item)


def run_own(item: slices.Item) -> dict[str, Any]:
    """Perform a run of a study."""
    plant, seed = plants.plant(item["problem"]), item["seed"]
    problem = plant.problem if item["search"] == "g known" else plant.problem.folded()
    lost: dict[str, Any] = {}
    with Study(problem, solver=SEARCHES[item["search"]], seed=seed, patience=None) as study:
        for number in range(1, max(STAGES) + 1):
            trial = study.ask(given=plant.hour(seed, number))
            study.tell(trial, problem.named_y(problem.evaluate(trial.x)), anyway=True)
            if number in STAGES:
                lost[str(number)] = lost_by(plant, study, plant.hour(seed, number + 1))
        seconds = [each.why.seconds for each in study.trials[study.initial :]]
        aims = [each.why.aim for each in study.trials]
        holds = policy_holds(item["problem"], study, seed)
    return {"lost": lost, "policy": holds, "seconds": float(np.median(seconds)), "aims": aims}


def lost_by(plant: plants.Plant, study: Study, now: Mapping[str, float]) -> tuple[float, float] | None:
    """Return what the decision of a study loses; None where it breaks a limit or there is none."""
    try:
        found = study.result(given=now).x
    except PiedError:
        return None
    return None if found is None else plant.lost(found, dict(now))


def policy_holds(name: str, study: Study, seed: int) -> list[bool]:
    """Return at some points, unlike all trials, whether the true objective of the policy lies within its bounds."""
    holds, plant = [], plants.plant(name)
    for place in range(POLICY):
        now = {"day": 4.0 * place} if "ages" in name else plant.hour(seed, 1000 + place)
        (found,) = study.policy({name: [value] for name, value in now.items()}).results
        if found.x is not None:
            low, high = found.bounds[found.objective]
            value = plant.problem.user_value(plant.truth(found.x)[0])
            holds.append(bool(low - 1e-6 * abs(value) <= value <= high + 1e-6 * abs(value)))
    return holds


# --- Ax ---------------------------------------------------------------------------------------------------------------


def run_ax(item: slices.Item) -> dict[str, Any]:
    """Perform a run of Ax: what is observed are fixed features of each trial; objective and limits are its metrics."""
    import logging

    from ax.service.ax_client import AxClient, ObjectiveProperties

    logging.disable(logging.WARNING)
    plant, seed = plants.plant(item["problem"]), item["seed"]
    problem = plant.problem
    limits = [f"limit{place}" for place in range(problem.n)]
    client = AxClient(random_seed=seed, verbose_logging=False)
    client.create_experiment(
        parameters=[
            {"name": name, "type": "range", "bounds": [float(each.lo), float(each.hi)], "value_type": "float"}
            for name, each in problem.variables.items()
        ],
        objectives={"value": ObjectiveProperties(minimize=False)},
        outcome_constraints=[f"{name} >= 0.0" for name in limits],
    )
    lost: dict[str, Any] = {}
    seconds = []
    for number in range(1, max(STAGES) + 1):
        x, index, took = asked(client, plant.hour(seed, number))
        seconds.append(took)
        value, missed = plant.truth(x)
        told = {"value": value, **{name: -each for name, each in zip(limits, missed, strict=True)}}
        client.complete_trial(index, raw_data={name: (each, 0.0) for name, each in told.items()})
        if number in STAGES:
            lost[str(number)] = decided_by_ax(client, plant, plant.hour(seed, number + 1), limits)
    return {"lost": lost, "policy": [], "seconds": float(np.median(seconds)), "aims": []}


def asked(client: Any, now: Mapping[str, float]) -> tuple[dict[str, float], int, float]:
    """Return a proposal of Ax at present values, its number and its seconds."""
    import time

    from ax.core.observation import ObservationFeatures

    began = time.perf_counter()
    x, index = client.get_next_trial(fixed_features=ObservationFeatures(parameters=dict(now)))
    return {**x, **now}, index, time.perf_counter() - began


def decided_by_ax(
    client: Any, plant: plants.Plant, now: Mapping[str, float], limits: Sequence[str]
) -> tuple[float, float] | None:
    """Return what the settings lose whose predicted mean is best, of those that are predicted to meet the limits."""
    names, stream = plant.settings, Stream(0).at("candidates")
    low, high = (np.array([getattr(plant.variable(name), end) for name in names]) for end in ("lo", "hi"))
    best, span = (low + high) / 2, high - low
    for turn, reach in enumerate(CLOSER):
        U = stream.at(turn).sobol(CANDIDATES, len(names))
        X = np.concatenate([best[None], np.clip(best + reach * (U - 0.5) * span * (1 if turn else 2), low, high)])
        try:
            told = client.get_model_predictions_for_parameterizations(
                [{**dict(zip(names, row, strict=True)), **now} for row in X.tolist()]
            )
        except Exception:  # the design is under way: there is no model yet
            return None
        f = np.array([[each[name][0] for name in ("value", *limits)] for each in told])
        score = np.where((f[:, 1:] >= 0).all(1), f[:, 0], -1e9 + np.minimum(f[:, 1:], 0).sum(1))
        best = X[int(score.argmax())]
    return plant.lost(dict(zip(names, best.tolist(), strict=True)), dict(now))


# --- The page ---------------------------------------------------------------------------------------------------------

MEASURES = (
    "of the best objective (where profits change sign, this share says little)",
    "of the distance from the best objective to the median of the box at the same values (normalized regret)",
)
"""What is lost, as shares of what."""


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    fine = [record for record in records if not record.get("error")]
    blocks = [slices.heading("Plants that are running", records)]
    heads = ["plant", "search", "runs", *(f"after {stage}" for stage in STAGES), "to 1 %", "policy holds", "seconds"]
    for place, measure in enumerate(MEASURES):
        rows = [
            [plant, search, len(own), *(cell(own, stage, place) for stage in STAGES), *ends(own, place)]
            for plant in plants.PLANTS for search in SEARCHES
            if (own := [r for r in fine if (r["item"]["problem"], r["item"]["search"]) == (plant, search)])
        ]  # fmt: skip
        words = (
            f"Decisions that meet the limits and lose less than {WITHIN:g} {measure}, and the median loss of those "
            f"that meet them. To 1 %: trials from which on decisions lose less than {NEAR:g}, median over runs."
        )
        blocks += [words, report.table(heads, rows)]
    blocks.append("Points of the policy hold whose true objective lies within the stated bounds.")
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "search", "seed"))]) + "\n"


def cell(records: Sequence[Any], stage: int, place: int) -> str:
    """Return how many decisions were good at a stage."""
    lost = [record["lost"][str(stage)] for record in records]
    known = sorted(each[place] for each in lost if each is not None)
    good = sum(each <= WITHIN for each in known)
    return f"{good} of {len(lost)}" + (f", {known[len(known) // 2]:.1e}" if known else "")


def ends(records: Sequence[Any], place: int) -> tuple[str, str, str]:
    """Return the trials to 1 %, how often a policy held, and the seconds of a suggestion."""
    held = [each for record in records for each in record["policy"]]
    median = report.quantile([trials_to(record["lost"], place) for record in records], 0.5)
    return (
        f"{median:g}" if np.isfinite(median) else f"above {max(STAGES)}",
        f"{sum(held)} of {len(held)}" if held else "-",
        f"{report.quantile([record['seconds'] for record in records], 0.5):.2g}",
    )


def trials_to(lost: Mapping[str, Any], place: int) -> float:
    """Return the first stage from which on all decisions are near the best."""
    reached = np.inf
    for stage in reversed(STAGES):
        each = lost[str(stage)]
        if each is None or each[place] > NEAR:
            break
        reached = float(stage)
    return reached


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="running.jsonl.gz", seeds=10)
    parser.add_argument("--plants", nargs="+", choices=plants.PLANTS, default=list(plants.PLANTS), help="default all")
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES), help="default all")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default 0")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "running.md")
    has_ax = importlib.util.find_spec("ax") is not None
    items = slices.ordered(
        {"problem": plant, "search": search, "seed": given.first + seed}
        for plant in given.plants if plants.is_installed(plant)
        for seed in range(given.seeds)
        for search in given.searches if has_ax or SEARCHES[search] is not None
    )  # fmt: skip
    return slices.work_on(items, run, given)


if __name__ == "__main__":
    main()
