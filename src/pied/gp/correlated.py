"""Outputs that others tell something about: each is a mixture of some others and a rest of its own.

    y_j(x) = sum_k a_jk y_k(x) + z_j(x),    k among the outputs before j,

all on their warped scales, the rests z independent. Written for all outputs, y = A z with A unit triangular up
to the order of the outputs. Where the rests share kernel and trend, this is the intrinsic model of coregionalization
with covariance k(x, x') B and B = A D A': any B can be written so. Told exactly and together, outputs without a mixture
and with it have the same mean; what differs is that their errors go together. An output told rarely also gets its mean
from the others, where they were told without it.

Only exact outputs are mixed, and only with outputs that were told wherever they were, so that every told value counts.
Which ones is chosen by leave-one-out density, the weights estimated with the trend as one regression.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.gp import likelihood
from pied.gp.choices import ModelChoice, thetas
from pied.gp.observations import Observations
from pied.gp.parts import plateaus
from pied.gp.regressions import PART_PRICE, regressions
from pied.gp.selection import choose, is_selection_due, usable
from pied.gp.warps import Standardized, Warp
from pied.shapes import Bool, Float64

MOST_PARENTS = 6  # outputs that one is mixed of
SPARE_ROWS = 4  # told values beyond the number of trend columns and weights
LEAST_NEW = 1e-3  # of the variance of a candidate, not explained by those before: else weights are large and opposite
MOST_LOST = 1.2  # of the squared errors of an output on its own, those of its prediction from others
MOST_PRECISE = 2e12  # process variances over that of a value given the others: beyond it, rounding errors take over
LEAST_REST = 1e-10  # of the deviation of an output: a smaller rest is rounding error

Parents = dict[int, tuple[int, ...]]
"""By output, the others that it is mixed of."""


def chosen(data: Observations, old: Sequence[ModelChoice | None]) -> list[ModelChoice]:
    """Choose models, and which outputs are mixtures; of these, the models of their rests."""
    mixed = [j for j, each in enumerate(old) if each is not None and each.parents]
    counts = [data.count(j) for j in range(len(old))]
    least = {"none": math.inf, "partial": min(counts, default=0) + 1, "all": 0}[data.model.correlated]
    if len(old) < 2 or max(counts) < least:
        return plateaus.chosen(data, [None if j in mixed else each for j, each in enumerate(old)])
    if mixed:
        kept = _again(data, old, mixed)
        if kept is not None:
            return kept
    single = plateaus.chosen(data, [None if j in mixed else each for j, each in enumerate(old)])
    is_due = mixed or any(
        each.selected == n or n % data.model.reselect == 0 for each, n in zip(single, counts, strict=True)
    )
    found = sought(data, single) if is_due else {}
    return _with_rests(data, single, found) if found else single


def _again(data: Observations, old: Sequence[ModelChoice | None], mixed: list[int]) -> list[ModelChoice] | None:
    """Return the same mixtures with new weights and length scales; None where they are to be chosen again."""
    usual = usable(data, old)
    known = [each for each in usual if each is not None]
    if len(known) < len(old) or any(each.warp not in own for each, own in zip(known, data.scales, strict=True)):
        return None
    if any(not _may_mix(data, k, j, known) for j in mixed for k in known[j].parents):
        return None
    rests = of_rests(data, known)
    if any(is_selection_due(rests, (j,), usual) for j in mixed):
        return None
    others = [j for j in range(len(old)) if j not in mixed]
    fresh = dict(zip(others, plateaus.chosen(_part(data, others), [old[j] for j in others]), strict=True))
    if any(fresh[j].warp != known[j].warp for j in others):
        return None
    return _with_rests(data, [fresh.get(j, known[j]) for j in range(len(old))], {j: known[j].parents for j in mixed})


def _with_rests(data: Observations, choices: Sequence[ModelChoice], found: Parents) -> list[ModelChoice]:
    """Estimate weights, and choose or refit the models of the rests."""
    made = [
        replace(each, parents=found[j], weights=tuple(_weights(data, choices, j, found[j]).tolist()))
        if j in found
        else each
        for j, each in enumerate(choices)
    ]
    rests = of_rests(data, made)
    starts = [made[j] if choices[j].parents else None for j in found]
    for j, each in zip(found, choose(_part(rests, list(found)), starts), strict=True):
        made[j] = replace(each, warp=made[j].warp, parents=made[j].parents, weights=made[j].weights)
    return made


def _part(data: Observations, which: list[int]) -> Observations:
    """Return the data of some outputs, which share their hyperparameters if all do."""
    return replace(data.of_outputs(which), model=replace(data.model, shared=1 if data.is_sharing else None))


def of_rests(data: Observations, choices: Sequence[ModelChoice]) -> Observations:
    """Return data in which mixed outputs are replaced by what the others leave of them, on their warped scales."""
    if not any(choice.parents for choice in choices):
        return data
    W = _warped(data, choices)
    Y, rows, scales = data.Y.copy(), data.rows.copy(), list(data.scales)
    for j, choice in enumerate(choices):
        if choice.parents:
            rest = W[:, j] - W[:, choice.parents] @ np.array(choice.weights)
            Y[:, j], rows[j] = rest, np.isfinite(rest)
            own = Standardized.of(Warp("none"), rest[rows[j]])
            least = LEAST_REST * data.scales[j][choice.warp].deviation
            scales[j] = {choice.warp: own._replace(deviation=max(own.deviation, least), log_slopes=0.0)}
    return replace(data, Y=Y, rows=rows, scales=tuple(scales), mixing=mixing_of(choices))


def mixing_of(choices: Sequence[ModelChoice]) -> Float64[ndarray, "m m"]:
    """Return A = (1 - W)^-1, W the weights: outputs as sums of all rests."""
    weights = np.zeros((len(choices), len(choices)))
    for j, choice in enumerate(choices):
        weights[j, list(choice.parents)] = choice.weights
    mixing = whole = np.eye(len(choices))
    while whole.any():  # W is nilpotent: the sum over all chains of parents ends
        whole = weights @ whole
        mixing = mixing + whole
    return mixing


def _warped(data: Observations, choices: Sequence[ModelChoice]) -> Float64[ndarray, "N m"]:
    """Return what was told on the warped scales, NaN where nothing was."""
    W = np.full(data.Y.shape, np.nan)
    for j, choice in enumerate(choices):
        W[data.rows[j], j] = data.scales[j][choice.warp].warp.forward(data.values(j))
    return W


def _may_mix(data: Observations, k: int, j: int, choices: Sequence[ModelChoice]) -> bool:
    """Whether output k may be a part of output j: exact, told wherever j was, without inputs that j has not."""
    if data.model.correlated == "partial" and data.count(k) == data.count(j):
        return False
    return (
        all(_is_plain(data, each, choices) for each in (k, j))
        and bool((data.rows[k] | ~data.rows[j]).all())
        and bool((data.active[j] | ~data.active[k]).all())
    )


def _is_plain(data: Observations, j: int, choices: Sequence[ModelChoice]) -> bool:
    """Whether all that was told of an output are exact values, and it is not cut off at a plateau."""
    is_exact = data.noise[j] == 0 and not choices[j].clipped and not data.sides(j)[0].any() and not data.has_model(j)
    return is_exact and bool(data.rows[j].any()) and not (data.shares and data.shares[j])


class _Regression:
    """The told values of all outputs as one output's regression sees them: whitened, without its trend."""

    def __init__(self, data: Observations, choices: Sequence[ModelChoice], j: int, W: Float64[ndarray, "N m"]) -> None:
        tasks, _ = regressions(data, [choices[j].candidate((j,))])
        found = likelihood.whitened(tasks, thetas([choices[j]]), with_slope=False)
        self._root, self._trend, self._told = found.R[0], found.trend[0], data.rows[j]
        self._freedom = int(self._told.sum()) - self._trend.shape[1]
        F = tasks.basis.reshape(len(W), -1)[:, tasks.columns[0] > 0] * self._told[:, None]
        own = np.nan_to_num(W) * self._told[:, None]
        own = own - F @ np.linalg.lstsq(F, own, rcond=None)[0]  # first, so that fewer digits are lost
        self.values = found.rest(own[None])[0]
        is_sound = bool(np.isfinite(self.values).all()) and float((self._root**2).max(initial=0.0)) < MOST_PRECISE
        self.failed = bool(found.failed[0]) or self._freedom < 1 or not is_sound

    def scored(self, j: int, parents: Sequence[int]) -> tuple[float, Float64[ndarray, "N"], Float64[ndarray, "p"]]:
        """Return leave-one-out density and errors of what parents leave of an output, and their weights.

        The weights are estimated with the trend, as one regression.
        """
        basis, upper = np.linalg.qr(self.values[:, list(parents)])
        along = basis.T @ self.values[:, j]
        rest = self.values[:, j] - basis @ along
        pull = self._root.T @ np.concatenate([self._trend, basis], 1)
        precision = np.maximum((self._root**2).sum(0) - (pull**2).sum(1), 1e-300)
        variance = max(float(rest @ rest) / (self._freedom - len(parents)), likelihood.SMALLEST_VARIANCE)
        errors = (self._root.T @ rest) / precision * self._told
        each = math.log(2 * math.pi) + np.log(variance / precision) + errors**2 * precision / variance
        return float(-0.5 * each[self._told].sum()), errors, np.linalg.solve(upper, along)

    def ahead(
        self, j: int, candidates: Sequence[int], errors: Float64[ndarray, "N m"], price: float
    ) -> tuple[tuple[int, ...], Float64[ndarray, "N"]]:
        """Return the candidates that explain an output better than its own model does, found one after the other.

        What they explain at told points they must also predict elsewhere: the errors of their own predictions, times
        the weights, must not exceed those of the output on its own.

        Args:
            j: The output.
            candidates: What it may be mixed of.
            errors: Leave-one-out errors of the candidates.
            price: Nats that each must gain.

        Returns:
            The parents, and the leave-one-out errors of the output with them.
        """
        score, own, _ = self.scored(j, ())
        best: tuple[float, tuple[int, ...], Float64[ndarray, "N"]] = score, (), own
        parents: tuple[int, ...] = ()
        H, rest = self.values[:, list(candidates)].copy(), self.values[:, j].copy()
        sizes, whole = (H * H).sum(0), float(rest @ rest)
        most = min(MOST_PARENTS, self._freedom - SPARE_ROWS, len(candidates))
        while len(parents) < most and rest @ rest > LEAST_REST**2 * whole:
            left = (H * H).sum(0)
            fine = left > LEAST_NEW * sizes
            if not fine.any():
                break
            first = int(np.where(fine, (rest @ H) ** 2 / np.where(fine, left, 1.0), -1.0).argmax())
            unit = H[:, first] / math.sqrt(left[first])
            rest, H = rest - unit * (unit @ rest), H - np.outer(unit, unit @ H)
            parents = (*parents, candidates[first])
            gain = 0.5 * self._freedom * math.log(whole / max(float(rest @ rest), 1e-300))
            if gain > price * len(parents):
                score, left_over, weights = self.scored(j, parents)
                through = left_over + errors[:, list(parents)] @ weights * self._told
                is_near = through @ through <= MOST_LOST * (own @ own)
                if is_near and score - price * len(parents) > best[0]:
                    best = score - price * len(parents), parents, through
        return best[1:]


def sought(data: Observations, choices: Sequence[ModelChoice]) -> Parents:
    """Return which outputs are better explained with others than on their own, and by which.

    Args:
        data: What was told.
        choices: The model of each output on its own.
    """
    plain = [j for j in range(len(choices)) if _is_plain(data, j, choices)]
    if len(plain) < 2:
        return {}
    data = data.thinned()
    scales = np.array([own[each.warp].deviation for own, each in zip(data.scales, choices, strict=True)])
    locations = np.array([own[each.warp].location for own, each in zip(data.scales, choices, strict=True)])
    W = (_warped(data, choices) - locations) / scales
    views = {j: _Regression(data, choices, j, W) for j in plain}
    plain = [j for j in plain if not views[j].failed]
    if len(plain) < 2:
        return {}
    errors = np.zeros_like(W)
    for j in plain:
        errors[:, j] = views[j].scored(j, ())[1]
    order = _ordered(data, plain, errors[:, plain].T)
    found: Parents = {}
    for place, j in enumerate(order):
        candidates = [k for k in order[:place] if _may_mix(data, k, j, choices)]
        if candidates:
            price = PART_PRICE + 2.0 * math.log(len(candidates))
            parents, errors[:, j] = views[j].ahead(j, candidates, errors, price)
            found |= {j: parents} if parents else {}
    return found


def _ordered(data: Observations, plain: list[int], errors: Float64[ndarray, "p N"]) -> list[int]:
    """Order outputs by how often they were told, and of equally often told ones, those that explain most first."""
    sizes = np.sqrt((errors * errors).sum(1))
    unit = errors / np.where(sizes > 0, sizes, 1.0)[:, None]
    R = unit @ unit.T
    counts = np.array([data.count(j) for j in plain])
    waiting: Bool[ndarray, "p"] = np.ones(len(plain), dtype=bool)
    order = []
    for _ in plain:
        own = waiting & (counts == counts[waiting].max())
        left = np.maximum(np.diagonal(R), 1e-12)
        first = int(np.where(own, (R * R).sum(0) / left, -np.inf).argmax())
        order.append(plain[first])
        waiting[first] = False
        R = R - np.outer(R[:, first], R[first]) / left[first]
    return order


def _weights(
    data: Observations, choices: Sequence[ModelChoice], j: int, parents: tuple[int, ...]
) -> Float64[ndarray, "p"]:
    """Estimate the weights of an output's parents, together with its trend."""
    W = _warped(data, choices)
    unit = np.array([data.scales[k][choices[k].warp].deviation for k in (j, *parents)])
    middle = np.array([data.scales[k][choices[k].warp].location for k in (j, *parents)])
    own = (W[:, (j, *parents)] - middle) / unit
    seen = _Regression(data, [replace(each, parents=()) for each in choices], j, own)
    if seen.failed:
        return np.zeros(len(parents))
    values = seen.values
    weights, *_ = np.linalg.lstsq(values[:, 1:], values[:, 0], rcond=None)
    return weights * unit[0] / unit[1:]
