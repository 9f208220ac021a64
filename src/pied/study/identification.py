"""What data tell of which parameter, what they leave open, and which evaluation would tell more."""

import math
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.gp import Paths
from pied.shapes import Float64
from pied.study.draws import Draws

UNIFORM = math.sqrt(1 / 12)  # deviation of a parameter of which nothing is known, in the unit cube
HARDLY = 0.3  # share by which a range is narrowed below which a parameter is hardly determined
AT_END, NEAR_END = 0.2, 0.02  # share of draws so near to an end of a range that they press against it
TOGETHER = 0.95  # correlation from which two parameters are known only together
LOOKED_AT = 64  # draws at which slopes are looked at
LEAST_TOLD = 0.01  # share of variance below which an output is not named
FUNCTIONS, SUBSET = 32, 400  # functions drawn from the belief, and draws at which they are compared
CANDIDATES = 16  # draws that are compared as the next evaluation
KEPT = 300  # draws over which the uncertainty of the density is averaged
TRIES, ROUNDS = 6, 40  # of the climb to a profile, for each unknown


def _own(posterior: Draws) -> list[int]:
    """Return the unknowns that are parameters and numbers."""
    axes, free = list(posterior.problem.axes.values()), posterior.likelihood.free.tolist()
    return [i for i, place in enumerate(free) if not axes[place].is_choice]


def _names(posterior: Draws) -> list[str]:
    axes = list(posterior.problem.axes)
    return [axes[place] for place in posterior.likelihood.free.tolist()]


def narrowed(posterior: Draws) -> dict[str, float]:
    """Return by which share the data narrow the range of each parameter: 0 if they say nothing of it."""
    names = _names(posterior)
    deviations = posterior.V.std(0)
    return {names[i]: max(0.0, 1.0 - float(deviations[i]) / UNIFORM) for i in _own(posterior)}


def correlations(posterior: Draws) -> dict[tuple[str, str], float]:
    """Return the correlation of each pair of parameters."""
    names, own = _names(posterior), _own(posterior)
    V = posterior.V[:, own]
    away = (V - V.mean(0)) / np.maximum(V.std(0), 1e-300)
    R = away.T @ away / len(V)
    return {(names[a], names[b]): float(R[i, j]) for i, a in enumerate(own) for j, b in enumerate(own) if i < j}


def unidentified(posterior: Draws) -> tuple[str, ...]:
    """Return what the data do not determine, as sentences."""
    names, said = _names(posterior), []
    shares = narrowed(posterior)
    for i in _own(posterior):
        name, v = names[i], posterior.V[:, i]
        variable = posterior.problem.axes[name]
        if shares[name] < HARDLY:
            said.append(f"The data hardly determine {name}.")
            continue
        for end, share in ((variable.lo, (v < NEAR_END).mean()), (variable.hi, (v > 1 - NEAR_END).mean())):
            if share > AT_END and name not in posterior.problem.given:
                said.append(f"{name} lies at the end of its range, {end:g}: it may be beyond.")
    for (a, b), value in correlations(posterior).items():
        if abs(value) > TOGETHER:
            said.append(f"{a} and {b} are known only together (correlation {value:.2f}).")
    return tuple(said)


def informs(posterior: Draws) -> dict[str, dict[str, float]]:
    """Return which share of the variance of each parameter each output's datum takes away, by slopes at the draws."""
    likelihood, belief = posterior.likelihood, posterior.likelihood.belief
    if not likelihood.squares.is_single:
        return {}
    rows = np.linspace(0, len(posterior.V) - 1, LOOKED_AT).astype(int)
    U = posterior.U[rows]
    mean, _, slopes, _ = belief.moments_and_slopes(U)
    if belief.is_warped:
        slopes = slopes * belief.unwarp_slopes(belief.unwarp(mean))[..., None]
    low, high = posterior.problem.ends
    J = np.einsum("mr,bmd->brd", likelihood.squares.root, slopes * (high - low))[..., likelihood.free]
    _, scale = likelihood.outcomes(U)
    errors = {name: each[rows] for name, each in likelihood.errors(posterior.V).items()}
    s2 = np.broadcast_to(errors.get("sigma", likelihood.sigma) ** 2, (len(rows),))  # type: ignore[operator]
    J = np.nan_to_num(J) / np.sqrt(s2[:, None] + _variances(posterior, scale, errors))[..., None]
    each = np.einsum("brd,bre->rde", J, J) / len(rows)
    whole = each.sum(0) + np.eye(J.shape[-1]) / UNIFORM**2
    variance = np.diagonal(np.linalg.inv(whole))
    without = np.diagonal(np.linalg.inv(whole - each), axis1=1, axis2=2)
    shares, names = 1.0 - variance / without, _names(posterior)
    found = {}
    for i in _own(posterior):
        order = (-shares[:, i]).argsort(kind="stable")
        found[names[i]] = {
            likelihood.names[r]: float(shares[r, i]) for r in order.tolist() if shares[r, i] > LEAST_TOLD
        }
    return found


def _variances(posterior: Draws, scale: ndarray, errors: dict[str, ndarray]) -> Float64[ndarray, "b r"]:
    """Return what belief and discrepancy add to the variance of each residual."""
    likelihood = posterior.likelihood
    if scale.ndim == 2:
        return likelihood.variances(scale, errors)
    return likelihood.variances(np.zeros(scale.shape[:2]), errors) + ((likelihood.squares.root.T @ scale) ** 2).sum(-1)


def emulator_share(posterior: Draws) -> float:
    """Return which share of the variance of the parameters comes from not knowing the black box."""
    likelihood, problem = posterior.likelihood, posterior.problem
    rows = np.linspace(0, len(posterior.V) - 1, min(SUBSET, len(posterior.V))).astype(int)
    U, V = posterior.U[rows], posterior.V[rows][:, : len(likelihood.free)]
    belief = likelihood.belief
    paths = Paths.of(belief, FUNCTIONS, posterior.snapshot.stream.at("posterior", "functions"))
    Y = np.clip(belief.unwarp(paths.values(U)), *problem.ranges.T)
    errors = {name: each[rows] for name, each in likelihood.errors(posterior.V).items()}
    with np.errstate(all="ignore"):
        own = likelihood.given(problem.from_unit(U), Y, np.zeros((len(U), problem.m)), errors)
    weights = own - likelihood.by_outcomes(U, errors)
    weights = np.where(np.isfinite(weights), weights, -np.inf)
    top = weights.max(1, keepdims=True)
    fine = np.isfinite(top[:, 0])
    if fine.sum() < 2:
        return 1.0
    weights = np.exp(weights[fine] - top[fine])
    weights /= weights.sum(1, keepdims=True)
    means = weights @ V
    within = np.maximum(weights @ V**2 - means**2, 0.0).mean(0)
    between = means.var(0)
    total = between + within
    return float(np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0).max(initial=0.0))


def most_telling(posterior: Draws) -> Float64[ndarray, "d"]:
    """Return the draw whose evaluation leaves the density of the parameters least uncertain.

    The likelihood that is averaged over the black box is one of many that it may be. Their variance, over all settings,
    after an evaluation whose outcome is not known yet, has a closed form (Surer, Plumlee and Wild 2024).
    """
    likelihood, data = posterior.likelihood, posterior.snapshot.data
    rows = np.linspace(0, len(posterior.V) - 1, min(KEPT, len(posterior.V))).astype(int)
    U, V = posterior.U[rows], posterior.V[rows]
    errors = likelihood.errors(V)
    belief = replace(likelihood.belief, mixture=None)
    belief = belief.imagine(data.imagined) if len(data.imagined) else belief
    before = replace(likelihood, belief=belief)
    Y, scale = before.outcomes(U)
    r, _ = likelihood.squares.residuals(posterior.problem.from_unit(U), Y)
    c = _variances(posterior, scale, errors)
    s2 = np.broadcast_to(errors.get("sigma", likelihood.sigma) ** 2, (len(rows),))[:, None]  # type: ignore[operator]
    total = -0.5 * (r * r / (s2 + c) + np.log(s2 + c)).sum(1)
    scores = []
    candidates = _apart(V, CANDIDATES)
    for i in candidates:
        after = replace(before, belief=belief.imagine(U[i][None]))
        left = np.minimum(_variances(posterior, after.outcomes(U)[1], errors), c)
        own = s2 + left
        wide = 0.5 * own + (c - left)
        square = -0.5 * (r * r / wide + np.log(wide) + np.log(own)).sum(1)
        known = square - total
        scores.append(float(known.max() + np.log(np.exp(known - known.max()).sum())))
    return np.asarray(U[candidates[int(np.argmax(scores))]])


def _apart(V: Float64[ndarray, "L D"], count: int) -> list[int]:
    """Return draws that lie apart, one after the other the farthest from those before."""
    away = (V - V.mean(0)) / np.maximum(V.std(0), 1e-300)
    chosen = [int((away**2).sum(1).argmin())]
    distance = ((away - away[chosen[0]]) ** 2).sum(1)
    while len(chosen) < min(count, len(V)):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, ((away - away[chosen[-1]]) ** 2).sum(1))
    return chosen


def profile(posterior: Draws, name: str, points: int) -> tuple[Float64[ndarray, "p"], Float64[ndarray, "p"]]:
    """Return the largest log-likelihood that is reached with each value of a parameter, less the largest of all.

    A climb from the mean of the draws with each value, by steps of their shape, which become smaller.
    """
    names = _names(posterior)
    if name not in names:
        raise SettingError(f"a profile is of one of {', '.join(names)}, got '{name}'")
    if points < 3:
        raise SettingError(f"a profile has at least 3 points, got {points}")
    k, V, D = names.index(name), posterior.V, posterior.V.shape[1]
    spread = V[:, k].std()
    low, high = max(0.0, V[:, k].min() - spread), min(1.0, V[:, k].max() + spread)
    at = np.linspace(low, high, points)
    covariance = np.cov(V.T).reshape(D, D)
    slope = covariance[:, k] / max(covariance[k, k], 1e-300)
    rest = covariance - np.outer(slope, covariance[k])
    values, vectors = np.linalg.eigh(rest)
    steps = vectors * np.sqrt(np.clip(values, 0.0, None))
    here = np.clip(V.mean(0) + (at - V[:, k].mean())[:, None] * slope, 0.0, 1.0)
    here[:, k] = at
    prior_free = replace(posterior.likelihood, stated=replace(posterior.likelihood.stated, prior={}))
    best = prior_free.log_density(here)
    stream = posterior.snapshot.stream.at("profile", name)
    for turn in range(ROUNDS):
        size = 0.02 ** (turn / (ROUNDS - 1))
        tried = here[:, None] + size * stream.at(turn).normal(points, TRIES * D, D) @ steps.T
        tried = np.clip(tried, 0.0, 1.0)
        tried[..., k] = at[:, None]
        found = prior_free.log_density(tried.reshape(-1, D)).reshape(points, -1)
        top = found.argmax(1)
        better = found.max(1) > best
        here = np.where(better[:, None], tried[np.arange(points), top], here)
        best = np.where(better, found.max(1), best)
    X = posterior.problem.from_unit(posterior.likelihood.points(here))
    return X[:, list(posterior.problem.variables).index(name)], best - best.max()
