"""Engineering problems with rough outputs: regimes, dead zones, stages, a narrow resonance, noise as instruments have.

The models are simple; what matters is the form of their outputs. Optima were found regime by regime (`regimes`), each
from many starts, and no point of a large pool or near them is better. At a cliff the stated point lies 1e-9 of the
box inside of the better regime. Values are correct to about 1e-8 of the distance from median to optimum.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.benchmark import Benchmark, state
from pied.suite.elementary import Number, on_arrays
from pied.suite.optimum import Best
from pied.suite.switches import Regime, best_of

SOURCE = "brute force on the truth, regime by regime"
Columns = list[ndarray]


@dataclass(frozen=True)
class Staged:
    """A black box with regimes, which the signs of some switches tell."""

    switches: Callable[[Columns], list[ndarray]]
    """Each >= 0 on one side, of about size one."""
    within: Callable[[Columns, Sequence[bool]], list[ndarray]]
    """The outputs of a regime, also where another one applies."""
    count: int
    """Number of switches."""
    focus: Callable[[Columns], ndarray] | None = None
    """>= 0 in a narrow part that a search must not miss, if there is one."""

    def __call__(self, *x: Number) -> Sequence[Number]:
        return on_arrays(self._outputs, x)

    def _outputs(self, x: Columns) -> list[ndarray]:
        s = self.switches(x)
        whole = self.within(x, (False,) * self.count)
        for signs in self.patterns[1:]:
            own = np.all([(value >= 0) == sign for value, sign in zip(s, signs, strict=True)], 0)
            whole = [np.where(own, new, old) for new, old in zip(self.within(x, signs), whole, strict=True)]
        return whole

    @property
    def patterns(self) -> list[tuple[bool, ...]]:
        """All combinations of signs."""
        return list(itertools.product((False, True), repeat=self.count))

    def regimes(self, benchmark: Benchmark) -> list[Regime]:
        """Return the regimes of a problem with this black box."""
        whole = benchmark.whole

        def columns(U: Float64[ndarray, "b d"]) -> Columns:
            return list(whole.from_unit(U).T)

        def regime(signs: tuple[bool, ...]) -> Regime:
            smooth, turn = replace(benchmark, h=_Within(self, signs)), np.where(signs, 1.0, -1.0)
            return Regime(
                lambda U: smooth.truth(U, unit=True),
                (lambda U: np.stack(self.switches(columns(U)), -1) * turn) if self.count else None,
            )

        made = [regime(signs) for signs in self.patterns]
        if self.focus is not None:
            focus, pool = self.focus, Stream(0).at("focus").sobol(2**14, whole.d)
            starts = pool[focus(columns(pool)) >= 0][:64]
            made.append(replace(made[0], sides=lambda U: focus(columns(U))[:, None], starts=starts))
        return made


@dataclass(frozen=True)
class _Within:
    """One regime of a staged black box, everywhere."""

    staged: Staged
    signs: tuple[bool, ...]

    def __call__(self, *x: Number) -> Sequence[Number]:
        return on_arrays(lambda columns: self.staged.within(columns, self.signs), x)


def searched(benchmark: Benchmark) -> Best | None:
    """Find the optimum again."""
    assert isinstance(benchmark.h, Staged)
    return best_of(benchmark.h.regimes(benchmark), benchmark.whole.d, stream=Stream(0).at("rough", benchmark.name))


def _burn_out_switch(x: Columns) -> list[ndarray]:
    flux, speed, cooling = x
    return [flux / (0.5 + 0.35 * speed**0.6 + 0.01 * cooling) - 1]


def _burn_out(x: Columns, film: Sequence[bool]) -> list[ndarray]:
    flux, speed, cooling = x
    nucleate = 9.0 * flux**0.33 * (1 + 0.05 * cooling / 30)
    wall = 120 - 0.3 * cooling + (650 * flux**0.75 / (1 + 0.2 * speed) if film[0] else nucleate)
    steam = 40 * flux * (0.55 if film[0] else 1.0) * (1 - 0.006 * cooling)
    return [wall, steam]


def _phase_switch(x: Columns) -> list[ndarray]:
    temperature, pressure, _ = x
    return [(temperature - (100 + 38 * np.log(pressure))) / 50]


def _phase(x: Columns, boiling: Sequence[bool]) -> list[ndarray]:
    temperature, _, catalyst = x
    rate = (0.2 + catalyst) * np.exp(0.035 * (temperature - 140))
    conversion = rate / (1 + rate) * (0.45 if boiling[0] else 1.0)
    coke = 0.02 * np.exp(0.04 * (temperature - 140)) * (1 + catalyst) * (2.5 if boiling[0] else 1.0)
    return [conversion, coke]


def _breakthrough_switch(x: Columns) -> list[ndarray]:
    hours, flow, bed, temperature = x
    return [hours * flow / (14 * bed * np.exp(-0.012 * (temperature - 25))) - 1]


def _breakthrough(x: Columns, through: Sequence[bool]) -> list[ndarray]:
    hours, flow, bed, temperature = x
    excess = _breakthrough_switch(x)[0]
    slip = 60 * (1 - np.exp(-6 * excess)) if through[0] else np.zeros(len(hours))
    drop = 0.08 * bed * flow**1.8 * (1 - 0.002 * (temperature - 25))
    return [slip, drop]


def _pumps_switch(x: Columns) -> list[ndarray]:
    flow, _, _ = x
    return [flow / 40 - 1, flow / 80 - 1]


def _pumps(x: Columns, more: Sequence[bool]) -> list[ndarray]:
    flow, head, speed = x
    running = 1 + sum(more)
    each = flow / running
    point = 32 * speed
    efficiency = 0.82 - 0.0004 * (each - point) ** 2 - 0.0008 * (head - 40 * speed**2) ** 2 / 4
    power = 0.00981 * flow * head / np.maximum(efficiency, 0.1) + 9.0 * running
    return [power, 100 * speed**2 * (1 - 0.25 * (each / 50) ** 2) - head]


def _resonance(x: Columns, _: Sequence[bool]) -> list[ndarray]:
    frequency, mass, damping = x
    own = 95 / np.sqrt(mass)
    width = 0.6 + 0.4 * damping
    amplitude = 0.4 + 0.008 * frequency + 6 / (1 + ((frequency - own) / width) ** 2) / (1 + damping)
    heat = 0.004 * frequency**1.5 * (1 + 0.3 * mass)
    return [amplitude, heat]


def _resonant(x: Columns) -> ndarray:
    frequency, mass, damping = x
    return 0.02 * (2 - np.abs(frequency - 95 / np.sqrt(mass)) / (0.6 + 0.4 * damping))


def _lobes_switch(x: Columns) -> list[ndarray]:
    speed, depth, _ = x
    limit = 0.6 + 1.2 * np.cos(np.pi * 24 / speed) ** 8 + 0.06 * speed
    return [depth / limit - 1]


def _lobes(x: Columns, chatter: Sequence[bool]) -> list[ndarray]:
    speed, depth, feed = x
    finish = 0.5 + 18 * feed**2 + 0.04 * depth + (6 + depth if chatter[0] else 0.0)
    wear = 0.03 * speed**1.6 * depth**0.4 * (feed / 0.2) ** 0.6 * (1.8 if chatter[0] else 1.0)
    return [finish, wear]


def _titration(x: Columns, _: Sequence[bool]) -> list[ndarray]:
    ph, temperature, time = x
    product = 30 * np.exp(-(((ph - 6.2) / 1.6) ** 2)) * (1 - np.exp(-time * np.exp(0.05 * (temperature - 40)) / 3))
    waste = 0.4 * np.exp(0.06 * (temperature - 30)) * (1 + 0.2 * time)
    return [product, waste]


def _assay(x: Columns, _: Sequence[bool]) -> list[ndarray]:
    salt, sugar, oxygen, temperature = x
    growth = sugar / (4 + sugar + sugar**2 / 20) * oxygen / (0.2 + oxygen) * np.exp(-(((temperature - 33) / 7) ** 2))
    strain = 0.3 * salt + 0.05 * sugar + 0.01 * (temperature - 28) ** 2
    return [10 * growth * np.exp(-0.4 * (salt - 1) ** 2), strain]


def _none(x: Columns) -> list[ndarray]:
    return []


STATEMENTS: dict[str, dict[str, Any]] = {
    "burn-out": {
        "h": Staged(_burn_out_switch, _burn_out, 1),
        "variables": {"flux": (0.2, 2.0), "speed": (0.2, 4.0), "cooling": (0.0, 30.0)},
        "outputs": ["wall", "steam"],
        "maximize": "steam - 1.1*speed**1.5",
        "subject_to": {"wall": "wall <= 400"},
        "value": 44.152329932332755,
        "at": [1.4853777549626668, 3.9999999999999996, 18.1288907950118],
    },
    "phase-limit": {
        "h": Staged(_phase_switch, _phase, 1),
        "variables": {"temperature": (90.0, 190.0), "pressure": (1.0, 8.0), "catalyst": (0.0, 1.0)},
        "outputs": ["conversion", "coke"],
        "maximize": "100*conversion - 3*pressure - 12*catalyst",
        "subject_to": {"coke": "coke <= 0.12"},
        "value": 46.126157808144356,
        "at": [167.46530721670285, 5.902658382906564, 0.9999999999999997],
    },
    "breakthrough": {
        "h": Staged(_breakthrough_switch, _breakthrough, 1),
        "variables": {"hours": (2.0, 12.0), "flow": (1.0, 10.0), "bed": (0.5, 4.0), "temperature": (15.0, 45.0)},
        "outputs": ["slip", "drop"],
        "maximize": "2*hours*flow/(hours + 2) - 0.3*bed - 0.1*hours - 0.05*(45 - temperature)",
        "subject_to": {"slip": "slip <= 1", "pressure drop": "drop <= 9"},
        "value": 9.480265587932852,
        "at": [2.7132142223156475, 9.049206552078738, 2.2232197256561017, 45.0],
    },
    "staged-pumps": {
        "h": Staged(_pumps_switch, _pumps, 2),
        "variables": {"flow": (15.0, 120.0), "head": (15.0, 60.0), "speed": (0.6, 1.2)},
        "outputs": ["power", "reserve"],
        "maximize": "60*flow/(30 + flow) + 0.8*head - 0.008*head**2 - 0.5*power",
        "subject_to": {"reserve": "reserve >= 10"},
        "value": 39.29998240987554,
        "at": [39.99999996, 36.130863601002375, 1.0225574349845141],
    },
    "narrow-resonance": {
        "h": Staged(_none, _resonance, 0, _resonant),
        "variables": {"frequency": (20.0, 120.0), "mass": (0.8, 3.0), "damping": (0.0, 1.0)},
        "outputs": ["amplitude", "heat"],
        "maximize": "amplitude - 0.4*mass",
        "subject_to": {"heat": "heat <= 3.5"},
        "value": 6.118039535706012,
        "at": [66.57301030841255, 2.0362366276392003, 0.0],
    },
    "stability-lobes": {
        "h": Staged(_lobes_switch, _lobes, 1),
        "variables": {"speed": (2.0, 12.0), "depth": (0.2, 3.0), "feed": (0.05, 0.3)},
        "outputs": ["finish", "wear"],
        "maximize": "speed*depth*feed - 0.4*wear",
        "subject_to": {"finish": "finish <= 2"},
        "value": 7.301338546524411,
        "at": [11.999999999999805, 2.5199999974970533, 0.2788069822293131],
    },
    "growing-noise": {
        "h": Staged(_none, _titration, 0),
        "variables": {"ph": (3.0, 9.0), "temperature": (20.0, 70.0), "time": (0.5, 8.0)},
        "outputs": ["product", "waste"],
        "maximize": "product - 0.5*time",
        "subject_to": {"product": "product >= 5", "waste": "waste <= 2.5"},
        "value": 25.353152367841716,
        "at": [6.199999999980783, 47.91164765686323, 5.6687671682730345],
    },
    "gross-errors": {
        "h": Staged(_none, _assay, 0),
        "variables": {"salt": (0.0, 3.0), "sugar": (0.5, 20.0), "oxygen": (0.05, 1.0), "temperature": (24.0, 42.0)},
        "outputs": ["growth", "strain"],
        "maximize": "growth - 0.6*oxygen",
        "subject_to": {"growth": "growth >= 1", "strain": "strain <= 1"},
        "value": 3.798867041670172,
        "at": [1.0000000039563497, 8.94427204207201, 1.0, 33.00000004093894],
    },
}
"""Name to statement, with the optimum."""
OWN_NOISE: dict[str, dict[str, Any]] = {
    "growing-noise": {"noise": {"product": 0.05, "waste": 0.02}, "growth": 0.06},
    "gross-errors": {"noise": {"growth": 0.05, "strain": 0.03}, "outliers": 0.05},
}
"""Noise that belongs to a problem, unless another is asked for."""


def _stated(name: str) -> Benchmark:
    words = dict(STATEMENTS[name])
    made = state(name, words.pop("h"), **{"source": SOURCE, "feasible": None, **words})
    return made.told("full", **OWN_NOISE[name]) if name in OWN_NOISE else made


ROUGH_PROBLEMS: dict[str, Callable[[], Benchmark]] = {name: partial(_stated, name) for name in STATEMENTS}
"""Name to statement."""
