"""Random functions on the unit cube, of four kinds: the outputs of a random black box.

Each is a frozen set of arrays, called with points `b a` (of its own inputs only), that returns values `b`. Signed ones
have mean zero and standard deviation one over the cube; positive ones have median one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.problem import Variable
from pied.rng import Stream
from pied.shapes import Float64, Int64
from pied.suite.elementary import Number, median, on_arrays

FEATURES = 192
"""Cosines in a sampled Gaussian process: enough for a good approximation, few enough to be fast."""
STANDARDIZING_POINTS = 1024
"""Points from which mean and standard deviation are computed."""

Latent = Callable[[Float64[ndarray, "b a"]], Float64[ndarray, "b"]]


@dataclass(frozen=True, eq=False)
class Fourier:
    """A sample of a Gaussian process, as a sum of cosines: w . cos(u W + phase)."""

    W: Float64[ndarray, "a f"]
    phase: Float64[ndarray, "f"]
    weight: Float64[ndarray, "f"]

    def __call__(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        return np.cos(U @ self.W + self.phase) @ self.weight


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of monomials of 2u - 1."""

    powers: Int64[ndarray, "t a"]
    weight: Float64[ndarray, "t"]

    def __call__(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        raised = np.ones((int(self.powers.max()) + 1, *U.T.shape))  # degrees a b
        for power in range(1, len(raised)):
            raised[power] = raised[power - 1] * (2 * U - 1).T
        terms = raised[self.powers[:, 0], 0]  # t b
        for place in range(1, U.shape[1]):
            terms *= raised[self.powers[:, place], place]
        return self.weight @ terms


@dataclass(frozen=True, eq=False)
class Steep:
    """A rate, a growth, a pole or a front along one direction; positive."""

    form: str
    direction: Float64[ndarray, "a"]
    sharpness: float

    def __call__(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        # from 0 to 1 over the cube
        along = U @ np.maximum(self.direction, 0) + (1 - U) @ np.maximum(-self.direction, 0)
        if self.form == "growth":
            return np.exp(self.sharpness * along)
        if self.form == "pole":
            return 1 / (1 / (2 * self.sharpness) + along)
        if self.form == "rate":  # Arrhenius, as a conversion: k / (1 + k)
            k = np.exp(2 * self.sharpness * (1 - 1.6 / (0.6 + 2 * along)))
            return k / (1 + k) + 0.02
        return 1.1 + np.tanh(self.sharpness * (2 * along - 1))  # front


@dataclass(frozen=True, eq=False)
class Joined:
    """A weighted sum or a product of parts."""

    parts: tuple[Latent, ...]
    weights: tuple[float, ...]
    product: bool = False

    def __call__(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        values = [weight * part(U) for part, weight in zip(self.parts, self.weights, strict=True)]
        return math.prod(values[1:], start=values[0]) if self.product else sum(values[1:], start=values[0])


@dataclass(frozen=True, eq=False)
class Standard:
    """A shifted and scaled function, exponentiated if it must be positive."""

    latent: Latent
    mean: float
    deviation: float
    positive: float = 0.0
    """Factor in the exponential that makes it positive; 0: no exponential."""

    def __call__(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        value = (self.latent(U) - self.mean) / self.deviation
        return np.exp(self.positive * value) if self.positive else value


def _gaussian_process(stream: Stream, a: int) -> Latent:
    """Sample a Gaussian process: squared exponential, Matern 5/2 or Matern 3/2, with its own length per input."""
    smoothness = (math.inf, 2.5, 1.5)[int(stream.at("smoothness").uniform(1).item() * 3)]
    W = stream.at("frequency").normal(a, FEATURES)
    if smoothness < math.inf:  # the spectral density of a Matern kernel is a multivariate t with 2 nu degrees
        chi = (stream.at("tail").normal(int(2 * smoothness), FEATURES) ** 2).sum(0)
        W = W * np.sqrt(2 * smoothness / chi)
    lengths = 0.5 * math.sqrt(a) * np.exp(0.3 * stream.at("length").normal(a))
    phase = 2 * math.pi * stream.at("phase").uniform(FEATURES)
    return Fourier(W / lengths[:, None], phase, stream.at("weight").normal(FEATURES))


def _polynomial(stream: Stream, a: int) -> Latent:
    """Draw a polynomial of degree two to four: all pure powers, and a few products."""
    degree = 2 + int(stream.at("degree").uniform(1).item() * 3)
    pure = [[power if place == at else 0 for place in range(a)] for at in range(a) for power in range(1, degree + 1)]
    picks = (stream.at("mixed").uniform(2 * a, a) * (degree + 1)).astype(np.int64).tolist()
    mixed = [row for row in picks if 2 <= sum(row) <= degree]
    powers = np.array(pure + mixed, dtype=np.int64)
    return Polynomial(powers, stream.at("weight").normal(len(powers)) / np.sqrt(powers.sum(-1)))


def _oscillating(stream: Stream, a: int) -> Latent:
    """Draw cosines of one to two periods across the cube, plus a quadratic bowl."""
    count = 2 * a
    most = 2.0 if a == 1 else 1.4 if a == 2 else 0.9
    directions = stream.at("direction").normal(a, count)
    directions = directions / np.sqrt((directions**2).sum(0))
    periods = 0.5 * most + most * stream.at("period").uniform(count)
    phase = 2 * math.pi * stream.at("phase").uniform(count)
    weight = 0.5 + stream.at("weight").uniform(count)
    bowl = Polynomial(2 * np.eye(a, dtype=np.int64), stream.at("bowl").normal(a))
    return Joined((Fourier(2 * math.pi * directions * periods, phase, weight), bowl), (1.0, 0.7))


def _steep(stream: Stream, a: int) -> Latent:
    """Draw a product or a sum of two steep functions; positive."""
    parts = []
    for number in range(2):
        at = stream.at("part", number)
        form = ("growth", "pole", "rate", "front")[int(at.at("form").uniform(1).item() * 4)]
        direction = at.at("direction").normal(a)
        sharpness = 2 + 3 * at.at("sharpness").uniform(1).item()
        parts.append(Steep(form, direction / np.abs(direction).sum(), sharpness))
    product = stream.at("product").uniform(1).item() < 0.5
    return Joined(tuple(parts), (1.0, 1.0 if product else 0.5), product)


MAKERS: dict[str, Callable[[Stream, int], Latent]] = {
    "gp": _gaussian_process,
    "polynomial": _polynomial,
    "oscillating": _oscillating,
    "steep": _steep,
}
"""From kinds to the functions that draw them."""


def draw(kind: str, stream: Stream, a: int, positive: bool) -> Latent:
    """Draw a function of `a` inputs with mean zero and standard deviation one, or positive with median one."""
    latent = MAKERS[kind](stream, a)
    values = latent(stream.at("standard").sobol(STANDARDIZING_POINTS, a))
    if kind == "steep":
        return Standard(latent, 0.0, float(median(values)))
    return Standard(latent, float(values.mean()), float(values.std(ddof=1)), 0.6 if positive else 0.0)


@dataclass(frozen=True, eq=False)
class Labelled:
    """A function some of whose inputs are choices: each label has a hidden place between 0 and 1."""

    latent: Latent
    places: tuple[Float64[ndarray, "q"] | None, ...]
    """By input, the place of each label; None for a number."""

    def __call__(self, U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b"]:
        moved = U.copy()
        for column, places in enumerate(self.places):
            if places is not None:
                moved[:, column] = places[np.rint(U[:, column] * (len(places) - 1)).astype(int)]
        return self.latent(moved)


def labelled(latent: Latent, seen: Sequence[Variable], stream: Stream) -> Latent:
    """Return a function with hidden places for the labels of the choices among its inputs; itself if there are none.

    The places are in another order for each function, so that no order of the labels helps.
    """
    if not any(each.is_choice for each in seen):
        return latent
    places: list[ndarray | None] = []
    for column, each in enumerate(seen):
        at = stream.at("labels", column)
        q = len(each.levels()) if each.is_choice else 1
        spread = (np.arange(q) + at.at("jitter").uniform(q)) / q
        places.append(spread[at.at("order").uniform(q).argsort()] if each.is_choice else None)
    return Labelled(latent, tuple(places))


@dataclass(frozen=True, eq=False)
class Patchwork:
    """A random black box: each output has its own inputs and units."""

    variables: tuple[Variable, ...]
    latents: tuple[Latent, ...]
    inputs: tuple[tuple[int, ...], ...]
    offsets: tuple[float, ...]
    units: tuple[float, ...]

    def __call__(self, *x: Number) -> Sequence[Number]:
        return on_arrays(self._outputs, x)

    def _outputs(self, x: list[ndarray]) -> list[ndarray]:
        U = np.stack(
            [
                np.log(value / v.lo) / math.log(v.hi / v.lo) if v.log else (value - v.lo) / (v.hi - v.lo)
                for value, v in zip(x, self.variables, strict=True)
            ],
            -1,
        )
        return [
            offset + unit * latent(U[:, list(seen)])
            for latent, seen, offset, unit in zip(self.latents, self.inputs, self.offsets, self.units, strict=True)
        ]
