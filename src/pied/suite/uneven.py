"""Random problems whose outputs are not smooth, or smooth in a way that few points do not show.

cliff    an output switches its regime, changes phase, saturates or has a dead zone; often best beside the cliff
kink     the larger or smaller of two mechanisms
jump     two parts that are on or off
ridge    a resonance of one percent of the range
corner   fast variation in one part of the box
basins   an objective known exactly with many basins, under one or two constraints on outputs
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray

from pied.problem import Variable
from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.latent import Latent, Patchwork, draw
from pied.suite.sketch import Expression, Sketch, combined, drawn_variable, less, number, scaled_text, unit_text
from pied.suite.switches import Switch

ROUGH = ("cliff", "kink", "jump", "ridge", "corner", "basins")
"""The kinds, in the order above."""
CLIFFS = ("regime", "phase", "saturation", "dead zone")
WIDTH = 0.005
"""Half the width of a resonance at half its height, in units of the range."""
NEAR = 0.35
"""Radius of the corner with fast variation."""


@dataclass(frozen=True, eq=False)
class Uneven:
    """The rough output of a draw: a smooth function, changed by the signs of its switches or around them."""

    form: str
    """'regime', 'phase', 'saturation', 'dead zone', 'max', 'min', 'on/off', 'resonance' or 'corner'."""
    base: Latent
    other: Latent
    """A second smooth function."""
    switches: tuple[Switch, ...]
    size: float
    """Height of the cliff, jump, resonance or oscillation, in standard deviations of the base."""
    corner: Float64[ndarray, "a"]

    def __call__(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        values = self.continued(U, [False] * len(self.switches))
        for signs in itertools.product((False, True), repeat=len(self.switches)):
            if any(signs):
                own = np.all([(s >= 0) == sign for s, sign in zip(self.signs(U), signs, strict=True)], 0)
                values = np.where(own, self.continued(U, signs), values)
        return values

    def signs(self, U: Float64[ndarray, "b a"]) -> list[Float64[ndarray, "b"]]:
        """Return the values of the switches; of a kink, which of its two functions is larger."""
        if self.form in ("max", "min"):
            return [self.base(U) - self._second(U)]
        return [switch(U) for switch in self.switches]

    def _second(self, U: ndarray) -> ndarray:
        return self.other(U) + 2 * self.size * self.switches[0](U)

    def continued(self, U: Float64[ndarray, "b a"], signs: Sequence[bool]) -> Float64[ndarray, "b"]:
        """Return the values of one regime, also where another one applies."""
        base, s = self.base(U), [switch(U) for switch in self.switches]
        if self.form in ("max", "min"):
            return base if signs[0] == (self.form == "max") else self._second(U)
        if self.form == "regime":  # it rises towards the cliff, then another mechanism takes over
            return 0.5 * self.other(U) - self.size if signs[0] else 0.5 * base + 2 * s[0]
        if self.form == "phase":  # the same mechanism with less
            return 0.2 * base - self.size - s[0] if signs[0] else 0.5 * base + 2 * s[0]
        if self.form == "saturation":
            return np.full(len(U), 0.5 * self.size) if signs[0] else 0.5 * self.size + (3 + 0.5 * base) * s[0]
        if self.form == "dead zone":
            return self.size * (0.3 + 2 * s[0]) + 0.3 * base if signs[0] else np.zeros(len(U))
        if self.form == "on/off":
            heights = (self.size, -0.7 * self.size)
            return 0.6 * base + s[0] + sum(h * on for h, on in zip(heights, signs, strict=False))
        if self.form == "resonance":
            return 0.6 * base + self.size / (1 + (s[0] / WIDTH) ** 2)
        radius = np.sqrt(((U - self.corner) ** 2).sum(-1))
        return 0.6 * base + 0.5 * self.size * np.exp(-((radius / NEAR) ** 2)) * np.sin(2.5 / (0.06 + radius))

    @property
    def is_switched(self) -> bool:
        """Whether there are regimes; a resonance or a fast corner is smooth."""
        return self.form not in ("resonance", "corner")

    def near(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        """Return a value >= 0 close to a resonance or in a fast corner."""
        if self.form == "resonance":
            return 4 * WIDTH - np.abs(self.switches[0](U))
        return NEAR - np.sqrt(((U - self.corner) ** 2).sum(-1))


def uneven(kind: str, stream: Stream, d: int, m: int, n: int) -> Sketch:
    """Draw a problem with one rough output, which the objective uses and sometimes a constraint.

    Args:
        kind: one of `ROUGH`.
        stream: randomness of the problem.
        d: variables.
        m: outputs; the first is the rough one.
        n: constraints.
    """
    variables = {f"x{j + 1}": drawn_variable(stream.at("variable", j)) for j in range(d)}
    smooth = ("gp", "polynomial")[int(stream.at("base").uniform(1).item() * 2)]
    latents: list[Latent] = [draw(smooth, stream.at("latent", j), d, False) for j in range(m)]
    note = kind
    if kind != "basins":
        rough = drawn_roughness(kind, stream.at("rough"), d, latents[0])
        latents[0], note = rough, f"{kind}: {rough.form}"
    everything = tuple(range(d))
    h = Patchwork(tuple(variables.values()), tuple(latents), (everything,) * m, (0.0,) * m, (1.0,) * m)
    units = [float(f"1e{int(each * 7) - 3}") for each in stream.at("unit").uniform(m).tolist()]
    h = replace(h, units=tuple(units))
    levels = [scaled_text(f"y{j + 1}", unit) for j, unit in enumerate(units)]
    objective = (
        _basins(stream.at("goal"), variables) if kind == "basins" else _goal(stream.at("goal"), variables, levels)
    )
    return Sketch(
        variables,
        tuple(f"y{j + 1}" for j in range(m)),
        h,
        objective,
        {f"c{i + 1}": _limit(stream.at("limit", i), levels, i, kind) for i in range(n)},
        {f"y{j + 1}": list(variables) for j in range(m)},
        {},
        note=note,
    )


def drawn_roughness(kind: str, stream: Stream, a: int, base: Latent) -> Uneven:
    """Draw the rough output."""
    which, size = stream.at("form").uniform(2).tolist()
    forms = {
        "cliff": CLIFFS,
        "kink": ("max", "min"),
        "jump": ("on/off",),
        "ridge": ("resonance",),
        "corner": ("corner",),
    }[kind]
    switches = tuple(Switch.drawn(stream.at("switch", j), a) for j in range(2 if kind == "jump" else 1))
    corner = np.rint(stream.at("corner").uniform(a))
    other = draw("polynomial", stream.at("other"), a, False)
    return Uneven(forms[int(which * len(forms))], base, other, switches, 2 + 2 * size, corner)


def _goal(stream: Stream, variables: dict[str, Variable], levels: list[str]) -> Expression:
    """Write the objective: the rough output, some of the others, and a slight preference for some settings."""
    weights, at = stream.at("weight").normal(len(levels)), stream.at("at").uniform(len(variables)).tolist()
    terms = [(1.0, levels[0]), *((0.3 * float(w), level) for w, level in zip(weights[1:], levels[1:], strict=True))]
    bowl = [(-0.5, f"{less(unit_text(name, v), t)}**2") for (name, v), t in zip(variables.items(), at, strict=True)]
    return Expression((combined([*terms, *bowl]),))


def _basins(stream: Stream, variables: dict[str, Variable]) -> Expression:
    """Write an objective of the settings alone: a bowl with waves, two to four periods along each variable."""
    terms = []
    for j, (name, v) in enumerate(variables.items()):
        at, periods, phase = stream.at("wave", j).uniform(3).tolist()
        unit = unit_text(name, v)
        terms.append((-1.5, f"{less(unit, at)}**2"))
        terms.append((0.4, f"cos({number(6.283185 * (2 + 2 * periods))}*{unit} + {number(6.283185 * phase)})"))
    return Expression((combined(terms),))


def _limit(stream: Stream, levels: list[str], place: int, kind: str) -> Expression:
    """Write a constraint on one or two outputs; one in four uses the rough one too."""
    whether, weight = stream.uniform(2).tolist()
    first = place % len(levels) if kind == "basins" else 1 + place % max(len(levels) - 1, 1)
    first = min(first, len(levels) - 1)
    terms = [(1.0, levels[first])]
    if first and whether < 0.25:
        terms.append((0.4 + 0.4 * weight, levels[0]))
    return Expression((combined(terms),), free=True)
