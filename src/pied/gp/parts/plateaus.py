"""Censored values, known by a limit alone, as "below 0.05", and outputs with a plateau: a slip that is nothing until
a bed is spent, saturation, an overflow.

Such an output is y = min(max(z, low), high) of a smooth latent output z. A value on a plateau says of z only that it is
as far out, or farther. The values beside the plateaus are modelled as always; what those on them add is a probability,
whose posterior is that of expectation propagation. It becomes one uncertain value of z at each point, and predictions
of z are cut off at the plateaus.

Whether the output leads up to its plateaus, or drops to them from a cliff, is decided by evidence: by the probability
that z, known from the values beside, is beyond each plateau where it was told, against that of a border which says on
which side points are and nothing more.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import log_ndtr

from pied.gp.choices import ModelChoice, thetas
from pied.gp.kriging import Kriging
from pied.gp.observations import Observations, far_apart
from pied.gp.parts import border
from pied.gp.regressions import drifts, regressions
from pied.gp.selection import choose, is_selection_due, ranked, usable
from pied.gp.selection import chosen as selected
from pied.shapes import Float64, Int

SAME = 3  # points with the same least or largest value are on a plateau, if every variable has so many values there
SPARE = 2  # values beside the plateaus for each input, and so many more, from which the output is modelled
KEPT = 4.0  # nats that may be missing once an output was found to lead up to its plateaus
SOFTNESS = 1e-3  # of the latent output's deviation: how sharply a plateau begins
LARGEST_RATIO = 1e6  # variance of an uncertain value, in process variances, at most: it says nothing any more
LOST = -30.0  # nats: of plateaus that were found, with a smaller evidence they are looked for again at once
DECIDING = 96  # points, far from each other, by which it is decided whether an output leads up to its plateaus
MOST_SITES = 128  # points on plateaus, those nearest to their edges; the others are sure to be beyond


class Sites(NamedTuple):
    """What points on plateaus say of the latent output, as uncertain values, standardized."""

    rows: Int[ndarray, "p"]
    value: Float64[ndarray, "p"]
    variance: Float64[ndarray, "p"]
    """Of each value, in units of the process variance."""
    evidence: float
    """Logarithm of the probability that the latent output is beyond the plateaus at all of the points."""


Sides = Float64[ndarray, "N"]
"""Of an output at told points: -1 on the plateau of its least value, 1 on that of its largest, 0 on none."""


def _plateaus(data: Observations) -> dict[int, Sides]:
    """Return where exact outputs are on plateaus, of those that have some."""
    if not data.model.plateaus or data.is_sharing:
        return {}
    return {j: sides for j, noise in enumerate(data.noise) if noise == 0 and (sides := _sides(data, j)).any()}


def _sides(data: Observations, j: int) -> Sides:
    """Return on which plateau the values of an output are; on none where a value between them repeats itself."""
    y, told, settings = data.Y[:, j], data.rows[j], _settings(data, j)
    sides, between = np.zeros(len(y)), told.copy()
    for side, end in ((1.0, y[told].max(initial=-np.inf)), (-1.0, y[told].min(initial=np.inf))):
        same = told & (y == end)
        between &= ~same
        if _are_many(settings[same], settings[told]):
            sides[same] = side
    return np.zeros(len(y)) if _has_steps(settings[between], y[between]) else sides


def _settings(data: Observations, j: int) -> Float64[ndarray, "N a"]:
    """Return the variables of all points that an output depends on; of a choice, the place of its label."""
    if data.coding is None:
        return data.U[:, data.active[j]]
    return data.coding.settings(data.U)[:, np.unique(data.coding.origin[data.active[j]])]


def _are_many(settings: Float64[ndarray, "n a"], told: Float64[ndarray, "N a"]) -> bool:
    """Whether points with the same value differ in every variable, as far as told points do."""
    wanted = [min(SAME, len(np.unique(values))) for values in told.T]
    return max(wanted, default=0) == SAME and all(
        len(np.unique(values)) >= least for values, least in zip(settings.T, wanted, strict=True)
    )


def _has_steps(settings: Float64[ndarray, "n a"], y: Float64[ndarray, "n"]) -> bool:
    """Whether a value repeats itself where all variables differ: of a count, the largest value is one step of many."""
    values, counts = np.unique(y, return_counts=True)
    repeated = np.isin(y, values[counts > 1])
    varied = [len(np.unique(each)) > 1 for each in settings.T]
    settings, y = settings[repeated][:, varied], y[repeated]
    differs = (settings[:, None] != settings[None]).all(-1)
    return bool((differs & (y[:, None] == y[None])).any())


def _of(sides: Sides, clipped: Sequence[int]) -> Sides:
    """Return where an output is on some of its plateaus."""
    return np.where(np.isin(sides, clipped), sides, 0.0)


def chosen(data: Observations, old: Sequence[ModelChoice | None]) -> list[ModelChoice]:
    """Choose models, of outputs that lead up to plateaus by the values beside these."""
    old = usable(data, old)
    clipped: dict[int, ModelChoice] = {}
    beside = data
    for j, sides in _plateaus(data).items():
        was = old[j]
        was = was if was is not None and was.clipped and np.isin(was.clipped, sides).all() else None
        others = data if was is None else data.beside({j: _of(sides, was.clipped)})
        is_due = is_selection_due(others, (j,), old) or (was is not None and _is_lost(others, j, was, sides))
        found = _leading_up(data, j, sides, was) if is_due else was
        if found is not None:
            clipped[j], beside = found, beside.beside({j: _of(sides, found.clipped)})
    usual = [j for j in range(len(old)) if j not in clipped]
    starts = [each if each is None or not each.clipped else None for each in (old[j] for j in usual)]
    whole = dict(zip(usual, choose(data.of_outputs(usual), starts) if usual else [], strict=True))
    refitted = choose(beside.of_outputs(list(clipped)), list(clipped.values())) if clipped else []
    whole |= {j: replace(each, clipped=clipped[j].clipped) for j, each in zip(clipped, refitted, strict=True)}
    return [whole[j] for j in range(len(old))]


def _is_lost(data: Observations, j: int, choice: ModelChoice, sides: Sides) -> bool:
    """Whether values that were told since contradict the plateaus of an output."""
    return _sites(data, j, choice, _of(sides, choice.clipped), data.Y[:, j], least=LOST) is None


def _leading_up(data: Observations, j: int, sides: Sides, old: ModelChoice | None) -> ModelChoice | None:
    """Return how an output is modelled that leads up to its plateaus, or to one of them; None if it does to none.

    Args:
        data: What was told.
        j: The output.
        sides: On which plateau it is.
        old: What was chosen before, if it was found to lead up to plateaus.
    """
    told, everywhere = data.rows[j], sides
    if len(data.U) > DECIDING:
        kept = far_apart(data.U, DECIDING)
        data, sides = data.at(kept), sides[kept]
    ends = tuple(side for side in (-1, 1) if (sides == side).any())
    if (data.rows[j] & (sides == 0)).sum() < SPARE * (int(data.active[j].sum()) + 1):
        return None
    best: tuple[float, ModelChoice | None] = (0.0, None)
    for clipped in (ends, *((end,) for end in ends)) if len(ends) > 1 else (ends,):
        own = _of(sides, clipped)
        was = old if old is not None and old.clipped == clipped else None
        gain, choice = _gained(data.beside({j: own}), j, own, was)
        if choice is not None and gain > best[0]:
            count = int((told & (_of(everywhere, clipped) == 0)).sum())
            fitted = choice.fitted if len(told) <= DECIDING else 0  # those of a part are refitted at once
            best = gain, replace(choice, clipped=clipped, selected=count, fitted=fitted)
        if best[1] is not None and clipped == ends:
            break
    return best[1]


def _gained(data: Observations, j: int, sides: Sides, old: ModelChoice | None) -> tuple[float, ModelChoice | None]:
    """Return by how much an output that leads up to plateaus is likelier than one that drops to them, and its model.

    Args:
        data: Without the values on these plateaus.
        j: The output.
        sides: On which plateau it is.
        old: What was chosen before, if it was found to lead up to them.
    """
    found = ranked(data, [(j,)], [None] * j + [old])[0]
    borders = sum(
        border.log_evidence(data.U[rows][:, data.active[j]], sides[rows] == side)
        for side in np.unique(sides[sides != 0])
        for rows in [data.rows[j] | (sides == side)]
    )
    best, least = None, found[0].score + borders - KEPT * (old is not None)
    most = least
    for each in found:
        if not each.score > most:  # no probability is above 1
            break
        choice = replace(selected(each), selected=data.count(j), fitted=data.count(j))
        sites = _sites(data, j, choice, sides, data.Y[:, j], least=most - each.score)
        if sites is not None and each.score + sites.evidence > most:
            best, most = choice, each.score + sites.evidence
    return most - least, best


def allowed(data: Observations, choices: Sequence[ModelChoice]) -> list[ModelChoice]:
    """Return choices that were made for other data, without the plateaus and warps that these data do not have."""
    sides = _clipped(data, choices)
    beside = data.beside(sides)
    kept = [each if j in sides else replace(each, clipped=()) for j, each in enumerate(choices)]
    return [
        each if each.warp in own else replace(each, warp="none") for each, own in zip(kept, beside.scales, strict=True)
    ]


def _clipped(data: Observations, choices: Sequence[ModelChoice]) -> dict[int, Sides]:
    """Return where outputs that were found clipped are on their plateaus."""
    if not any(choice.clipped for choice in choices):
        return {}
    found = {j: _of(sides, choices[j].clipped) for j, sides in _plateaus(data).items()}
    return {j: sides for j, sides in found.items() if sides.any()}


def filled(data: Observations, choices: Sequence[ModelChoice]) -> Observations:
    """Return the data with uncertain values of outputs where clipped ones are on their plateaus, or beyond a limit."""
    every = _plateaus(data)
    sides = _clipped(data, choices)
    limited = {j: own for j in range(len(choices)) if data.cut is not None and (own := data.sides(j))[0].any()}
    if not sides and not limited:
        return data
    others, m = data.beside(sides), len(choices)
    scatter, latent = np.ones(data.rows.shape), np.full(data.rows.shape, np.nan)
    low, high, scales = np.full(m, -np.inf), np.full(m, np.inf), list(others.scales)
    for j in dict.fromkeys([*sides, *limited]):
        beyond_limits, limits = limited.get(j, (np.zeros(len(data.U)), data.Y[:, j]))
        own, at = sides.get(j, 0.0) + beyond_limits, np.where(beyond_limits != 0, limits, data.Y[:, j])
        sites = _sites(others, j, choices[j], own, at)
        for side, ends in ((-1.0, low), (1.0, high)) if j in sides else ():
            if (every[j] == side).any():
                ends[j] = data.Y[every[j] == side, j][0]
        if sites is not None:  # else rounding errors took over, and values on plateaus say nothing
            latent[j, sites.rows] = sites.value
            scatter[j, sites.rows] = sites.variance * np.exp(-choices[j].theta[-1])
            scales[j] = {name: each.scattered(sites.rows, scatter[j, sites.rows]) for name, each in scales[j].items()}
    rows = others.rows | np.isfinite(latent)
    found = replace(others, rows=rows, scales=tuple(scales), scatter=scatter, latent=latent)
    return replace(found, ends=(low, high)) if sides else found


def _sites(
    data: Observations,
    j: int,
    choice: ModelChoice,
    sides: Float64[ndarray, "N"],
    at: Float64[ndarray, "N"],
    least: float = -math.inf,
) -> Sites | None:
    """Return what the points on plateaus, or beyond limits, say, given the values beside them.

    With noise, it is the measurement that lies beyond: the probability of that is Phi(side (f - end) / noise).

    Args:
        data: Without these values.
        j: The output.
        choice: Its model.
        sides: On which side the values lie; 0: elsewhere.
        at: The plateaus and limits.
        least: Logarithm of a probability below which it is not worth while.

    Returns:
        None if the model cannot reach them, or their evidence is below the least one.
    """
    tasks, baseline = regressions(data, [choice.candidate((j,))])
    beside, on = tasks.rows[0] > 0, np.flatnonzero(sides)
    everywhere = replace(tasks, rows=(beside | (sides != 0)).astype(float)[None])
    with np.errstate(all="ignore"):
        ends = data.scales[j][choice.warp].forward(at[on])
        found = Kriging.of(everywhere, thetas([choice]), beside)
        if found is None:
            return None
        (mean, shape), variance = found.at(on), found.variance
        if beside.sum() <= tasks.columns[0].sum():  # as for a block: no value is left to learn a variance from
            variance = max(variance, 1.0)
        noise = 0.0 if data.noise[j] == 0 else math.exp(choice.theta[-1])
        shape = shape - noise * np.eye(len(on))
        mean = mean + found.F[on] @ baseline[0][tasks.columns[0] > 0][:, 0]
        mean = mean + drifts(data, [choice.candidate((j,))])[0][0, on]
        C = shape * sides[on][:, None] * sides[on]
        away = sides[on] * (mean - ends)
        each = log_ndtr(away / np.sqrt(variance * (np.diagonal(C) + noise)))
        if not each.min() >= least:
            return None
        kept = np.sort(each.argsort(kind="stable")[:MOST_SITES])
        on, ends = on[kept], ends[kept]
        value, spread, evidence = beyond(away[kept], variance * C[np.ix_(kept, kept)], variance * noise)
    if not (np.isfinite(value).all() and np.isfinite(spread).all() and evidence > -math.inf):
        return None
    return Sites(on, ends + sides[on] * value, np.clip(spread / variance, 0.0, LARGEST_RATIO), evidence)


def beyond(
    mean: Float64[ndarray, "q"], C: Float64[ndarray, "q q"], noise: float = 0.0
) -> tuple[Float64[ndarray, "q"], Float64[ndarray, "q"], float]:
    """Approximate that normal numbers are all positive: uncertain values and their variances, and the evidence.

    Args:
        mean: Their mean.
        C: Their covariance.
        noise: Variance of a further noise of each that is positive only with it.
    """
    prior = np.maximum(np.diagonal(C), 1e-300)
    soft = max(SOFTNESS**2 * float(np.median(prior)), noise) or 1e-300
    found = border.propagated(C[None] / soft, np.ones(len(mean)), mean / math.sqrt(soft))
    tau = found.tau[0] / soft
    known = tau > 1.0 / (LARGEST_RATIO * prior)
    spread = 1.0 / np.where(known, tau, 1.0 / (LARGEST_RATIO * prior))
    return mean + np.where(known, found.nu[0] / math.sqrt(soft) * spread, 0.0), spread, float(found.evidence[0])
