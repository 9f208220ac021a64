"""Campaigns of a laboratory: settings of mixed kinds, noise, rounding, a few old rows; what is said and reached.

    python benchmarks/campaigns.py --seeds 10 --out campaigns.jsonl --table benchmarks/results/campaigns.md
    python benchmarks/campaigns.py --frozen ...      # the other half: for counting alone

A campaign is drawn by its seed: 4 to 7 settings (choices of 2 to 12 labels, rounded numbers, integers, logarithmic
ranges), 2 to 4 outputs over different scales, 1 to 3 limits, noise of 1 to 3 % of an output's range, 0, 5, 8 or 15 old
rows that are clustered, of one label, or on a line. In every third some evaluations fail by chance. Odd seeds are
frozen: nobody looks at them while a method is changed.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import report
from numpy import ndarray

from pied import Choice, Infeasible, Integer, Problem, SolverDone, Study, Variable
from pied.bounds.trust import Trust, foretold

STAGES = (0, 1, 3, 5, 10, 16, 24, 40)
"""Proposals after which the study is asked what it says."""
SEARCHED = 40_000  # random settings from which the best ones are improved
POLISHED = 12
BROKEN = 0.02  # of an output's range: a limit that is broken by less is met, within the noise
STATED = 0.95  # a limit said to be met with this probability and more is a statement


@dataclass(frozen=True)
class Campaign:
    """One laboratory study with its truth."""

    seed: int

    @cached_property
    def _draw(self) -> dict[str, Any]:
        """Everything that is drawn."""
        rng = np.random.default_rng([self.seed, 51])
        numbers, labels = (
            int(rng.integers(3, 6)),
            [int(each) for each in rng.choice([2, 3, 4, 6, 9, 12], rng.integers(1, 3))],
        )
        kinds = [
            str(each) for each in rng.choice(["plain", "round", "log", "integer"], numbers, p=[0.3, 0.4, 0.15, 0.15])
        ]
        m, size = int(rng.integers(2, 5)), numbers
        outputs = []
        for j in range(m):
            shape = "share" if j == 0 else str(rng.choice(["share", "size", "plain"]))
            outputs.append({
                "shape": shape,
                "centre": rng.uniform(0.15, 0.85, size),
                "bend": rng.uniform(0.3, 3.0, size) * rng.choice([-1, -1, 1], size) * (rng.random(size) < 0.8),
                "slope": rng.normal(0.0, 1.2, size),
                "mixed": rng.normal(0.0, 0.8, (size, size)) * (rng.random((size, size)) < 0.3),
                "effect": [rng.normal(0.0, 0.9, count) for count in labels],
                "turn": [rng.normal(0.0, 0.5, (count, size)) * (rng.random(size) < 0.4) for count in labels],
                "level": rng.uniform(-1.0, 1.0), "unit": 10.0 ** rng.uniform(-2, 3),
            })  # fmt: skip
        return {
            "kinds": kinds, "labels": labels, "outputs": outputs, "n": min(int(rng.integers(1, 4)), m - 1) or 1,
            "noise": rng.uniform(0.01, 0.03, m), "cost": rng.uniform(0.0, 0.4, size),
            "prices": [rng.uniform(0.0, 0.3, count) for count in labels], "tight": rng.uniform(0.3, 0.6, 3),
            "old": int(rng.choice([0, 5, 8, 15])), "where": str(rng.choice(["cluster", "label", "line"])),
        }  # fmt: skip

    @cached_property
    def variables(self) -> dict[str, Any]:
        """As a user states them."""
        made: dict[str, Any] = {}
        for i, kind in enumerate(self._draw["kinds"]):
            made[f"x{i}"] = {
                "plain": Variable(0.0, 1.0), "round": Variable(20.0, 90.0, round=0),
                "log": Variable(0.1, 10.0, log=True), "integer": Integer(1, 8),
            }[kind]  # fmt: skip
        for i, count in enumerate(self._draw["labels"]):
            made[f"c{i}"] = Choice(*(f"{'abc'[i]}{label}" for label in range(count)))
        return made

    def unit(self, x: Mapping[str, Any]) -> tuple[ndarray, list[int]]:
        """Settings as shares of their ranges, and the places of their labels."""
        shares = []
        for i, kind in enumerate(self._draw["kinds"]):
            value = float(x[f"x{i}"])
            shares.append({
                "plain": value, "round": (value - 20.0) / 70.0,
                "log": math.log10(max(value, 0.1) * 10.0) / 2.0, "integer": (value - 1) / 7.0,
            }[kind])  # fmt: skip
        return np.array(shares), [int(str(x[f"c{i}"])[1:]) for i in range(len(self._draw["labels"]))]

    def _raw(self, T: ndarray, C: ndarray) -> ndarray:
        """Outputs at many settings, b m: shares and places of labels."""
        found = []
        for out in self._draw["outputs"]:
            s = out["level"] + T @ out["slope"] + ((T - out["centre"]) ** 2) @ out["bend"]
            s = s + np.einsum("bi,ij,bj->b", T, out["mixed"], T)
            for i in range(C.shape[1]):
                s = s + out["effect"][i][C[:, i]] + (T * out["turn"][i][C[:, i]]).sum(1)
            found.append(
                {"share": 100.0 / (1.0 + np.exp(-s)), "size": out["unit"] * np.exp(0.7 * s), "plain": out["unit"] * s}[
                    out["shape"]
                ]
            )
        return np.stack(found, 1)

    @cached_property
    def _pool(self) -> tuple[ndarray, ndarray, ndarray]:
        """Random settings that can be set, and their outputs."""
        rng = np.random.default_rng([self.seed, 52])
        T = rng.random((SEARCHED, len(self._draw["kinds"])))
        C = np.stack([rng.integers(0, count, SEARCHED) for count in self._draw["labels"]], 1)
        T = self._settable(T)
        return T, C, self._raw(T, C)

    def _settable(self, T: ndarray) -> ndarray:
        """The nearest shares that can be set."""
        steps = {"round": 70.0, "integer": 7.0}
        T = np.clip(T, 0.0, 1.0)
        for i, kind in enumerate(self._draw["kinds"]):
            if kind in steps:
                T[:, i] = np.round(T[:, i] * steps[kind]) / steps[kind]
        return T

    @cached_property
    def ranges(self) -> ndarray:
        """From the 2nd to the 98th per cent of each output."""
        low, high = np.quantile(self._pool[2], [0.02, 0.98], axis=0)
        return high - low

    @cached_property
    def limits(self) -> list[tuple[int, float]]:
        """Outputs that have a largest value, and which: met by a part of all settings."""
        Y, draw = self._pool[2], self._draw
        found = []
        for place in range(draw["n"]):
            j = 1 + place if len(draw["outputs"]) > 1 else 0
            found.append((j, float(f"{np.quantile(Y[:, j], draw['tight'][place]):.3g}")))
        return found

    def objective(self, T: ndarray, C: ndarray, Y: ndarray) -> ndarray:
        """The profit: what the first output brings, less what settings cost."""
        cost = T @ self._draw["cost"] + sum(prices[C[:, i]] for i, prices in enumerate(self._draw["prices"]))
        return Y[:, 0] - 20.0 * cost

    def excess(self, Y: ndarray) -> ndarray:
        """By how much limits are broken at most, in ranges of the outputs."""
        return np.max([(Y[:, j] - limit) / self.ranges[j] for j, limit in self.limits], axis=0)

    @cached_property
    def best(self) -> float:
        """The largest profit of settings that meet all limits, from many random ones and walks from the best."""
        T, C, Y = self._pool
        value = np.where(self.excess(Y) <= 0, self.objective(T, C, Y), -np.inf)
        rng, order = np.random.default_rng([self.seed, 53]), np.argsort(-value)[:POLISHED]
        T, C, top = T[order], C[order], value[order]
        for scale in np.repeat([0.2, 0.1, 0.05, 0.02, 0.01, 0.003], 40):
            near = self._settable(T + scale * rng.normal(size=T.shape) * (rng.random(T.shape) < 0.6))
            labels = np.where(rng.random(C.shape) < 0.1, rng.integers(0, self._draw["labels"], C.shape), C)
            Y = self._raw(near, labels)
            value = np.where(self.excess(Y) <= 0, self.objective(near, labels, Y), -np.inf)
            better = value > top
            T, C, top = np.where(better[:, None], near, T), np.where(better[:, None], labels, C), np.maximum(top, value)
        return float(top.max())

    @cached_property
    def unit_of_value(self) -> float:
        """What regrets are told in: from the median of all settings that meet the limits to the best."""
        T, C, Y = self._pool
        fine = self.excess(Y) <= 0
        return self.best - float(np.median(self.objective(T, C, Y)[fine]))

    @cached_property
    def problem(self) -> Problem:
        """As a user states it: formulas, and no noise, which has to be learned."""
        draw = self._draw
        cost = [
            f"{20 * price:.17g}*{self._share(i, kind)}"
            for i, (kind, price) in enumerate(zip(draw["kinds"], draw["cost"], strict=True))
        ]
        variables = dict(self.variables)
        for i, prices in enumerate(draw["prices"]):
            labels = variables[f"c{i}"].labels
            price = dict(zip(labels, (20.0 * prices).tolist(), strict=True))
            variables[f"c{i}"] = Choice(*labels, properties={"price": price})
        charged = [*cost, *(f"c{i}.price" for i in range(len(draw["labels"])))]
        return Problem(
            variables,
            [f"y{j}" for j in range(len(draw["outputs"]))],
            maximize=f"y0 - ({' + '.join(charged)})",
            subject_to={f"limit {place}": f"y{j} <= {limit:.17g}" for place, (j, limit) in enumerate(self.limits)},
        )

    @staticmethod
    def _share(i: int, kind: str) -> str:
        return {
            "plain": f"x{i}", "round": f"(x{i} - 20)/70", "log": f"(log10(x{i}) + 1)/2", "integer": f"(x{i} - 1)/7",
        }[kind]  # fmt: skip

    def truth(self, x: Mapping[str, Any]) -> tuple[float, float, dict[str, float]]:
        """Profit, largest excess over a limit, and outputs at some settings, without noise."""
        shares, places = self.unit(x)
        T, C = shares[None], np.array([places])
        Y = self._raw(T, C)
        return (
            float(self.objective(T, C, Y)[0]),
            float(self.excess(Y)[0]),
            {f"y{j}": float(y) for j, y in enumerate(Y[0])},
        )

    def measured(self, x: Mapping[str, Any], number: int) -> dict[str, float] | None:
        """A measurement, three digits; None where it failed by chance."""
        rng = np.random.default_rng([self.seed, 54, number])
        if self.seed % 3 == 0 and rng.random() < 0.08:
            return None
        _, _, y = self.truth(x)
        noise = self._draw["noise"] * self.ranges * rng.normal(size=len(y))
        return {
            name: float(f"{value + each:.3g}") for (name, value), each in zip(y.items(), noise.tolist(), strict=True)
        }

    @property
    def old(self) -> list[dict[str, Any]]:
        """Settings that were measured before anybody thought of a study."""
        rng, draw = np.random.default_rng([self.seed, 55]), self._draw
        d, count = len(draw["kinds"]), draw["old"]
        start, way = rng.uniform(0.2, 0.8, d), rng.normal(0.0, 0.3, d)
        rows = []
        for number in range(count):
            shares = {
                "cluster": start + rng.normal(0.0, 0.08, d),
                "label": rng.random(d),
                "line": start + way * (number / max(1, count - 1) - 0.5),
            }
            places = [0 if draw["where"] == "label" else int(rng.integers(0, each)) for each in draw["labels"]]
            rows.append(self.named(self._settable(shares[draw["where"]][None])[0], places))
        return rows

    def named(self, shares: ndarray, places: Sequence[int]) -> dict[str, Any]:
        """Settings by name."""
        made: dict[str, Any] = {}
        for i, (kind, share) in enumerate(zip(self._draw["kinds"], shares.tolist(), strict=True)):
            made[f"x{i}"] = {
                "plain": share, "round": round(20.0 + 70.0 * share),
                "log": 0.1 * 100.0**share, "integer": 1 + round(7 * share),
            }[kind]  # fmt: skip
        return made | {f"c{i}": f"{'abc'[i]}{place}" for i, place in enumerate(places)}


def run(seed: int, budget: int, solver: str, rules: Sequence[str]) -> dict[str, Any]:
    """Run one campaign, and write down what was said and what is true."""
    campaign, began = Campaign(seed), time.process_time()
    study = Study(campaign.problem, seed=seed, solver=solver)
    for number, x in enumerate(campaign.old):
        y = campaign.measured(x, 1000 + number)
        if y is not None:
            study.add(x, y)
    said, proposals = [], []
    for t in range(budget + 1):
        if t in STAGES and len(study.data.U) >= 2:
            said += [{"t": t, "rule": rule, **statement(study, campaign, rule)} for rule in rules]
        if t == budget:
            break
        try:
            trial = study.ask()
        except (Infeasible, SolverDone):
            break
        y = campaign.measured(trial.x, t)
        proposals.append({"aim": trial.why.aim, "excess": campaign.truth(trial.x)[1]})
        if y is None:
            study.fail(trial, "the instrument was down", not_the_settings=True)
        else:
            study.tell(trial, y, anyway=True)
    trust = Trust(study.problem, study.data, 0.95)
    misses = [
        [row, miss.tolist()] for (row, _), miss in zip(foretold(study.problem, study.data), trust.misses, strict=True)
    ]
    return {
        "task": {"seed": seed}, "seed": seed, "solver": solver, "old": len(campaign.old), "misses": misses,
        "said": said, "proposals": proposals,
        "status": str(study.status), "seconds": time.process_time() - began,
    }  # fmt: skip


def statement(study: Study, campaign: Campaign, rule: str) -> dict[str, Any]:
    """What the study says now by a rule of recommendation, and what is true of it."""
    result = study.result(rule or None)
    if result.x is None:
        return {"recommends": False}
    value, excess, _ = campaign.truth(result.x)
    low, high = result.bounds[result.objective]
    unit = campaign.unit_of_value
    probabilities = {name: result.probability.get(name, math.nan) for name in study.problem.constraints}
    y = campaign.truth(result.x)[2]
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


# --- The page ---------------------------------------------------------------------------------------------------------


def page(records: Iterable[Mapping[str, Any]]) -> str:
    """One table by stage for each rule."""
    records = list(records)
    rules = dict.fromkeys(each["rule"] for record in records for each in record["said"])
    late = [each for record in records for each in record["proposals"][5:]]
    broken = sum(each["excess"] > BROKEN for each in late)
    parts = [f"### Rule {rule}\n\n{table(records, rule)}" if rule else table(records, rule) for rule in rules]
    return "\n".join(
        [
            *parts,
            f"Proposals after the fifth that break a limit by more than its tolerance: {broken} of {len(late)}.",
            "",
        ]
    )


def table(records: Sequence[Mapping[str, Any]], rule: str) -> str:
    """What was said by one rule, by stage."""
    lines = [
        "| proposals | statements | value within its range | limits said to hold that do not | gap covers "
        "| regret: median, 9th of ten | breaks a limit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for t in STAGES:
        said = [
            each
            for record in records
            for each in record["said"]
            if (each["t"], each["rule"]) == (t, rule) and each["recommends"]
        ]
        if not said:
            continue
        ranged = [each["inside"] for each in said if not each.get("few")]
        stated = [kept for each in said for p, kept in each["limits"] if p >= STATED]
        gaps = [each["gap"] >= each["regret"] - 1e-9 for each in said if each["gap"] is not None]
        loss = [each["regret"] + 10 * max(0.0, each["excess"]) for each in said]
        lines.append(
            f"| {t} | {len(said)} | {sum(ranged)} of {len(ranged)} "
            f"| {stated.count(False)} of {len(stated)} | {sum(gaps)} of {len(gaps)} "
            f"| {np.median(loss):.3f}, {np.quantile(loss, 0.9):.3f} "
            f"| {sum(each['excess'] > BROKEN for each in said)} of {len(said)} |"
        )
    return "\n".join([*lines, ""])


def main(words: Sequence[str] | None = None) -> None:
    """Run campaigns, and print or write their page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--budget", type=int, default=24)
    parser.add_argument("--solver", default="cuqb")
    parser.add_argument("--rules", default="", help="rules of recommendation that are compared: lower,anywhere")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args(words)
    seeds = [2 * place + given.frozen for place in range(given.seeds)]
    records = []
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed(
            [pool.submit(run, seed, given.budget, given.solver, given.rules.split(",")) for seed in seeds]
        ):
            records.append(done.result())
            print(records[-1]["seed"], f"{records[-1]['seconds']:.0f} s", file=sys.stderr, flush=True)
            if given.out:
                given.out.write_text("".join(json.dumps(each) + "\n" for each in records))
    text = page(sorted(records, key=lambda each: int(each["seed"])))
    if given.table:
        given.table.write_text(f"{report.heading('Campaigns of a laboratory', records)}\n\n{text}")
    print(text)


if __name__ == "__main__":
    main()
