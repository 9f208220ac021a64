"""What each output is modelled with: kernel, trend, warp and scale of its inputs, chosen together.

Candidates are {squared exponential, Matern 5/2, Matern 3/2} x {constant, linear, quadratic trend} x {no warp, log,
shifted log} x {inputs as they are, on a logarithmic scale}; the score is the leave-one-out log density of what was
told, in natural units, with hysteresis. The choice is data (`Choice`): it can be stored with a trial, and a belief
rebuilt from it with one fit.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied import kriging
from pied.errors import SettingError, did_you_mean
from pied.kriging import KERNELS, TRENDS, Tasks

WARPS = ("none", "log", "shifted log")
SCALES = ("plain", "log")
LEAST_RATIO = 5.0  # of upper to lower bound, from which on an input may be seen on a logarithmic scale
SHIFT = 0.05  # of the range: how far beyond the data a shifted log still reaches
PRICE = (
    4.0  # nats that each degree of the trend, a warp or a logarithmic scale must gain: the best of 54 looks too good
)
GRAIN = 2.0**40  # standardized data are rounded to 1/GRAIN, so that a change of units changes no bit of what follows
SPARE_ROWS = 3  # a trend needs this many rows more than it has columns
NEARLY_EXACT = 1e-7  # standardized variance of a known noise below which the nugget of an exact output covers it
MOST_COLUMNS = 100  # a larger trend basis is a regression of its own, not a trend
STARTS = (0.1, 0.3, 1.0, 3.0)  # isotropic length scales tried at a first selection, in units of sqrt(inputs)
RESTARTS = (0.5, 1.0, 2.0)  # multiples of the current length scales tried at later ones, beside one long scale
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
    nugget: tuple[float, float] = (kriging.EXACT_NUGGET, kriging.EXACT_NUGGET)
    """Smallest and largest nugget of an exact output, relative to its process variance."""
    prior: bool = True
    """Whether length scales have a prior (MAP) or not (maximum likelihood)."""
    declustering: float | None = 0.03
    """Distance in the unit cube: the variance is not below its estimate from points this far apart. None: off."""
    hysteresis: float = 1.0
    """Nats by which a new choice must beat the current one."""
    finalists: int = 9
    """How many candidates are optimized at a selection beyond `always_refit` points, the best by leave-one-out at
    coarse length scales; with fewer points all are."""
    reselect: int = 4
    """A new selection after this many new points."""
    always_refit: int = 40
    """Length scales are refitted with every point up to this many, ..."""
    refit: int = 3
    """... then after this many new points."""

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
    """Logarithms of the d length scales (of inputs not seen: unused), then of the nugget."""
    selected: int
    """Rows at the last selection."""
    fitted: int
    """Rows at the last fit of the length scales."""

    def spec(self, output: int) -> "Spec":
        """Return the choice as a candidate of an output."""
        return Spec(output, self.kernel, self.trend, self.warp, self.scale)

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON-able data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Choice":
        """Rebuild a choice from `to_dict`."""
        return cls(**{**data, "theta": tuple(data["theta"])})


@dataclass(frozen=True)
class Warp:
    """A monotone map between an output and the scale it is modelled on: w = sign log(sign y + offset), or w = y."""

    name: str
    sign: float = 1.0
    offset: float = 0.0

    @classmethod
    def of(cls, name: str, y: Float64[Tensor, "n"]) -> "Warp | None":
        """Return the warp of this name for these observations; None when it cannot take them."""
        if name == "none":
            return cls("none")
        low, high = float(y.min()), float(y.max())
        if name == "log":
            if not (low > 0 or high < 0) or not high > low:
                return None
            warp = cls(name, 1.0 if low > 0 else -1.0)
        else:
            if not (math.isfinite(high - low) and high > low):
                return None
            warp = cls(name, 1.0, SHIFT * (high - low) - low)
        return warp if bool(torch.isfinite(warp.forward(y)).all()) else None

    def forward(self, y: Float64[Tensor, "n"]) -> Float64[Tensor, "n"]:
        """Return w(y)."""
        return y if self.name == "none" else self.sign * torch.log(self.sign * y + self.offset)

    def log_slope(self, y: Float64[Tensor, "n"]) -> float:
        """Return sum log |dw/dy|, the Jacobian that makes densities of different warps comparable."""
        return 0.0 if self.name == "none" else -float(torch.log(self.sign * y + self.offset).sum())


def standardization(w: Float64[Tensor, "n"]) -> tuple[float, float]:
    """Return location and spread; scaled first, so that 1e-300 and 1e308 neither vanish nor overflow."""
    largest = float(w.abs().max()) if w.numel() else 0.0
    if not largest > 0 or not math.isfinite(largest):
        return (float(w[0]) if w.numel() and math.isfinite(float(w[0])) else 0.0), 1.0
    location = float((w / largest).mean())
    away = w / largest - location
    widest = float(away.abs().max())
    if not widest > 1e-15:  # constant, to the last digit
        return location * largest, largest
    spread = widest * float((away / widest).square().mean().sqrt()) * largest
    return location * largest, spread if spread > 0 and math.isfinite(spread) else 1.0


def _standardized(w: Float64[Tensor, "n"], location: float, spread: float) -> Float64[Tensor, "n"]:
    """Return (w - location) / spread, shrunk first where the difference could overflow."""
    shrink = 0.25 if abs(location) + spread > 1e300 else 1.0
    return (shrink * w - shrink * location) / (shrink * spread)


class Spec(NamedTuple):
    """One candidate: an output and what it could be modelled with."""

    output: int
    kernel: str
    trend: str
    warp: str
    scale: str


def stretched(U: Float64[Tensor, "b d"], ratios: Float64[Tensor, "B d"]) -> Float64[Tensor, "*B b d"]:
    """Return points on the scales of each task: log(1 + (r - 1) u) / log r; one copy when none is stretched."""
    if not bool((ratios > 1.0).any()):
        return U
    r = ratios[:, None, :]
    return torch.where(r > 1.0, torch.log1p((r - 1.0) * U) / r.clamp_min(1.0 + 1e-9).log(), U)


def stretched_slopes(U: Float64[Tensor, "b d"], ratios: Float64[Tensor, "B d"]) -> Float64[Tensor, "B b d"]:
    """Return the derivatives of `stretched`."""
    r = ratios[:, None, :]
    slope = (r - 1.0) / ((1.0 + (r - 1.0) * U) * r.clamp_min(1.0 + 1e-9).log())
    return torch.where(r > 1.0, slope, 1.0)


@dataclass(frozen=True, eq=False)
class Observations:
    """What a fit works on: points, masks, and per output the observations on every scale it could be modelled on."""

    U: Float64[Tensor, "N d"]
    rows: Bool[Tensor, "m N"]
    active: Bool[Tensor, "m d"]
    ratios: Float64[Tensor, "d"]
    """Upper over lower bound of inputs that may be seen on a logarithmic scale; 1 for the others."""
    Y: Float64[Tensor, "N m"]
    noise: tuple[float | None, ...]
    model: Model
    warps: tuple[dict[str, tuple[Warp, float, float, float]], ...]
    """Per output and warp name: the warp, location, spread, sum of log slopes of the standardized map."""

    @classmethod
    def of(
        cls,
        U: Float64[Tensor, "N d"],
        Y: Float64[Tensor, "N m"],
        active: Bool[Tensor, "m d"],
        ratios: Float64[Tensor, "d"],
        noise: Sequence[float | None],
        model: Model,
    ) -> "Observations":
        """Prepare what was told."""
        rows = torch.isfinite(Y).T
        warps = []
        for j in range(Y.shape[1]):
            y = Y[rows[j], j]
            table = {}
            for name in model.warps if not noise[j] else ("none",):
                warp = Warp.of(name, y) if len(y) else Warp("none") if name == "none" else None
                if warp is not None:
                    location, spread = standardization(warp.forward(y))
                    table[name] = (warp, location, spread, warp.log_slope(y) - len(y) * math.log(spread))
            if not table:
                table["none"] = (Warp("none"), *standardization(y), 0.0)
            warps.append(table)
        return cls(U, rows, active, ratios, Y, tuple(noise), model, tuple(warps))

    def count(self, j: int) -> int:
        """Rows of output j."""
        return int(self.rows[j].sum())

    def handicap(self, spec: "Spec") -> float:
        """Return what is added to a candidate's density: the log slopes of its warp, less the price of its parts."""
        parts = TRENDS[spec.trend] + (spec.warp != "none") + (spec.scale != "plain")
        return self.warps[spec.output][spec.warp][3] - PRICE * parts

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

    def candidates(self, j: int) -> list["Spec"]:
        """What output j could be modelled with, given its rows and inputs."""
        plain = "plain" in self.model.scales
        can_log = "log" in self.model.scales and bool(((self.ratios >= LEAST_RATIO) & self.active[j]).any())
        scales = ["plain"] * (plain or not can_log) + ["log"] * can_log
        return [
            Spec(j, kernel, trend, warp, scale)
            for kernel in self.model.kernels
            for trend in self.trends(j, self.count(j))
            for warp in self.warps[j]
            for scale in scales
        ]

    def stretch(self, specs: Sequence["Spec"]) -> Float64[Tensor, "B d"]:
        """Return the ratio by which each task sees each input on a logarithmic scale; 1: as it is."""
        return torch.stack(
            [
                torch.where(self.ratios >= LEAST_RATIO, self.ratios, 1.0)
                if spec.scale == "log"
                else torch.ones_like(self.ratios)
                for spec in specs
            ]
        )

    def tasks(self, specs: Sequence["Spec"]) -> tuple[Tasks, Float64[Tensor, "B p"]]:
        """Build a batch, one task per candidate, and the baselines taken off the observations."""
        degree = max(TRENDS[spec.trend] for spec in specs)
        index = [spec.output for spec in specs]
        rows = self.rows[index]
        y = torch.zeros(len(specs), len(self.U), dtype=self.U.dtype, device=self.U.device)
        noise, nugget = [], []
        for i, (j, _, _, name, _) in enumerate(specs):
            warp, location, spread, _ = self.warps[j][name]
            told = self.rows[j]
            z = _standardized(warp.forward(self.Y[told, j]), location, spread)
            y[i, told] = torch.round(z * GRAIN) / GRAIN
            known = self.noise[j]
            relative = float(f"{min(known / spread, LOUDEST):.12g}") if known else 0.0  # the same in all units
            is_exact = known is not None and relative**2 < NEARLY_EXACT
            noise.append(0.0 if is_exact else relative**2)
            low, high = self.model.nugget
            nugget.append((low, high) if is_exact else (max(low, kriging.QUIETEST), kriging.NOISIEST))
        columns = torch.stack([kriging.columns_of(spec.trend, self.active[spec.output], degree) for spec in specs])
        columns &= rows.any(1, keepdim=True)  # nothing told, no trend to estimate
        V = stretched(self.U, self.stretch(specs))
        basis = kriging.polynomial(V, degree)
        y, baseline = _detrended(y, basis, rows.to(self.U.dtype), columns.to(self.U.dtype))
        return Tasks(
            U=V,
            basis=basis,
            y=y,
            rows=rows.to(self.U.dtype),
            active=self.active[index].to(self.U.dtype),
            columns=columns.to(self.U.dtype),
            kernel=self.U.new_tensor([KERNELS[spec.kernel] for spec in specs]),
            noise=self.U.new_tensor(noise),
            nugget=self.U.new_tensor(nugget).log(),
            prior=1.0 if self.model.prior else 0.0,
        ), baseline


def _detrended(
    y: Float64[Tensor, "B N"],
    basis: Float64[Tensor, "*B N p"],
    rows: Float64[Tensor, "B N"],
    columns: Float64[Tensor, "B p"],
) -> tuple[Float64[Tensor, "B N"], Float64[Tensor, "B p"]]:
    """Take the ordinary least-squares trend off the observations.

    Kriging with a trend does not change under this, P F = 0, but its arithmetic does: K^-1 has entries of 1e8, and of
    an output that its trend explains exactly nothing but rounding would be left. Refined twice, so that the rest is
    small to the last digit.
    """
    F = basis * rows[:, :, None] * columns[:, None, :]
    A = F.mT @ F
    A.diagonal(dim1=1, dim2=2).add_(1.0 - columns + 1e-12)
    L, failed = torch.linalg.cholesky_ex(A)
    L = torch.where((failed > 0)[:, None, None], torch.eye(A.shape[-1], dtype=A.dtype, device=A.device), L)
    use = (failed == 0).to(y.dtype)[:, None]
    baseline = torch.zeros_like(columns)
    rest = y
    for _ in range(3):
        baseline = baseline + torch.cholesky_solve(F.mT @ rest[:, :, None], L)[:, :, 0] * columns * use
        rest = y - (F @ baseline[:, :, None])[:, :, 0]
    return rest, baseline


def choose(data: Observations, previous: Sequence[Choice | None]) -> list[Choice]:
    """Select models and fit length scales where the schedule says so; keep the rest as it was."""
    choices = list(previous)
    to_select, to_refit = [], []
    for j, old in enumerate(previous):
        n = data.count(j)
        candidates = data.candidates(j)
        is_due = old is not None and n - old.selected >= data.model.reselect and len(candidates) > 1
        if old is None or is_due or old.spec(j) not in candidates or data.trends(j, n) != data.trends(j, old.selected):
            to_select.append(j)
        elif n > old.fitted and (n <= data.model.always_refit or n - old.fitted >= data.model.refit):
            to_refit.append(j)
    if to_select:
        _select(data, to_select, choices)
    if to_refit:
        _refit(data, to_refit, choices)
    return [choice for choice in choices if choice is not None]


SELECTION_STEPS = 40  # BFGS iterations for the finalists of a selection ...
REFIT_STEPS = 20  # ... and for a refit, which starts close


def _select(data: Observations, outputs: list[int], choices: list[Choice | None]) -> None:
    """Screen every candidate at coarse length scales, optimize the best few, keep the best by leave-one-out."""
    specs = [spec for j in outputs for spec in data.candidates(j)]
    tasks, _ = data.tasks(specs)
    theta = _best_starts(data, specs, tasks, choices)
    screened = kriging.evaluate(tasks, theta, with_slope=False).density
    finalists = []
    for j in outputs:
        own = [i for i, spec in enumerate(specs) if spec.output == j]
        own.sort(key=lambda i: -(float(screened[i]) + data.handicap(specs[i])))
        most = data.model.finalists if data.count(j) > data.model.always_refit else len(own)
        kept = own[:most]
        kept += [i for i in own[most:] if _is_same(choices[j], specs[i])]
        finalists += kept
    index = torch.tensor(finalists, device=theta.device)
    best_theta, fit = kriging.optimize(tasks.at(index), theta[index], SELECTION_STEPS)
    for j in outputs:
        scores = {}
        for row, i in enumerate(finalists):
            if specs[i].output == j:
                bonus = data.model.hysteresis * _is_same(choices[j], specs[i])
                scores[row] = float(fit.density[row]) + data.handicap(specs[i]) + bonus
        row = max(scores, key=lambda each: (math.isfinite(scores[each]), scores[each]))
        n = data.count(j)
        choices[j] = Choice(*specs[finalists[row]][1:], tuple(best_theta[row].tolist()), n, n)


def _is_same(choice: Choice | None, spec: Spec) -> bool:
    """Whether a candidate is the current choice."""
    return choice is not None and choice.spec(spec.output) == spec


def _best_starts(
    data: Observations, specs: Sequence[Spec], tasks: Tasks, choices: Sequence[Choice | None]
) -> Float64[Tensor, "B q"]:
    """Return for each candidate the length scales of smallest loss among a few starts."""
    d = data.U.shape[1]
    starts = []
    for i, spec in enumerate(specs):
        j = spec.output
        root = math.sqrt(max(1, int(data.active[j].sum())))
        low, high = tasks.nugget[i].tolist()
        middle = [low] if low == high else [max(low, math.log(1e-6)), max(low, min(high, math.log(1e-2)))]
        old = choices[j]
        scales = [[math.log(scale * root)] * d for scale in (STARTS if old is None else STARTS[-1:])]
        if old is not None:
            scales += [[t + math.log(factor) for t in old.theta[:d]] for factor in RESTARTS]
            middle = middle if low == high else [old.theta[-1]]
        starts.append(torch.tensor([[*scale, nugget] for scale in scales for nugget in middle], dtype=data.U.dtype))
    counts = [len(each) for each in starts]
    theta = torch.cat(starts).to(data.U.device)
    index = torch.arange(len(specs), device=theta.device).repeat_interleave(torch.tensor(counts, device=theta.device))
    loss = kriging.evaluate(tasks.at(index), theta, with_slope=False).loss
    chosen, position = [], 0
    for count in counts:
        chosen.append(position + int(torch.argmin(loss[position : position + count])))
        position += count
    return theta[chosen]


def _refit(data: Observations, outputs: list[int], choices: list[Choice | None]) -> None:
    """Fit the length scales of the current choices again, from where they are."""
    current = [choice for j in outputs if (choice := choices[j]) is not None]
    specs = [old.spec(j) for j, old in zip(outputs, current, strict=True)]
    start = torch.tensor([old.theta for old in current], dtype=data.U.dtype, device=data.U.device)
    theta, fit = kriging.optimize(data.tasks(specs)[0], start, REFIT_STEPS)
    for row, (j, old) in enumerate(zip(outputs, current, strict=True)):
        fine = math.isfinite(float(fit.loss[row]))
        choices[j] = replace(old, theta=tuple(theta[row].tolist()) if fine else old.theta, fitted=data.count(j))
