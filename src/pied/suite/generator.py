"""Random grey-box problems with known optimum, drawn from a seed.

Each kind is difficult in another way:

    gp            h sampled from Gaussian processes of three smoothnesses
    polynomial    h of degree two to four
    oscillating   h with several periods across the box, hence several basins
    steep         rates, growth, poles and fronts; positive outputs over several decades
    reactor       stirred tanks in series at steady state, random kinetics
    separation    flash drums in series at steady state, random volatilities
    calibration   the parameters of a differential equation from its trajectory, by least squares
    mixed         integers, steps, standard sizes and choices beside continuous variables; only when asked for
    cliff, kink, jump, ridge, corner, basins      outputs that are not smooth, see `uneven`; only when asked for

The limits of the constraints are set so that an intended fraction of the box is feasible. The optimum is found by brute
force on the truth on first use, and kept; that of a mixed one by trying every setting, that of a rough one regime by
regime.
"""

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy import ndarray

from pied.errors import StatementError, did_you_mean
from pied.problem import Formula, Named, Problem, Scope, choices_of
from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.assorted import mixed
from pied.suite.benchmark import Benchmark, BlackBox, Known, labels_of
from pied.suite.calibration import calibration
from pied.suite.enumeration import Thoroughness, enumerated
from pied.suite.latent import MAKERS, Latent, Patchwork
from pied.suite.optimum import Effort, best
from pied.suite.plants import reactor, separation
from pied.suite.sketch import Expression, Sketch, natural, number, power_of_ten, synthetic
from pied.suite.switches import Regime, best_of
from pied.suite.uneven import ROUGH, Uneven, uneven

VERSION = 3
"""Raised whenever a seed gives another problem, so that no stored optimum is used for the wrong problem."""
LIMIT_POINTS = 8192
"""Points at which the limits of the constraints are set."""
FEWEST_FEASIBLE = 16
"""Of these points, how many must be feasible at least."""
CONTINUOUS = ("gp", "polynomial", "oscillating", "steep", "reactor", "separation", "calibration")
"""The kinds among which a seed chooses."""
KINDS = (*CONTINUOUS, "mixed")
"""The kinds of benchmarks of smooth problems, in the order above; their order is part of published tables."""
EVERY_KIND = (*KINDS, *ROUGH)
"""All kinds that can be asked for."""
MIXED_EFFORT = Thoroughness(pool=256, starts=4, whole=0, margin=0.1)
"""Effort for drawn mixed problems: they have several basins, and few settings."""
EFFORTS: dict[str, Effort] = {
    "gp": Effort(agreeing=3),
    "oscillating": Effort(starts=192, agreeing=3),
    "reactor": Effort(starts=192, agreeing=3),
    "separation": Effort(pool=2048, starts=96, steps=80, polished=6),
    "calibration": Effort(pool=2048, starts=48, steps=60, polished=4),
}
"""Effort effort for kinds with many basins, or with a slower truth."""


def random(
    seed: int,
    kind: str | None = None,
    *,
    d: int | None = None,
    m: int | None = None,
    n: int | None = None,
    cache_in: str | Path | None = None,
) -> Benchmark:
    """Draw a problem; the same arguments give the same problem, to the last bit.

    Example: `docs/guide-suite.md`.

    Args:
        seed: of the problem.
        kind: one of `suite.kinds` or `suite.rough_kinds`; None lets the seed choose, among the continuous ones.
        d: number of variables, 1 to 8; None lets the seed choose, as for the next two.
        m: number of outputs.
        n: number of constraints.
        cache_in: a folder in which processes share optima; None keeps them in memory only.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise StatementError(f"A seed is a whole number, got {seed!r}.")
    stream = Stream(seed).at("random")
    if kind is None:
        kind = CONTINUOUS[int(stream.at("kind").uniform(1).item() * len(CONTINUOUS))]
    if kind not in EVERY_KIND:
        raise StatementError(f"There is no kind '{kind}'.{did_you_mean(str(kind), EVERY_KIND)}")
    size_d, size_m, size_n = _sizes(stream.at("sizes", kind), kind, d, m, n)
    return _drawn(seed, kind, size_d, size_m, size_n, None if cache_in is None else str(cache_in))


def _sizes(stream: Stream, kind: str, d: int | None, m: int | None, n: int | None) -> tuple[int, int, int]:
    """Choose the sizes that were not given, within the limits of the kind, and refuse impossible ones."""
    share_d, share_m, share_n = stream.uniform(3).tolist()
    for word, given, least in (("d", d, 1), ("m", m, 1), ("n", n, 0)):
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < least):
            raise StatementError(f"{word} should be a whole number, {least} or larger, got {given!r}.")
    if d is not None and d > 8:
        raise StatementError(f"Draws have 1 to 8 variables, not {d}.")
    offered: tuple[int, ...] = (2, 2, 3, 3, 4, 4, 5, 6) if kind == "calibration" else (1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8)
    offered = (2, 3, 4) if kind in ROUGH else offered
    d = d or offered[int(share_d * len(offered))]
    if m is None:
        lowest, highest = {"calibration": (4, 15), "separation": (1, 4 if d > 3 else 3)}.get(kind, (1, 4))
        lowest = 2 if kind in ROUGH else lowest
        m = lowest + int(share_m * (highest - lowest + 1))
    if n is None:
        most = {"calibration": 1, "reactor": min(3, m + 1), "separation": min(3, m + (d > 1))}.get(kind, 3)
        n = int(share_n * (most + 1.5)) if share_n < 0.9 else most
        n = min(n, most)
        n = 1 + int(2 * share_n) if kind == "basins" else n
    return d, m, n


@cache
def _drawn(seed: int, kind: str, d: int, m: int, n: int, folder: str | None) -> Benchmark:
    """Draw a problem of given kind and sizes."""
    stream = Stream(seed).at("random", kind, d, m, n)
    makers: dict[str, Callable[[Stream, int, int, int], Sketch]] = {
        "reactor": reactor,
        "separation": separation,
        "calibration": calibration,
        "mixed": mixed,
    }
    makers |= {each: partial(uneven, each) for each in ROUGH} | {each: partial(synthetic, each) for each in MAKERS}
    made = makers[kind](stream.at("sketch"), d, m, n)
    objective, constraints = _limited(made, stream.at("limits"))
    minimizes = stream.at("sense").uniform(1).item() < 0.5
    told = objective.turned() if minimizes else objective
    problem = Problem(
        made.variables,
        list(made.outputs),
        blackbox=BlackBox(made.h, tuple(made.variables), made.outputs, labels_of(made.variables)),
        subject_to={name: f"{each.text} >= 0" for name, each in constraints.items()} or None,
        inputs=made.inputs,
        ranges=made.ranges,
        constants=made.constants or None,
        noise=0,
        **{"minimize" if minimizes else "maximize": told.text},
    )
    name = f"{kind}-{d}-{m}-{n}-{seed}"

    memory: list[Known] = []  # shared by all forms of this problem, which have the same truth

    def found(benchmark: Benchmark) -> Known:
        kept = None if folder is None else Path(folder) / f"{name}-v{VERSION}.json"
        if not memory and kept is not None and kept.exists():
            memory.append(Known(**json.loads(kept.read_text(encoding="utf-8"))))
        elif not memory:
            memory.append(_found(benchmark, made, objective, constraints, kind))
            if kept is not None:
                _keep(memory[0], kept)
        return memory[0]

    return Benchmark(
        name=name,
        whole=problem,
        h=made.h,
        optimum=found,
        code_inputs=tuple(each for each in made.variables if any(each in row for row in made.inputs.values())),
        note=made.note,
    )


def _keep(known: Known, file: Path) -> None:
    """Write an optimum to a file; other processes see the whole file or none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partly = file.with_suffix(f".{os.getpid()}")
    partly.write_text(json.dumps({"value": known.value, "x": dict(known.x), "source": known.source}))
    partly.replace(file)


def _evaluated(made: Sketch, texts: list[str], X: Float64[ndarray, "b d"]) -> Float64[ndarray, "b t"]:
    """Return the values of formulas at many points, from the truth."""
    return _Truth(made, tuple(Formula(text, _scope(made)) for text in texts))(X)


def _scope(made: Sketch) -> Scope:
    """Return the names that the formulas use."""
    return Scope(tuple(made.variables), made.outputs, made.constants, choices_of(made.variables))


class _Truth:
    """Formulas of x and h(x), at many points at once."""

    def __init__(self, made: Sketch, formulas: tuple[Formula, ...]) -> None:
        self.made = made
        self.formulas = formulas

    def __call__(self, X: Float64[ndarray, "b d"]) -> Float64[ndarray, "b t"]:
        Y = np.stack([np.asarray(value) for value in self.made.h(*X.T)], -1)
        x, y = Named(tuple(self.made.variables), X), Named(self.made.outputs, Y[None])
        F = np.empty((len(X), len(self.formulas)))
        for place, formula in enumerate(self.formulas):
            F[:, place] = formula(x, y)
        return F


def _limited(made: Sketch, stream: Stream) -> tuple[Expression, dict[str, Expression]]:
    """Set the limits of the constraints to an intended feasible fraction, and give all functions units."""
    U = stream.at("pool").sobol(LIMIT_POINTS, len(made.variables))
    columns = (natural(v, u) for v, u in zip(made.variables.values(), U.T, strict=True))
    X = np.stack([np.asarray(column) for column in columns], -1)
    objective = made.objective.changed(power_of_ten(stream.at("unit")))
    if not made.constraints:
        return objective, {}
    values = _evaluated(made, [made.objective.text, *(each.text for each in made.constraints.values())], X)
    top = np.argsort(-values[:, 0], kind="stable")[: LIMIT_POINTS // 20]
    expressions = dict(made.constraints)
    for place, (name, each) in enumerate(made.constraints.items(), start=1):
        if each.free:  # choose its sign: it excludes the best points, or includes them
            rank = float((values[top, place] > np.quantile(values[:, place], 0.5)).mean())
            wants_cut = stream.at("cut", name).uniform(1).item() < 0.75
            if (rank > 0.5) == wants_cut:
                expressions[name] = each.turned()
                values[:, place] = -values[:, place]
    limits = _levels(values[:, 1:], stream.at("fraction").uniform(1).item())
    return objective, {
        name: each.changed(power_of_ten(stream.at("unit", name)), less)
        for (name, each), less in zip(expressions.items(), limits, strict=True)
    }


def _levels(values: Float64[ndarray, "p n"], share: float) -> list[float]:
    """Return a limit for each constraint, all at one quantile, that give an intended feasible fraction.

    The intended fraction is log-uniform between 0.5 % and 60 %.
    """
    wanted = max(FEWEST_FEASIBLE, int(len(values) * 0.005 * (0.6 / 0.005) ** share))
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        feasible = int((values >= np.quantile(values, middle, 0)).all(-1).sum())
        low, high = (middle, high) if feasible >= wanted else (low, middle)
    limits = np.quantile(values, low, 0)
    spread = values.std(0, ddof=1)
    return [float(number(limit - 1e-4 * s)) for limit, s in zip(limits.tolist(), spread.tolist(), strict=True)]


def _found(
    benchmark: Benchmark, made: Sketch, objective: Expression, constraints: dict[str, Expression], kind: str
) -> Known:
    """Find the optimum; the pieces of a minimum are separate functions, so kinks are exact."""
    goals = list(objective.pieces) if objective.join == "min" else [objective.text]
    limits = [text for each in constraints.values() for text in (each.pieces if each.join == "min" else [each.text])]
    scope = _scope(made)
    truth = _Truth(made, tuple(Formula(text, scope) for text in [*goals, *limits]))
    problem = benchmark.whole
    none = f"No feasible point of '{benchmark.name}' was found; please report this seed."
    if kind == "mixed":
        known = enumerated(benchmark, MIXED_EFFORT, truth=truth, pieces=len(goals))
        if known is None:
            raise StatementError(none)
        return known
    stream = Stream(0).at("optimum", benchmark.name)
    if kind in ROUGH:
        answer = best_of(_regimes(made, truth, problem, stream), problem.d, stream=stream)
    else:
        answer = best(
            lambda U: truth(problem.from_unit(U)),
            problem.d,
            stream=stream,
            pieces=len(goals),
            effort=EFFORTS.get(kind),
            starts=np.array([made.start]) if made.start else None,
        )
    if answer is None:
        raise StatementError(none)
    X = np.clip(problem.from_unit(answer.u), *problem.bounds.T)  # rounding may leave the box by a last bit
    value = float(benchmark.truth(X[None])[0, 0])
    how = "agree" if answer.agreed else "do not agree; the best is taken"
    source = f"brute force on the truth: {answer.searches} searches of the whole box {how}"
    return Known(problem.user_value(value), dict(zip(problem.variables, X.tolist(), strict=True)), source)


def _regimes(made: Sketch, truth: "_Truth", problem: Problem, stream: Stream) -> list[Regime]:
    """Return the parts of the box in which a rough draw is smooth, or of which a search must not miss one."""
    whole = Regime(lambda U: truth(problem.from_unit(U)))
    assert isinstance(made.h, Patchwork)
    rough, d = made.h.latents[0], problem.d
    if not isinstance(rough, Uneven):
        return [whole]
    pool = stream.at("starts").sobol(256, d)
    if not rough.is_switched:
        starts = rough.switches[0].on(pool) if rough.form == "resonance" else pool[rough.near(pool) >= 0]
        return [whole, replace(whole, sides=lambda U: rough.near(U)[:, None], starts=starts[:64])]
    h, starts = made.h, np.concatenate([switch.on(pool)[:32] for switch in rough.switches])

    def regime(signs: tuple[bool, ...]) -> Regime:
        continued: Latent = partial(rough.continued, signs=signs)
        smooth = _Truth(replace(made, h=replace(h, latents=(continued, *h.latents[1:]))), truth.formulas)
        turn = np.where(signs, 1.0, -1.0)
        return Regime(lambda U: smooth(problem.from_unit(U)), lambda U: np.stack(rough.signs(U), -1) * turn, starts)

    return [regime(signs) for signs in itertools.product((False, True), repeat=len(rough.switches))]
