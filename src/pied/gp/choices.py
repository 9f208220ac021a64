"""What an output can be modelled with, and what was chosen: kernel, trend, warp, scale of its inputs, a wave.

Candidates are {squared exponential, Matern 5/2, Matern 3/2} x {constant, linear, quadratic trend} x {no warp, log,
shifted log} x {inputs as they are, on a logarithmic scale}. The choice is data (`Choice`): it can be stored with a
trial, and a belief rebuilt from it with one fit. How it is made is in `selection`.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from numpy import ndarray

from pied.errors import SettingError, did_you_mean
from pied.gp import likelihood
from pied.gp.factors import roots
from pied.gp.kernels import KERNELS, TRENDS, View, polynomial
from pied.gp.likelihood import SPARE_ROWS, Tasks

WARPS = ("none", "log", "shifted log")
SCALES = ("plain", "log")
LEAST_RATIO = 5.0  # of upper to lower bound, from which on an input may be seen on a logarithmic scale
SHIFT = 0.05  # of the range: how far beyond the data a shifted log still reaches
PRICE = (
    4.0  # nats that each degree of the trend, a warp or a logarithmic scale must gain: the best of 54 looks too good
)
WAVE_PRICE = 20.0  # nats that a wave must gain: the best of hundreds of frequencies fits a dozen points by chance
GRAIN = 2.0**40  # data are rounded to 1/GRAIN, so that a change of units changes no bit of what follows
NEARLY_EXACT = 1e-10  # standardized variance of a known noise below which the nugget of an exact output covers it
MOST_COLUMNS = 100  # a larger trend basis is a regression of its own, not a trend
LOUDEST = 1e6  # largest known noise relative to the spread of the data: beyond, nothing is learned and squares overflow


@dataclass(frozen=True)
class Model:
    """What a belief may choose from, and how."""

    kernels: tuple[str, ...] = tuple(KERNELS)
    """Kernels to choose from."""
    trends: tuple[str, ...] = ("constant", "linear", "quadratic")
    """Trends to choose from; "none" is a zero mean after standardization (the paper's)."""
    warps: tuple[str, ...] = WARPS
    """Output warps to choose from."""
    scales: tuple[str, ...] = SCALES
    """Scales of the inputs to choose from: "log" is for inputs that range over a factor of five or more, where power
    laws become straight lines."""
    nugget: tuple[float, float] = (likelihood.EXACT_NUGGET, likelihood.EXACT_NUGGET)
    """Smallest and largest nugget of an exact output, relative to its process variance."""
    prior: bool = True
    """Whether length scales have a prior (MAP) or not (maximum likelihood)."""
    declustering: float | None = 0.03
    """Distance in the unit cube: the variance is not below its estimate from points this far apart. None: off."""
    waves: bool = True
    """Whether an output that nothing else explains may have a wave along one of its inputs: many regular basins."""
    hysteresis: float = 1.0
    """Nats by which a new choice must beat the current one."""
    finalists: int = 4
    """How many candidates are optimized at a selection beyond `always_refit` points, the best by leave-one-out at
    the current length scales, or at coarse ones when there are none; with fewer points all are."""
    reselect: int = 4
    """A new selection after this many new points; later, after the data have grown by an eighth."""
    always_refit: int = 40
    """Length scales are refitted with every point up to this many, ..."""
    refit: int = 3
    """... then after this many new points; later, after the data have grown by a thirtieth."""
    most_rows: int = 256
    """Choices and length scales are learned from at most so many points, far apart; the posterior uses all."""
    shared: int | None = 32
    """From this many outputs on, outputs with the same inputs and rows share kernel, trend, warp and length scales (not
    their variances). None: never."""

    def __post_init__(self) -> None:
        for word, given, known in (
            ("kernel", self.kernels, KERNELS),
            ("trend", self.trends, TRENDS),
            ("warp", self.warps, WARPS),
            ("scale", self.scales, SCALES),
        ):
            if not given:
                raise SettingError(f"a model needs at least one {word}")
            for name in given:
                if name not in known:
                    raise SettingError(f"unknown {word} '{name}'.{did_you_mean(name, known)}")


@dataclass(frozen=True)
class Choice:
    """What the belief chose for one output; plain data."""

    kernel: str
    trend: str
    warp: str
    scale: str
    theta: tuple[float, ...]
    """Logarithms of the d length scales (of inputs not seen: unused), of two more on a wave, then of the nugget."""
    selected: int
    """Rows at the last selection."""
    fitted: int
    """Rows at the last fit of the length scales."""
    waves: tuple[float, ...] = ()
    """Angular frequencies of the wave along each input of the unit cube; empty: none."""

    def spec(self, outputs: tuple[int, ...]) -> "Spec":
        """Return the choice as a candidate of some outputs."""
        return Spec(outputs, self.kernel, self.trend, self.warp, self.scale, self.waves)

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON-able data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Choice":
        """Rebuild a choice from `to_dict`."""
        return cls(**{**data, "theta": tuple(data["theta"]), "waves": tuple(data.get("waves", ()))})


@dataclass(frozen=True)
class Warp:
    """A monotone map of an output to the scale it is modelled on: w = sign log((sign y + offset) / unit), or w = y.

    The unit follows the output and is a power of two: other units change no bit of the logarithm.
    """

    name: str
    sign: float = 1.0
    offset: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, name: str, y: Float64[ndarray, "n"]) -> "Warp | None":
        """Return the warp of this name for these observations; None when it cannot take them."""
        unit = _binary_unit(y)
        if name == "none":
            return cls("none", unit=unit)
        low, high = float(y.min()), float(y.max())
        if name == "log":
            if not (low > 0 or high < 0) or not high > low:
                return None
            warp = cls(name, 1.0 if low > 0 else -1.0, unit=unit)
        else:
            if not (math.isfinite(high - low) and high > low):
                return None
            warp = cls(name, 1.0, SHIFT * (high - low) - low, unit)
        return warp if np.isfinite(warp.forward(y)).all() else None

    def forward(self, y: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Return w(y)."""
        return y if self.name == "none" else self.sign * np.log((self.sign * y + self.offset) / self.unit)

    def log_slopes(self, y: Float64[ndarray, "n"], spread: float) -> float:
        """Return sum log |dz/dv|, the Jacobian that makes densities of different warps comparable.

        Here z = w / spread is what is modelled and v = y / unit.
        """
        if self.name == "none":
            return -len(y) * math.log(spread / self.unit)
        return -float(np.log((self.sign * y + self.offset) / self.unit).sum()) - len(y) * math.log(spread)


def _binary_unit(y: Float64[ndarray, "n"]) -> float:
    """Return the power of two at the largest observation; one where all are zero."""
    largest = float(np.abs(y).max()) if y.size else 0.0
    return 2.0 ** (math.frexp(largest)[1] - 1) if largest > 0 and math.isfinite(largest) else 1.0


def standardization(w: Float64[ndarray, "n"]) -> tuple[float, float]:
    """Return location and spread; scaled first, so that 1e-300 and 1e308 neither vanish nor overflow."""
    largest = float(np.abs(w).max()) if w.size else 0.0
    if not largest > 0 or not math.isfinite(largest):
        return (float(w[0]) if w.size and math.isfinite(float(w[0])) else 0.0), 1.0
    location = float((w / largest).mean())
    away = w / largest - location
    widest = float(np.abs(away).max())
    if not widest > 1e-15:  # constant, to the last digit
        return location * largest, largest
    spread = widest * math.sqrt(float(((away / widest) ** 2).mean())) * largest
    return location * largest, spread if spread > 0 and math.isfinite(spread) else 1.0


def _standardized(w: Float64[ndarray, "n"], location: float, spread: float) -> Float64[ndarray, "n"]:
    """Return (w - location) / spread, shrunk first where the difference could overflow."""
    shrink = 0.25 if abs(location) + spread > 1e300 else 1.0
    return (shrink * w - shrink * location) / (shrink * spread)


def grained(numbers: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Round numbers of about one: points of the unit cube, standardized outputs."""
    return np.round(numbers * GRAIN) / GRAIN


class Spec(NamedTuple):
    """One candidate: outputs that share their hyperparameters, usually one, and what they could be modelled with."""

    outputs: tuple[int, ...]
    kernel: str
    trend: str
    warp: str
    scale: str
    waves: tuple[float, ...] = ()


def thetas(choices: Sequence[Choice]) -> Float64[ndarray, "B q"]:
    """Return the hyperparameters of some outputs side by side; where only others have a wave, zeros are put in."""
    most = max(len(choice.theta) for choice in choices)
    rows = [(*each.theta[:-1], *(0.0,) * (most - len(each.theta)), each.theta[-1]) for each in choices]
    return np.array(rows, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Observations:
    """What a fit works on: points, masks, and per output the observations on every scale it could be modelled on."""

    U: Float64[ndarray, "N d"]
    rows: Bool[ndarray, "m N"]
    active: Bool[ndarray, "m d"]
    ratios: Float64[ndarray, "d"]
    """Upper over lower bound of inputs that may be seen on a logarithmic scale; 1 for the others."""
    Y: Float64[ndarray, "N m"]
    noise: tuple[float | None, ...]
    model: Model
    warps: tuple[dict[str, tuple[Warp, float, float, float]], ...]
    """Per output and warp name: the warp, location, spread, sum of log slopes of the standardized map."""

    @classmethod
    def of(
        cls,
        U: Float64[ndarray, "N d"],
        Y: Float64[ndarray, "N m"],
        active: Bool[ndarray, "m d"],
        ratios: Float64[ndarray, "d"],
        noise: Sequence[float | None],
        model: Model,
    ) -> "Observations":
        """Prepare what was told."""
        rows = np.isfinite(Y).T
        warps = []
        for j in range(Y.shape[1]):
            y = Y[rows[j], j]
            table = {}
            for name in model.warps if not noise[j] else ("none",):
                warp = Warp.of(name, y) if len(y) else Warp("none") if name == "none" else None
                if warp is not None:
                    location, spread = standardization(warp.forward(y))
                    table[name] = (warp, location, spread, warp.log_slopes(y, spread))
            if not table:
                table["none"] = (Warp("none"), *standardization(y), 0.0)
            warps.append(table)
        return cls(grained(U), rows, active, ratios, Y, tuple(noise), model, tuple(warps))

    def count(self, j: int) -> int:
        """Rows of output j."""
        return int(self.rows[j].sum())

    def blocks(self) -> list[list[tuple[int, ...]]]:
        """Return the outputs in groups that share their hyperparameters, groups of equal size together."""
        if self.model.shared is None or len(self.rows) < self.model.shared:
            return [[(j,) for j in range(len(self.rows))]]
        alike: dict[tuple[Any, ...], list[int]] = {}
        for j in range(len(self.rows)):
            noise = self.noise[j]
            mode = "learned" if noise is None else "exact" if noise == 0 else "known"
            alike.setdefault((mode, *self.rows[j].tolist(), *self.active[j].tolist()), []).append(j)
        sized: dict[int, list[tuple[int, ...]]] = {}
        for group in alike.values():
            sized.setdefault(len(group), []).append(tuple(group))
        return list(sized.values())

    def thinned(self) -> "Observations":
        """Return the observations from which choices are learned: at most `most_rows` points, far from each other."""
        if len(self.U) <= self.model.most_rows:
            return self
        kept = _spread_out(self.U, self.model.most_rows)
        rows, Y = self.rows[:, kept], self.Y[kept]
        warps = []
        for j, table in enumerate(self.warps):
            y = Y[rows[j], j]
            warps.append(
                {
                    name: (warp, location, spread, warp.log_slopes(y, spread))
                    for name, (warp, location, spread, _) in table.items()
                }
            )
        return replace(self, U=self.U[kept], rows=rows, Y=Y, warps=tuple(warps))

    def handicap(self, spec: "Spec") -> float:
        """Return what is added to a candidate's density: the log slopes of its warp, less the price of its parts."""
        parts = TRENDS[spec.trend] + (spec.warp != "none") + (spec.scale != "plain")
        price = PRICE * parts + WAVE_PRICE * bool(spec.waves)
        return sum(self.warps[j][spec.warp][3] for j in spec.outputs) - price * len(spec.outputs)

    def trends(self, j: int, n: int) -> list[str]:
        """Trends that output j can have with n rows."""
        a = int(self.active[j].sum())
        sizes = {"none": 0, "constant": 1, "linear": 1 + a, "quadratic": 1 + a + a * (a + 1) // 2}
        low = min(sizes[trend] for trend in self.model.trends)
        return [
            trend
            for trend in self.model.trends
            if sizes[trend] == low or (sizes[trend] + SPARE_ROWS <= n and sizes[trend] <= MOST_COLUMNS)
        ]

    def candidates(self, outputs: tuple[int, ...]) -> list["Spec"]:
        """What these outputs could be modelled with, given their rows and inputs."""
        first = outputs[0]
        plain = "plain" in self.model.scales
        can_log = "log" in self.model.scales and bool(((self.ratios >= LEAST_RATIO) & self.active[first]).any())
        scales = ["plain"] * (plain or not can_log) + ["log"] * can_log
        return [
            Spec(outputs, kernel, trend, warp, scale)
            for kernel in self.model.kernels
            for trend in self.trends(first, self.count(first))
            for warp in self.warps[first]
            if all(warp in self.warps[j] for j in outputs)
            for scale in scales
        ]

    def view(self, specs: Sequence["Spec"]) -> View:
        """Return how each task sees points."""
        plain = np.ones_like(self.ratios)
        large = np.where(self.ratios >= LEAST_RATIO, self.ratios, 1.0)
        waved = None
        if any(spec.waves for spec in specs):
            waved = np.array([spec.waves or (0.0,) * self.U.shape[1] for spec in specs])
        return View(np.stack([large if spec.scale == "log" else plain for spec in specs]), waved)

    def tasks(self, specs: Sequence["Spec"]) -> tuple[Tasks, Float64[ndarray, "B p c"]]:
        """Build a batch, one task per candidate, all with equally many outputs; and the baselines taken off."""
        degree = max(TRENDS[spec.trend] for spec in specs)
        first = [spec.outputs[0] for spec in specs]
        rows = self.rows[first]
        y = np.zeros((len(specs), len(self.U), len(specs[0].outputs)))
        noise, nugget = [], []
        standardized: dict[tuple[int, str], tuple[ndarray, float, tuple[float, float]]] = {}
        for i, spec in enumerate(specs):
            for place, j in enumerate(spec.outputs):
                if (j, spec.warp) not in standardized:
                    standardized[j, spec.warp] = self._standardized(j, spec.warp)
                y[i, self.rows[j], place] = standardized[j, spec.warp][0]
            noise.append([standardized[j, spec.warp][1] for j in spec.outputs])
            bounds = [standardized[j, spec.warp][2] for j in spec.outputs]
            nugget.append((max(low for low, _ in bounds), max(high for _, high in bounds)))
        columns = np.stack([likelihood.columns_of(spec.trend, self.active[spec.outputs[0]], degree) for spec in specs])
        columns &= rows.any(1, keepdims=True)  # nothing told, no trend to estimate
        view = self.view(specs)
        V = view.scaled(self.U)
        basis = polynomial(V, degree)
        active = self.active[first].astype(np.float64)
        if view.waves is not None:
            active = np.concatenate([active, np.repeat((view.waves != 0).any(1, keepdims=True), 2, 1)], 1)
        y, baseline = _detrended(y, basis, rows.astype(np.float64), columns.astype(np.float64))
        return Tasks(
            U=view.whole(self.U, V),
            basis=basis,
            y=y,
            rows=rows.astype(np.float64),
            active=active,
            columns=columns.astype(np.float64),
            kernel=np.array([KERNELS[spec.kernel] for spec in specs]),
            noise=np.array(noise),
            nugget=np.log(np.array(nugget)),
            prior=1.0 if self.model.prior else 0.0,
        ), baseline

    def _standardized(self, j: int, name: str) -> tuple[ndarray, float, tuple[float, float]]:
        """Return what output j was observed to be on a scale, its noise variance there, and the range of its nugget."""
        warp, location, spread, _ = self.warps[j][name]
        z = _standardized(warp.forward(self.Y[self.rows[j], j]), location, spread)
        known = self.noise[j]
        relative = float(f"{min(known / spread, LOUDEST):.12g}") if known else 0.0  # the same in all units
        is_exact = known is not None and relative**2 < NEARLY_EXACT
        low, high = self.model.nugget
        nugget = (low, high) if is_exact else (max(low, likelihood.QUIETEST), likelihood.NOISIEST)
        return grained(z), 0.0 if is_exact else relative**2, nugget


def _spread_out(U: Float64[ndarray, "N d"], count: int) -> Int[ndarray, "c"]:
    """Return the indices of so many points, each the farthest from those before it; the last told comes first."""
    kept = [len(U) - 1]
    distance = ((U - U[-1]) ** 2).sum(1)
    for _ in range(count - 1):
        kept.append(int(distance.argmax()))
        distance = np.minimum(distance, ((U - U[kept[-1]]) ** 2).sum(1))
    return np.array(sorted(set(kept)))


def _detrended(
    y: Float64[ndarray, "B N c"],
    basis: Float64[ndarray, "*B N p"],
    rows: Float64[ndarray, "B N"],
    columns: Float64[ndarray, "B p"],
) -> tuple[Float64[ndarray, "B N c"], Float64[ndarray, "B p c"]]:
    """Take the ordinary least-squares trend off the observations.

    Kriging with a trend does not change under this, P F = 0, but its arithmetic does: K^-1 has entries of 1e8, and of
    an output that its trend explains exactly nothing but rounding would be left. Refined twice, so that the rest is
    small to the last digit.
    """
    F = basis * rows[:, :, None] * columns[:, None, :]
    A = F.swapaxes(1, 2) @ F
    p = A.shape[1]
    A.reshape(len(A), p * p)[:, :: p + 1] += 1.0 - columns + 1e-12
    R, failed = roots(A)
    use = columns[:, :, None] * ~failed[:, None, None]
    baseline = np.zeros((*columns.shape, y.shape[2]))
    rest = y
    for _ in range(3):
        baseline = baseline + R.swapaxes(1, 2) @ (R @ (F.swapaxes(1, 2) @ rest)) * use
        rest = y - F @ baseline
    return rest, baseline
