"""Constrained problems of two objectives with known fronts, split into a black box h and a known g.

Reference point and hypervolume of each front come from `benchmarks/reference_fronts.py`: a dense set of points of the
front, found by local searches from many starts along each objective and checked by random points.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem import Problem
from pied.shapes import Bool, Float64
from pied.suite.applied import FEED_A, _reactor
from pied.suite.benchmark import STRICT_TOLERANCE, BlackBox
from pied.suite.elementary import Number


@dataclass(frozen=True, eq=False)
class FrontBenchmark:
    """A problem of several objectives, and how good its front can be.

    Example: `docs/guide-suite.md`.
    """

    name: str
    problem: Problem
    """What a solver is given."""
    h: Callable[..., Sequence[Number]]
    """The truth: variables in order, as numbers or arrays, to outputs in order."""
    reference: tuple[float, ...]
    """The reference point of the hypervolume, in the sense of the statement: a tenth of the front's extent worse than
    the worst value on it."""
    volume: float
    """The hypervolume of the whole front."""
    source: str
    """Where the problem is from."""

    def truth(self, X: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return all functions of `problem.side_by_side` at points, natural units."""
        whole = self.problem.side_by_side
        Y = np.stack(np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in self.h(*X.T))), -1)
        G = whole.g(X, Y.reshape(1, len(X), whole.m))
        return np.stack([np.asarray(each).reshape(-1, len(X))[0] for each in G], -1)

    def objectives(self, f: Float64[ndarray, "b k"]) -> Float64[ndarray, "b r"]:
        """Return the objectives among functions, better if larger."""
        return f[:, self.problem.goal_places]

    def is_strictly_feasible(self, f: Float64[ndarray, "b k"], scales: ndarray | None = None) -> Bool[ndarray, "b"]:
        """Tell at which points every constraint holds, but for rounding."""
        limits = f[:, 1 : self.problem.k]
        sizes = np.median(np.abs(limits), 0) if scales is None else scales
        return np.asarray((limits >= -STRICT_TOLERANCE * sizes).all(1) & np.isfinite(f).all(1))


def _made(
    name: str,
    h: Callable[..., Sequence[Number]],
    variables: Mapping[str, tuple[float, float]],
    outputs: Sequence[str],
    *,
    reference: tuple[float, ...],
    volume: float,
    source: str,
    **words: Any,
) -> FrontBenchmark:
    problem = Problem(
        dict(variables), list(outputs), blackbox=BlackBox(h, tuple(variables), tuple(outputs)), noise=0, **words
    )
    return FrontBenchmark(name, problem, h, reference, volume, source)


def binh_korn() -> FrontBenchmark:
    """Two squared distances, from two corners of the box."""
    return _made(
        "binh-korn",
        lambda x, y: (x**2 + y**2, (x - 5) ** 2 + (y - 5) ** 2),
        {"x": (0.0, 5.0), "y": (0.0, 3.0)},
        ["near", "far"],
        minimize={"f1": "4*near", "f2": "far"},
        subject_to={"disc": "far - (y - 5)^2 + y^2 <= 25", "outside": "(x - 8)^2 + (y + 3)^2 >= 7.7"},
        reference=(149.6, 54.6),
        volume=6413.8426,
        source="Binh and Korn (1997)",
    )


def srinivas() -> FrontBenchmark:
    """Srinivas and Deb's problem: one square enters both objectives with opposite signs."""
    return _made(
        "srinivas",
        lambda x1, x2: ((x1 - 2) ** 2, (x2 - 1) ** 2, x1**2 + x2**2),
        {"x1": (-20.0, 20.0), "x2": (-20.0, 20.0)},
        ["p", "q", "r"],
        minimize={"f1": "2 + p + q", "f2": "9*x1 - q"},
        subject_to={"disc": "r <= 225", "slope": "x1 - 3*x2 + 10 <= 0"},
        inputs={"p": ["x1"], "q": ["x2"], "r": ["x1", "x2"]},
        reference=(244.3, 24.64),
        volume=35190.445,
        source="Srinivas and Deb (1994)",
    )


def tanaka() -> FrontBenchmark:
    """A front that is the wavy edge of the feasible region, in several parts."""
    return _made(
        "tanaka",
        lambda x1, x2: (0.1 * np.cos(16 * np.arctan2(x1, x2)),),
        {"x1": (1e-6, math.pi), "x2": (1e-6, math.pi)},
        ["wave"],
        minimize={"f1": "x1", "f2": "x2"},
        subject_to={"edge": "x1^2 + x2^2 - 1 - wave >= 0", "disc": "(x1 - 0.5)^2 + (x2 - 0.5)^2 <= 0.5"},
        ranges={"wave": (-0.1, 0.1)},
        reference=(1.138, 1.138),
        volume=0.5138533,
        source="Tanaka et al. (1995)",
    )


def constr_ex() -> FrontBenchmark:
    """Deb's Constr-Ex: the constraints make a part of the front."""
    return _made(
        "constr-ex",
        lambda x1, x2: (1 / x1, 9 * x1),
        {"x1": (0.1, 1.0), "x2": (0.0, 5.0)},
        ["inverse", "load"],
        minimize={"f1": "x1", "f2": "(1 + x2)*inverse"},
        subject_to={"least": "x2 + load >= 6", "most": "load - x2 >= 1"},
        inputs=["x1"],
        reference=(1.061, 9.8),
        volume=4.8408054,
        source="Deb (2001)",
    )


def osyczka_kundu() -> FrontBenchmark:
    """Six variables, six constraints; the front has five parts, each on other box bounds and constraints."""
    return _made(
        "osyczka-kundu",
        lambda x1, x2, x3, x4, x5, x6: (
            25 * (x1 - 2) ** 2 + (x2 - 2) ** 2,
            (x3 - 1) ** 2 + (x4 - 4) ** 2 + (x5 - 1) ** 2,
            (x3 - 3) ** 2,
        ),
        {"x1": (0.0, 10.0), "x2": (0.0, 10.0), "x3": (1.0, 5.0), "x4": (0.0, 6.0), "x5": (1.0, 5.0), "x6": (0.0, 10.0)},
        ["s", "t", "v"],
        maximize={"gain": "s + t"},
        minimize={"size": "x1^2 + x2^2 + x3^2 + x4^2 + x5^2 + x6^2"},
        subject_to={
            "c1": "x1 + x2 >= 2",
            "c2": "x1 + x2 <= 6",
            "c3": "x2 - x1 <= 2",
            "c4": "x1 - 3*x2 <= 2",
            "c5": "v + x4 <= 4",
            "c6": "(x5 - 3)^2 + x6 >= 4",
        },
        inputs={"s": ["x1", "x2"], "t": ["x3", "x4", "x5"], "v": ["x3"]},
        reference=(18.8, 83.2),
        volume=16147.083,
        source="Osyczka and Kundu (1995)",
    )


def _beam(h: Number, l: Number, t: Number, b: Number) -> tuple[Number, ...]:  # noqa: E741  the names of the literature
    arm = np.sqrt(0.25 * (l**2 + (h + t) ** 2))
    moment = 6000 * (14 + 0.5 * l) * arm / (2 * 0.707 * h * l * (l**2 / 12 + 0.25 * (h + t) ** 2))
    return moment, 2.1952 / (t**3 * b), 64746.022 * (1 - 0.0282346 * t) * t * b**3


def welded_beam() -> FrontBenchmark:
    """Cost of a welded beam against its deflection; bending stress and buckling come from the black box."""
    return _made(
        "welded-beam",
        _beam,
        {"h": (0.125, 5.0), "l": (0.1, 10.0), "t": (0.1, 10.0), "b": (0.125, 5.0)},
        ["moment", "bend", "buckling"],
        minimize={"cost": "1.10471*h^2*l + 0.04811*t*b*(14 + l)", "deflection": "bend"},
        subject_to={
            "shear": "sqrt((6000/(1.4142135623730951*h*l))^2 + moment^2 + 6000/(1.4142135623730951*h*l)*moment*l"
            "/sqrt(0.25*(l^2 + (h + t)^2))) <= 13600",
            "stress": "504000/(t^2*b) <= 30000",
            "thick": "h <= b",
            "buckles": "buckling >= 6000",
        },
        ranges={"moment": (0.0, None), "bend": (0.0, None), "buckling": (0.0, None)},
        inputs={"moment": ["h", "l", "t"], "bend": ["t", "b"], "buckling": ["t", "b"]},
        reference=(39.83, 0.01729),
        volume=0.5955337,
        source="Deb (2001), after Reklaitis et al. (1983)",
    )


def disc_brake() -> FrontBenchmark:
    """Mass of a disc brake against its stopping time; area and effective radius come from the black box."""
    return _made(
        "disc-brake",
        lambda inner, outer, force, discs: (
            outer**2 - inner**2,
            (outer**3 - inner**3) / np.where(np.abs(outer**2 - inner**2) > 1e-9, outer**2 - inner**2, 1e-9),
        ),
        {"inner": (55.0, 80.0), "outer": (80.5, 110.0), "force": (1000.0, 3000.0), "discs": (2.0, 20.0)},
        ["area", "radius"],
        minimize={"mass": "4.9e-5*area*(discs - 1)", "time": "9.82e6/(force*discs*radius)"},
        subject_to={
            "gap": "outer - inner >= 20",
            "length": "2.5*(discs + 1) <= 30",
            "pressure": "force/(3.14*area) <= 0.4",
            "temperature": "2.22e-3*force*radius/area <= 1",
            "torque": "2.66e-2*force*discs*radius >= 900",
        },
        ranges={"area": (0.0, None), "radius": (0.0, None)},
        inputs=["inner", "outer"],
        reference=(3.058, 16.7),
        volume=38.153514,
        source="Ray and Liew (2002)",
    )


def speed_reducer() -> FrontBenchmark:
    """Weight of a speed reducer against the stress in its first shaft; the bending moments come from the black box."""
    return _made(
        "speed-reducer",
        lambda x1, x2, x3, x4, x5, x6, x7: (
            np.sqrt((745 * x4 / (x2 * x3)) ** 2 + 1.69e7),
            np.sqrt((745 * x5 / (x2 * x3)) ** 2 + 1.575e8),
        ),
        {"x1": (2.6, 3.6), "x2": (0.7, 0.8), "x3": (17.0, 28.0), "x4": (7.3, 8.3), "x5": (7.3, 8.3), "x6": (2.9, 3.9),
         "x7": (5.0, 5.5)},
        ["first", "second"],
        minimize={
            "weight": "0.7854*x1*x2^2*(3.3333*x3^2 + 14.9334*x3 - 43.0934) - 1.508*x1*(x6^2 + x7^2)"
            " + 7.4777*(x6^3 + x7^3) + 0.7854*(x4*x6^2 + x5*x7^2)",
            "stress": "first/(0.1*x6^3)",
        },
        subject_to={
            "bending": "27/(x1*x2^2*x3) <= 1",
            "contact": "397.5/(x1*x2^2*x3^2) <= 1",
            "deflection 1": "1.93*x4^3/(x2*x3*x6^4) <= 1",
            "deflection 2": "1.93*x5^3/(x2*x3*x7^4) <= 1",
            "stress 1": "first/(0.1*x6^3) <= 1300",
            "stress 2": "second/(0.1*x7^3) <= 1100",
            "size": "x2*x3 <= 40",
            "ratio 1": "x1/x2 >= 5",
            "ratio 2": "x1/x2 <= 12",
            "shaft 1": "1.5*x6 + 1.9 <= x4",
            "shaft 2": "1.1*x7 + 1.9 <= x5",
        },
        inputs={"first": ["x2", "x3", "x4"], "second": ["x2", "x3", "x5"]},
        reference=(6079.0, 1361.0),
        volume=2149161.0,
        source="Golinski (1970), as in Kurpati et al. (2002); the number of teeth x3 is continuous",
    )  # fmt: skip


_PROFIT = "(1043.38*X_P + 20.92*X_E)*(F_A + F_B) - 79.23*F_A - 118.34*F_B"
_FRACTIONS = ("X_A", "X_G", "X_P", "X_E")


def williams_otto_feed() -> FrontBenchmark:
    """Profit of the Williams-Otto reactor against the feed of B that it needs."""
    return _made(
        "williams-otto-feed",
        _reactor,
        {"F_B": (3.0, 7.0), "T_r": (70.0, 100.0)},
        list(_FRACTIONS),
        maximize={"profit": _PROFIT},
        minimize={"feed": "F_B"},
        subject_to={"residual A": "X_A <= 0.2", "byproduct G": "X_G <= 0.08"},
        constants={"F_A": FEED_A},
        ranges=dict.fromkeys(_FRACTIONS, (0.0, 1.0)),
        reference=(56.94, 4.368),
        volume=19.017485,
        source="Williams and Otto (1960)",
    )


def williams_otto_byproduct() -> FrontBenchmark:
    """Profit of the Williams-Otto reactor against its byproduct G."""
    return _made(
        "williams-otto-byproduct",
        _reactor,
        {"F_B": (3.0, 7.0), "T_r": (70.0, 100.0)},
        list(_FRACTIONS),
        maximize={"profit": _PROFIT},
        minimize={"byproduct": "X_G"},
        subject_to={"residual A": "X_A <= 0.12", "no loss": f"{_PROFIT} >= 0"},
        constants={"F_A": FEED_A},
        ranges=dict.fromkeys(_FRACTIONS, (0.0, 1.0)),
        reference=(-8.872, 0.1177),
        volume=5.4811268,
        source="Williams and Otto (1960)",
    )


FRONTS: dict[str, Callable[[], FrontBenchmark]] = {
    "binh-korn": binh_korn,
    "srinivas": srinivas,
    "tanaka": tanaka,
    "constr-ex": constr_ex,
    "osyczka-kundu": osyczka_kundu,
    "welded-beam": welded_beam,
    "disc-brake": disc_brake,
    "speed-reducer": speed_reducer,
    "williams-otto-feed": williams_otto_feed,
    "williams-otto-byproduct": williams_otto_byproduct,
}
"""Name to statement."""
