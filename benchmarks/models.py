"""What a model of the outputs saves: the reactor of Williams and Otto, and three functions with a coarse twin.

    OMP_NUM_THREADS=1 python benchmarks/models.py --seeds 10 --jobs 16 --out models.jsonl   # runs only what is missing
    python benchmarks/models.py --out models.jsonl --report                                 # the tables

The reactor has three reactions; its model has two (Forbes and Marlin 1996), as in the literature on real-time
optimization. A wrong model gives each output the values of another one. "modifier adaptation" is the field's method:
Gaussian processes of the differences of profit and limits between plant and model, whose sum with the model is
optimized within a trust region (del Rio Chanona et al. 2021). The coarse functions are those of the literature on
several fidelities; a misleading one is its negative, moved. Counted are evaluations until the best feasible point is
within a share of the optimum.
"""

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from pied import Problem, Study
from pied.gp import GP, Model
from pied.rng import Stream
from pied.suite.applied import williams_otto

SHARES = (1e-2, 1e-4, 1e-6)
"""Of the optimum: losses that are counted."""
BUDGET = 40
NEAR = 1e-7
"""By how much a limit may be missed."""
FEED, HOLDUP = 1.8275, 2105.2
OUTPUTS = ("X_A", "X_G", "X_P", "X_E")
STARTS = 24
"""Of local searches for an optimum, and of one step of modifier adaptation."""


def two_reactions(F_B: Any, T_r: Any) -> dict[str, Any]:
    """Return the mass fractions by the model A + 2 B -> P + E, A + B + P -> G at steady state.

    Given X_B, the balance of A has one positive solution; the balance of B decreases in X_B.
    """
    F, T = FEED + F_B, T_r + 273.15
    k1, k2 = HOLDUP * 2.189e8 * np.exp(-8077.6 / T), HOLDUP * 4.310e13 * np.exp(-12438.5 / T)

    def balance(B: Any) -> tuple[Any, Any, Any]:
        a, b = k1 * B**2, k2 * B
        second, first = b * (F + 2 * a), F * (F + a) - FEED * b
        A = (np.sqrt(first**2 + 4 * second * FEED * F) - first) / (2 * second)
        P = a * A / (F + b * A)
        return A, P, F_B - F * B - 2 * a * A - b * A * P

    low, high = 0.0 * F, F_B / F
    for _ in range(50):
        middle = 0.5 * (low + high)
        is_above = balance(middle)[2] > 0
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    B = 0.5 * (low + high)
    A, P, _ = balance(B)
    return {"X_A": A, "X_G": 3 * k2 * A * B * P / F, "X_P": P, "X_E": 2 * k1 * A * B**2 / F}


def wrong_reactions(F_B: Any, T_r: Any) -> dict[str, Any]:
    """Return the same fractions under other names."""
    found = two_reactions(F_B, T_r)
    return dict(
        zip(
            OUTPUTS,
            (found["X_P"], found["X_A"], found["X_G"], 0.4 - found["X_E"]),
            strict=True,
        )
    )


@dataclass(frozen=True)
class Case:
    """A plant, what is known of it, and what is wanted."""

    variables: Mapping[str, tuple[float, float]]
    outputs: tuple[str, ...]
    truth: Callable[..., Any]
    """Of arrays of the variables, in order: all outputs by name."""
    models: Mapping[str, Callable[..., Any] | None]
    """By the name of an arm."""
    goal: Mapping[str, str]
    limits: Mapping[str, str]
    ranges: Mapping[str, tuple[float | None, float | None]] | None = None

    def stated(self, arm: str) -> Problem:
        """Return the statement of an arm."""
        model = self.models.get(arm)
        return Problem(
            dict(self.variables), list(self.outputs), blackbox=_OfPoint(self.truth), noise=0, ranges=self.ranges,
            models=None if model is None else _OfPoint(model), subject_to=dict(self.limits), **self.goal,
        )  # fmt: skip


@dataclass(frozen=True)
class _OfPoint:
    """A function of variables in order as one of a point."""

    function: Callable[..., Any]

    def __call__(self, x: Any) -> Any:
        return self.function(*(x[name] for name in x))


def reactor(F_B: Any, T_r: Any) -> dict[str, float]:
    """Return what is measured at the plant."""
    found = williams_otto(float(F_B), float(T_r))
    return {name: found[name] for name in OUTPUTS}


def forrester(x: Any) -> dict[str, Any]:
    """Return the function of Forrester et al. (2007)."""
    return {"y": (6 * x - 2) ** 2 * np.sin(12 * x - 4)}


def forrester_coarse(x: Any) -> dict[str, Any]:
    """Return its usual coarse twin."""
    return {"y": 0.5 * forrester(x)["y"] + 10 * (x - 0.5) - 5}


def currin(a: Any, b: Any) -> dict[str, Any]:
    """Return the function of Currin et al. (1988)."""
    top, bottom = 2300 * a**3 + 1900 * a**2 + 2092 * a + 60, 100 * a**3 + 500 * a**2 + 4 * a + 20
    return {"y": (1 - np.exp(-0.5 / np.maximum(b, 1e-8))) * top / bottom}


def currin_coarse(a: Any, b: Any) -> dict[str, Any]:
    """Return the mean of four points around (Xiong et al. 2013)."""
    parts = [currin(a + s, np.maximum(b + t, 0.0))["y"] for s in (-0.05, 0.05) for t in (-0.05, 0.05)]
    return {"y": 0.25 * (parts[0] + parts[1] + parts[2] + parts[3])}


def borehole(rw: Any, r: Any, Tu: Any, Hu: Any, Tl: Any, Hl: Any, L: Any, Kw: Any) -> dict[str, Any]:
    """Return the flow through a borehole (Harper and Gupta 1983)."""
    log = np.log(r / rw)
    return {"y": 2 * np.pi * Tu * (Hu - Hl) / (log * (1 + 2 * L * Tu / (log * rw**2 * Kw) + Tu / Tl))}


def borehole_coarse(rw: Any, r: Any, Tu: Any, Hu: Any, Tl: Any, Hl: Any, L: Any, Kw: Any) -> dict[str, Any]:
    """Return its coarse twin (Xiong et al. 2013)."""
    log = np.log(r / rw)
    return {"y": 5 * Tu * (Hu - Hl) / (log * (1.5 + 2 * L * Tu / (log * rw**2 * Kw) + Tu / Tl))}


def _misleading(coarse: Callable[..., Any], about: float) -> Callable[..., Any]:
    """Return a coarse function upside down."""
    return _Mirrored(coarse, about)


@dataclass(frozen=True)
class _Mirrored:
    coarse: Callable[..., Any]
    about: float

    def __call__(self, *x: Any) -> dict[str, Any]:
        return {"y": self.about - self.coarse(*(0.3 * each + 0.7 * np.sqrt(np.abs(each)) for each in x))["y"]}


def _pair(variables: Any, fine: Any, coarse: Any, about: float, goal: Any, limits: Any) -> Case:
    models = {"fine only": None, "coarse as model": coarse, "misleading": _misleading(coarse, about)}
    return Case(variables, ("y",), fine, models, goal, limits)


WELL = {
    "rw": (0.05, 0.15), "r": (100.0, 50000.0), "Tu": (63070.0, 115600.0), "Hu": (990.0, 1110.0),
    "Tl": (63.1, 116.0), "Hl": (700.0, 820.0), "L": (1120.0, 1680.0), "Kw": (9855.0, 12045.0),
}  # fmt: skip
PROFIT = f"(1043.38*X_P + 20.92*X_E)*({FEED} + F_B) - 79.23*{FEED} - 118.34*F_B"
CASES = {
    "williams-otto": Case(
        {"F_B": (4.0, 7.0), "T_r": (70.0, 100.0)}, OUTPUTS, reactor,
        {"plain": None, "two reactions": two_reactions, "wrong model": wrong_reactions, "modifier adaptation": None},
        {"maximize": PROFIT}, {"residual A": "X_A <= 0.12", "byproduct G": "X_G <= 0.08"},
        dict.fromkeys(OUTPUTS, (0.0, 1.0)),
    ),
    "forrester": _pair({"x": (0.0, 1.0)}, forrester, forrester_coarse, 2.0,
                       {"minimize": "(y + 3)**2 + 5*x + 10"}, {"c": "y <= 0.5 + x"}),
    "currin": _pair({"a": (0.0, 1.0), "b": (0.0, 1.0)}, currin, currin_coarse, 14.0,
                    {"maximize": "y - 0.1*a*(y - 8)**2"}, {"c": "y <= 10 + 4*b"}),
    "borehole": _pair(WELL, borehole, borehole_coarse, 200.0,
                      {"minimize": "(y - 60)**2/100 + 20*rw + L/1000 + (Hu - Hl)/300"}, {"c": "y*rw >= 5"}),
}  # fmt: skip


@cache
def optimum(name: str) -> float:
    """Return the best value of the paper's objective that meets the limits, by many local searches on the truth."""
    case = CASES[name]
    problem = case.stated("")
    best = -math.inf

    def functions(u: Any) -> np.ndarray:
        X = problem.from_unit(np.clip(np.asarray(u), 0.0, 1.0)[None])
        y = case.truth(*X[0])
        Y = np.array([[[float(y[each]) for each in case.outputs]]])
        return np.array([each.reshape(-1)[0] for each in problem.g(X, Y)])

    for start in Stream(0).at("optimum").sobol(STARTS, problem.d):
        limits = {"type": "ineq", "fun": lambda u: 100.0 * functions(u)[1:]}
        found = minimize(lambda u: -functions(u)[0] / 10, start, method="SLSQP", bounds=[(0, 1)] * problem.d,
                         constraints=limits, options={"ftol": 1e-15, "maxiter": 300})  # fmt: skip
        f = functions(found.x)
        best = max(best, float(f[0]) if (f[1:] >= -NEAR).all() else -math.inf)
    return best


def run(name: str, arm: str, seed: int, budget: int) -> dict[str, Any]:
    """Perform one run; return after how many evaluations each share is reached, and seconds per suggestion."""
    case = CASES[name]
    problem, best, lost = case.stated(arm), optimum(name), math.inf
    hits: dict[str, int] = {}
    study = Study(problem, seed=seed, patience=None)
    adaptation = _Adaptation(problem, case.models["two reactions"]) if arm == "modifier adaptation" else None
    for number in range(1, budget + 1):
        if adaptation is not None and number > study.initial:
            x = problem.named_x(problem.natural(adaptation.next()))
        else:
            trial = study.ask()
            x = trial.x
        y = problem.evaluate(x)
        if adaptation is None or number <= study.initial:
            study.tell(trial, problem.named_y(y))
        f = np.array([each.reshape(-1)[0] for each in problem.g(np.array(x.array)[None], y[None, None])])
        if adaptation is not None:
            adaptation.told(np.array(x.array), f)
        if (f[1:] >= -NEAR).all():
            lost = min(lost, (best - float(f[0])) / abs(best))
        for share in SHARES:
            if lost <= share:
                hits.setdefault(f"{share:g}", number)
        if lost <= min(SHARES):
            break
    seconds = [each.why.seconds for each in study.trials[study.initial :]]
    return {"problem": name, "arm": arm, "seed": seed, "hits": hits, "lost": lost, "budget": budget,
            "seconds": float(np.median(seconds)) if seconds and adaptation is None else None}  # fmt: skip


class _Adaptation:
    """Modifier adaptation with Gaussian processes and a trust region, in the unit cube."""

    def __init__(self, problem: Problem, model: Any) -> None:
        self.problem, self.model = problem, model
        self.U: list[Any] = []
        self.F: list[Any] = []
        self.radius, self.expected = 0.25, None

    def known(self, U: Any) -> Any:
        """Return profit and limits by the model."""
        X = self.problem.from_unit(U)
        found = self.model(*X.T)
        Y = np.stack([found[name] for name in self.problem.outputs], -1)
        return np.stack([np.broadcast_to(each, (1, len(U)))[0] for each in self.problem.g(X, Y[None])], -1)

    def told(self, x: Any, f: Any) -> None:
        """Take in what was measured, and change the trust region by how well it was predicted."""
        u = self.problem.to_unit(x[None])[0]
        if self.expected is not None:
            centre = self._best()
            gained, promised = self._merit(f) - self._merit(self.F[centre]), self.expected
            ratio = gained / promised if promised > 0 else -1.0
            self.radius = min(0.5, 1.5 * self.radius) if ratio > 0.8 else self.radius * (0.5 if ratio < 0.2 else 1.0)
            self.expected = None
        self.U.append(u)
        self.F.append(f)

    def next(self) -> Any:
        """Return the best point of model and differences within the trust region."""
        U, F = np.array(self.U), np.array(self.F)
        plain = Model(
            kernels=("squared exponential",), trends=("constant",), warps=("none",), waves=False, plateaus=False
        )
        gp = GP.fit(U, F - self.known(U), model=plain, noise=(0.0,) * F.shape[1])
        centre = U[self._best()]
        low, high = np.maximum(centre - self.radius, 0.0), np.minimum(centre + self.radius, 1.0)

        def modified(u: Any) -> Any:
            u = np.clip(np.asarray(u), 0.0, 1.0)[None]
            return (self.known(u) + gp.moments(u)[0])[0]

        best, merit = centre, -math.inf
        for start in [centre, *(low + (high - low) * each for each in Stream(len(U)).sobol(6, len(centre)))]:
            limits = {"type": "ineq", "fun": lambda u: modified(u)[1:] * 100.0}
            found = minimize(lambda u: -modified(u)[0], start, method="SLSQP", bounds=list(zip(low, high, strict=True)),
                             constraints=limits, options={"ftol": 1e-10})  # fmt: skip
            own = self._merit(modified(found.x))
            if own > merit and not (np.abs(U - found.x) < 1e-9).all(1).any():
                best, merit = found.x, own
        if merit == -math.inf:  # everything was measured before: somewhere inside of the region
            best = low + (high - low) * Stream(len(U)).at("else").uniform(1, len(low))[0]
        self.expected = merit - self._merit(self.F[self._best()])
        return best

    def _best(self) -> int:
        return int(np.argmax([self._merit(each) for each in self.F]))

    @staticmethod
    def _merit(f: Any) -> float:
        return float(f[0] - 1e4 * np.maximum(-f[1:], 0.0).sum())


def tables(records: list[dict[str, Any]]) -> str:
    """Return the tables: medians of evaluations, runs that got there, seconds."""
    lines = []
    for name, case in CASES.items():
        lines += [f"\n{name}", "", "| arm | runs | " + " | ".join(f"to {each:g}" for each in SHARES) + " | seconds |",
                  "| --- | --- |" + " --- |" * (len(SHARES) + 1)]  # fmt: skip
        for arm in case.models:
            own = [each for each in records if (each["problem"], each["arm"]) == (name, arm)]
            if own:
                cells = []
                for share in SHARES:
                    counts = sorted(each["hits"].get(f"{share:g}", math.inf) for each in own)
                    got, middle = sum(map(math.isfinite, counts)), float(np.median(counts))
                    cells.append((f"{middle:g}" if math.isfinite(middle) else "-") + f" ({got} of {len(own)})")
                seconds = [each["seconds"] for each in own if each["seconds"]]
                cells.append(f"{np.median(seconds):.2f}" if seconds else "-")
                lines.append(f"| {arm} | {len(own)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--only", default="", help="a problem")
    parser.add_argument("--out", type=Path, default=Path("models.jsonl"))
    parser.add_argument("--report", action="store_true", help="print the tables alone")
    given = parser.parse_args()
    records = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(each["problem"], each["arm"], each["seed"]) for each in records}
    items = [(name, arm, seed) for seed in range(given.seeds) for name, case in CASES.items() for arm in case.models
             if (name, arm, seed) not in done and given.only in ("", name) and not given.report]  # fmt: skip
    with ProcessPoolExecutor(max(1, given.jobs)) as pool, given.out.open("a") as file:
        waiting = [pool.submit(run, *item, given.budget) for item in items]
        for each in as_completed(waiting):
            records.append(each.result())
            file.write(json.dumps(records[-1]) + "\n")
            file.flush()
    print(tables(records))


if __name__ == "__main__":
    main()
