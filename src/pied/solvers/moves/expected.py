"""The point of the largest expected improvement; while none meets the limits, the one that most likely does."""

from pied.search import Optimum
from pied.solvers.acquisition import incumbent, maximize
from pied.solvers.sampled import NOISY_SAMPLES, NOISY_SCREENING, SAMPLES, SCREENING, TEMPERATURE, Sampled
from pied.solvers.turn import Turn


def expected(turn: Turn) -> Optimum:
    """Maximize the expected improvement; the probability that all limits hold while no told point meets them."""
    scene = turn.scene
    samples = (SAMPLES, SCREENING) if turn.problem.is_exact else (NOISY_SAMPLES, NOISY_SCREENING)
    best, scales = incumbent(scene), scene.scales
    return maximize(Sampled(scene.composite, best, scales, *samples, TEMPERATURE, is_relative=True, is_log=True), scene)
