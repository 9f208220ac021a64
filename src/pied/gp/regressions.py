"""The regressions that a selection compares: which models the data allow, and what each must gain."""

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from pied.gp.choices import Candidate, ModelChoice
from pied.gp.drift import MODELLED, Drift, least_argument, standardized, with_models
from pied.gp.factors import add_to_diagonal, roots
from pied.gp.features.view import View
from pied.gp.kernels import EVERY_TREND, KERNELS, polynomial
from pied.gp.likelihood import SPARE_ROWS, Tasks, columns_of
from pied.gp.observations import Observations
from pied.shapes import Float64

LEAST_RATIO = 5.0  # of upper to lower bound, from which on an input may be seen on a logarithmic scale
PART_PRICE = 4.0  # nats that each degree of the trend, a warp or a log scale must gain: the best of 54 looks too good
WAVE_PRICE = 20.0  # nats that a wave must gain: the best of hundreds of frequencies fits a dozen points by chance
MOST_COLUMNS = 100  # of a trend: a larger basis is a regression of its own
LEAST_SQUARES_NUGGET = 1e-12  # added to F'F, so that a trend that points cannot tell apart is still solved for
REFINEMENTS = 3  # of a least-squares trend, so that what it leaves is small to the last digit


def trends(data: Observations, j: int, n: int) -> list[str]:
    """Return the trends that output j can have with n rows."""
    a = int(data.active[j].sum())
    sizes = {"none": 0, "constant": 1, "linear": 1 + a, "quadratic": 1 + a + a * (a + 1) // 2}
    if data.coding is not None:
        for trend in ("linear", "quadratic"):
            sizes[trend] = int((columns_of(trend, data.active[j], 2) & data.coding.columns(data.U[data.rows[j]])).sum())
    smallest = min(sizes[trend] for trend in data.model.trends)
    allowed = data.model.trends
    if data.has_model(j) and "constant" in allowed:
        sizes |= {"model": sizes["constant"], "model, linear": sizes["linear"], "scaled model": sizes["constant"] + 1}
        allowed = ("model", "model, linear", "scaled model", *allowed)
    return [
        trend
        for trend in allowed
        if sizes[trend] == smallest or (sizes[trend] + SPARE_ROWS <= n and sizes[trend] <= MOST_COLUMNS)
    ]


def candidates(data: Observations, outputs: tuple[int, ...]) -> list[Candidate]:
    """Return what these outputs could be modelled with, given their rows and inputs."""
    first = outputs[0]
    is_plain = "plain" in data.model.scales
    can_log = "log" in data.model.scales and bool(((data.ratios >= LEAST_RATIO) & data.active[first]).any())
    scales = ["plain"] * (is_plain or not can_log) + ["log"] * can_log
    return [
        Candidate(outputs, kernel, trend, warp, scale)
        for kernel in data.model.kernels
        for trend in trends(data, first, data.count(first))
        for warp in data.scales[first]
        if all(warp in data.scales[j] for j in outputs)
        for scale in scales
    ]


def handicap(data: Observations, candidate: Candidate) -> float:
    """Return what is added to a candidate's density: the log slopes of its warp, less the price of its parts."""
    slopes = sum(data.scales[j][candidate.warp].log_slopes for j in candidate.outputs)
    return slopes - price(candidate) * len(candidate.outputs)


def price(model: Candidate | ModelChoice) -> float:
    """Return the nats that the parts of a model must gain in each output."""
    parts = (
        EVERY_TREND[model.trend] + (model.trend == "scaled model") + (model.warp != "none") + (model.scale != "plain")
    )
    return PART_PRICE * parts + WAVE_PRICE * bool(model.waves)


def view(data: Observations, chosen: Sequence[Candidate]) -> View:
    """Return how each candidate sees points."""
    plain = np.ones_like(data.ratios)
    large = np.where(data.ratios >= LEAST_RATIO, data.ratios, 1.0)
    ratios = np.stack([large if each.scale == "log" else plain for each in chosen])
    none = (0.0,) * len(data.ratios)
    has_waves = any(each.waves for each in chosen)
    return View(ratios, np.array([each.waves or none for each in chosen]) if has_waves else None)


def regressions(data: Observations, chosen: Sequence[Candidate]) -> tuple[Tasks, Float64[ndarray, "B p c"]]:
    """Return one task per candidate, all with equally many outputs, and the least-squares trends taken off."""
    degree = max(EVERY_TREND[each.trend] for each in chosen)
    first = [each.outputs[0] for each in chosen]
    rows = data.rows[first]
    columns = np.stack([columns_of(each.trend, data.active[each.outputs[0]], degree) for each in chosen])
    columns &= rows.any(1, keepdims=True)  # without data there is no trend to estimate
    if data.coding is not None:
        allowed = [data.coding.columns(data.U[data.rows[j]]) for j in first]
        columns &= np.stack(allowed)[:, : columns.shape[1]]
    seen = view(data, chosen)
    V = seen.scaled(data.U)
    basis = polynomial(V, degree)
    active = data.active[first].astype(np.float64)
    y, noise, nugget = _standardized(data, chosen)
    if data.given is not None:
        known, centre = drifts(data, chosen)
        y = y - known[:, :, None] * rows[:, :, None]
        is_scaled = np.array([each.trend == "scaled model" for each in chosen])
        is_scaled &= np.ptp(known, axis=1) > 0
        if is_scaled.any():
            basis = with_models(basis, known, is_scaled, centre)
            columns = np.concatenate([columns, is_scaled[:, None]], 1)
    y, baseline = _detrended(y, basis, rows.astype(np.float64), columns.astype(np.float64))
    return Tasks(
        U=seen.whole(data.U, V),
        basis=basis,
        y=y,
        rows=rows.astype(np.float64),
        active=seen.active(active),
        columns=columns.astype(np.float64),
        kernel=np.array([KERNELS[each.kernel] for each in chosen]),
        noise=noise,
        nugget=np.log(nugget),
        prior=1.0 if data.model.prior else 0.0,
        scatter=_scatter(data, chosen),
        ties=None if data.coding is None or not data.coding.choices else data.coding.ties,
        together=data.together,
        longest=_longest(data, seen),
        share=None if data.together is None else np.stack([data.offset_shares(j) for j in first]),
    ), baseline


def _longest(data: Observations, seen: View) -> Float64[ndarray, "e"] | None:
    """Return the longest length scale along what kernels see; None: as long as usual."""
    if data.longest is None or not np.isfinite(data.longest).any():
        return None
    return data.longest if seen.waves is None else np.append(data.longest, [np.inf, np.inf])


def drifts(data: Observations, chosen: Sequence[Candidate]) -> tuple[Float64[ndarray, "B N"], Float64[ndarray, "B"]]:
    """Return the models of candidates that have one at all points, standardized, and their means at told ones."""
    known = np.zeros((len(chosen), len(data.U)))
    for i, each in enumerate(chosen):
        j = each.outputs[0]
        if data.given is not None and each.trend in MODELLED and data.has_model(j):
            scale = data.scales[j][each.warp]
            known[i], _ = standardized(scale, data.given[:, j], least_argument(scale.warp, data.values(j)))
    rows = data.rows[[each.outputs[0] for each in chosen]]
    return known, (known * rows).sum(1) / np.maximum(rows.sum(1), 1)


def drift(data: Observations, chosen: Sequence[Candidate]) -> Drift | None:
    """Return the models of candidates at any point; None if none has one."""
    used = np.array([each.trend in MODELLED and data.has_model(each.outputs[0]) for each in chosen])
    if data.known is None or not used.any():
        return None
    outputs = tuple(each.outputs[0] for each in chosen)
    scales = tuple(data.scales[j][each.warp] for j, each in zip(outputs, chosen, strict=True))
    pairs = zip(outputs, scales, strict=True)
    least = tuple(least_argument(scale.warp, data.values(j)) for j, scale in pairs)
    known, centre = drifts(data, chosen)
    scaled = np.array([each.trend == "scaled model" for each in chosen]) & (np.ptp(known, axis=1) > 0)
    return Drift(data.known, outputs, scales, least, used, scaled, centre, data.coding)


def _scatter(data: Observations, chosen: Sequence[Candidate]) -> Float64[ndarray, "B N"] | None:
    """Return the noise variances of the values of candidates, in usual ones; None: all are usual."""
    own = [data.scales[each.outputs[0]][each.warp].scatter for each in chosen]
    if data.scatter is None and all(each is None for each in own):
        return None
    usual = np.ones(data.rows.shape) if data.scatter is None else data.scatter
    return np.stack([usual[each.outputs[0]] if row is None else row for each, row in zip(chosen, own, strict=True)])


def _standardized(
    data: Observations, chosen: Sequence[Candidate]
) -> tuple[Float64[ndarray, "B N c"], Float64[ndarray, "B c"], Float64[ndarray, "B 2"]]:
    """Return the told values of candidates on their scales, the known noise variances, the ranges of the nuggets."""
    pairs = {(j, each.warp) for each in chosen for j in each.outputs}
    values = {(j, warp): data.scales[j][warp].forward(data.values(j)) for j, warp in pairs}
    noises = {(j, warp): data.noise_variance(j, warp) for j, warp in pairs}
    y = np.zeros((len(chosen), len(data.U), len(chosen[0].outputs)))
    noise, nugget = [], []
    for i, each in enumerate(chosen):
        for place, j in enumerate(each.outputs):
            y[i, data.rows[j], place] = values[j, each.warp]
            if data.latent is not None:
                y[i, :, place] = np.where(np.isfinite(data.latent[j]), data.latent[j], y[i, :, place])
        own = [noises[j, each.warp] for j in each.outputs]
        noise.append([variance for variance, _ in own])
        nugget.append([max(low for _, (low, _) in own), max(high for _, (_, high) in own)])
    return y, np.array(noise), np.array(nugget)


def _detrended(
    y: Float64[ndarray, "B N c"],
    basis: Float64[ndarray, "*B N p"],
    rows: Float64[ndarray, "B N"],
    columns: Float64[ndarray, "B p"],
) -> tuple[Float64[ndarray, "B N c"], Float64[ndarray, "B p c"]]:
    """Take the ordinary least-squares trend off the told values.

    P F = 0, so kriging with a trend does not change. Its arithmetic does: K^-1 has entries of 1e8, and without this
    step an output that its trend explains exactly would be lost in rounding errors.
    """
    used = np.asarray(columns.any(0))  # of a hundred labels there are thousands of products, hardly any of them in use
    F = basis[..., used] * rows[:, :, None] * columns[:, None, used]
    A = F.swapaxes(1, 2) @ F
    add_to_diagonal(A, 1.0 - columns[:, used] + LEAST_SQUARES_NUGGET)
    R, failed = roots(A)
    use = columns[:, used, None] * ~failed[:, None, None]
    baseline = np.zeros((*use.shape[:2], y.shape[2]))
    rest = y
    for _ in range(REFINEMENTS):
        baseline = baseline + R.swapaxes(1, 2) @ (R @ (F.swapaxes(1, 2) @ rest)) * use
        rest = y - F @ baseline
    whole = np.zeros((*columns.shape, y.shape[2]))
    whole[:, used] = baseline
    return rest, whole
