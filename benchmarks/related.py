"""What rows of an earlier campaign bring: evaluations to 1 % of the optimum with them, without them, told as new.

    PYTHONPATH=src python benchmarks/related.py                        # all cases
    PYTHONPATH=src python benchmarks/related.py --cases booth --seeds 3

Fifteen old rows, spread over the box. "twin": a problem of the suite whose outputs were read 10 % and a fifth of their
spread higher, at settings that were off by 3 %. "unrelated": outputs are random waves of the same size.
"couplings": a catalytic coupling with three settings and six ligands, whose four cases differ in reactivity and in
which ligands decompose (the mechanism behind four published cases of Suzuki reactions, with constants of our own); the
old rows are of another case, and 5 % count as reached. Regret is normalized by the range from the optimum to the
median; broken limits count double. "short": without old rows, but with as short a first design as with them. In
brackets: every seed, how often a told gap did not hold, and false verdicts.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied import CUQB, Choice, Infeasible, Problem, Study, Variable, suite
from pied.records import spread
from pied.rng import Stream

ROWS = 15
"""Old rows."""
SHORT = 3
"""First design of a campaign with old rows."""
PROBLEMS = ("booth", "styblinski-tang", "rosen-suzuki", "st-bpv1", "williams-otto")
WAYS = ("none", "short", "campaign", "as new")
LIGANDS = ("A", "B", "C", "D", "E", "F")
BARRIERS = {
    1: (76, 80, 84, 78, 88, 82),
    2: (78, 79, 86, 80, 88, 83),
    3: (84, 78, 80, 86, 82, 90),
    4: (80, 82, 85, 77, 86, 88),
}
"""kJ/mol of each ligand's coupling in each case."""
DECAYS = {
    1: (92, 95, 96, 88, 99, 94),
    2: (93, 94, 97, 89, 99, 95),
    3: (90, 96, 92, 93, 97, 99),
    4: (94, 93, 97, 90, 98, 99),
}
"""Likewise of the loss of its catalyst."""


@dataclass(frozen=True)
class Case:
    """A problem, its present and its earlier outputs at points of the unit cube, and the truth."""

    name: str
    problem: Problem
    present: Callable[[ndarray], ndarray]
    earlier: Callable[[ndarray], ndarray]
    loss: Callable[[ndarray], ndarray]
    """Normalized regret of points of the unit cube, and twice what breaks limits."""
    best: float
    truth: Callable[[ndarray], ndarray]
    """The objective, to be maximized."""
    reached: float = 0.01
    """Loss at which an evaluation has come near enough."""


def of_suite(name: str, kind: str) -> Case:
    """Return a problem of the suite with a twin, or with rows that have nothing to do with it."""
    benchmark = suite.get(name)
    whole = benchmark.whole

    def present(U: ndarray) -> ndarray:
        return np.asarray(benchmark.outputs(whole.from_unit(U)))

    size = spread(present(Stream(0).at("spread").sobol(256, whole.d)))

    middle = np.median(present(Stream(0).at("spread").sobol(256, whole.d)), 0)
    draw = Stream(0).at("unrelated", name)
    frequencies, phases = draw.at("f").normal(len(size), 40, whole.d) / 0.4, draw.at("p").uniform(len(size), 40)

    def waves(U: ndarray) -> ndarray:
        angles = np.einsum("mfd,bd->bmf", frequencies, U) + 2 * math.pi * phases
        return np.asarray(np.cos(angles).sum(-1) * math.sqrt(2 / 40))

    def earlier(U: ndarray) -> ndarray:
        if kind == "unrelated":
            return middle + size * waves(U)
        return 1.1 * present(np.clip(U + 0.03, 0.0, 1.0)) + 0.2 * size

    def loss(U: ndarray) -> ndarray:
        X = whole.from_unit(U)
        broken = np.maximum(-benchmark.truth(X)[:, 1:] / benchmark.scales[1:], 0.0).sum(1)
        return np.asarray(np.maximum(benchmark.normalized_regret(X), 0.0) + 2.0 * broken)

    def truth(U: ndarray) -> ndarray:
        return np.asarray(benchmark.truth(whole.from_unit(U))[:, 0])

    problem = whole.revised(noise=0, blackbox=None)
    return Case(f"{name} {kind}", problem, present, earlier, loss, benchmark.best, truth)


def of_couplings(case: int, other: int) -> Case:
    """Return one case of the couplings with rows of another one."""
    problem = Problem(
        {
            "temperature": Variable(30, 110),
            "minutes": Variable(1, 60, log=True),
            "loading": Variable(0.5, 2.5),
            "ligand": Choice(*LIGANDS),
        },
        ["product"],
        maximize="product - 0.08*loading - 0.002*minutes",
        subject_to={"turnover": "100*product/loading >= 25"},
        noise=0.01,
    )

    def reaction(which: int, U: ndarray) -> ndarray:
        T, minutes, loading, ligand = problem.from_unit(U).T
        place = ligand.astype(int)
        rate, loss = (
            1e13 * 60 * np.exp(-np.array(each[which])[place] * 1e3 / (8.314 * (T + 273.15))) * factor
            for each, factor in ((BARRIERS, 1e-3), (DECAYS, 2e-1))
        )
        active = -np.expm1(-np.minimum(loss * minutes, 50.0)) / np.maximum(loss, 1e-12)
        return np.asarray(-np.expm1(-rate * loading * active))[:, None]

    def values(U: ndarray) -> ndarray:
        return np.asarray(problem.g(problem.from_unit(U), reaction(case, U)[None]))

    pool = problem.drawn(Stream(0).at("pool").sobol(2**16, problem.d))
    f = np.stack([each.reshape(-1) for each in values(pool)], -1)
    best = float(f[(f[:, 1:] >= 0).all(1), 0].max())
    unit, scale = best - float(np.median(f[:, 0])), float(np.median(np.abs(f[:, 1])))

    def loss(U: ndarray) -> ndarray:
        f = np.stack([each.reshape(-1) for each in values(U)], -1)
        return np.asarray(np.maximum((best - f[:, 0]) / unit, 0.0) + 2.0 * np.maximum(-f[:, 1] / scale, 0.0))

    def truth(U: ndarray) -> ndarray:
        return np.asarray(values(U)[0]).reshape(-1)

    name = f"couplings {case} from {other}"
    return Case(name, problem, lambda U: reaction(case, U), lambda U: reaction(other, U), loss, best, truth, 0.05)


def reached(case: Case, way: str, seed: int, trials: int, rows: int = ROWS) -> tuple[float, int, int, int]:
    """Return the first evaluation within 1 %, infinite if none is; gaps told, those that did not hold, verdicts."""
    problem, stream = case.problem, Stream(seed).at("related", case.name)
    noise = [each or 0.0 for each in problem.noise]
    U = problem.drawn(stream.at("rows").uniform(rows, problem.d))
    Y = case.earlier(U) + noise * stream.at("errors").normal(rows, problem.m)
    first, said, wrong, verdicts = math.inf, 0, 0, 0
    with Study(problem, solver=CUQB(), seed=seed, initial=SHORT if way == "short" else None) as study:
        if way in ("campaign", "as new"):
            points = [dict(problem.named_x(problem.natural(u))) for u in U]
            told = [(x, dict(zip(problem.outputs, y.tolist(), strict=True))) for x, y in zip(points, Y, strict=True)]
            study.add_all(told, campaign="2025" if way == "campaign" else "", anyway=True)
        for number in range(1, trials + 1):
            try:
                trial = study.ask()
            except Infeasible:
                verdicts = 1
                break
            u = problem.to_unit(np.array(trial.x.array)[None])
            y = case.present(u)[0] + noise * stream.at("noise", number).normal(problem.m)
            study.tell(trial, dict(zip(problem.outputs, y.tolist(), strict=True)), anyway=True)
            if number % 4 == 0:
                found = study.result()
                if found.gap is not None and math.isfinite(found.gap) and found.x is not None:
                    at = problem.to_unit(np.array(problem.codes(dict(found.x)))[None])
                    said += 1
                    wrong += bool(case.best - float(case.truth(at)[0]) > found.gap + 1e-6 * abs(case.best))
            if float(case.loss(u)[0]) <= case.reached:
                first = number
                break
    return first, said, wrong, verdicts


def cases(names: list[str]) -> list[Case]:
    """Return the cases whose name begins with one of some names."""
    made = [of_suite(name, kind) for name in PROBLEMS for kind in ("twin", "unrelated")]
    made += [of_couplings(case, other) for case, other in ((1, 2), (2, 1), (3, 1), (4, 1))]
    return [each for each in made if not names or any(each.name.startswith(name) for name in names)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--ways", nargs="*", default=WAYS)
    args = parser.parse_args()
    for case in cases(args.cases):
        parts = []
        for way in args.ways:
            found = [reached(case, way, seed, args.trials) for seed in range(args.seeds)]
            firsts = [each[0] for each in found]
            said, wrong, verdicts = (sum(each[place] for each in found) for place in (1, 2, 3))
            own = " ".join(f"{each:g}" for each in firsts)
            parts.append(f"{way}: {np.median(firsts):g} ({own}; gaps {wrong}/{said}, verdicts {verdicts})")
        print(f"{case.name:26}", "   ".join(parts), flush=True)


if __name__ == "__main__":
    main()
