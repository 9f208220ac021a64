"""Quantiles of g(x, h(x)) under the belief, and where evaluations are likely to succeed."""

from pied.bounds.believer import (
    Believer,
    Bounds,
    White,
    Widened,
    coding_of,
    from_memory,
    optimistic,
    pessimistic,
    possible,
    ratios,
    to_memory,
)
from pied.bounds.calibration import Ends, caution, doubt, errors, first_caution, misses, predicted, telling
from pied.bounds.composite import NUMBERS_AT_ONCE, Belief, Composite, sampled
from pied.bounds.drawn import Drawn
from pied.bounds.estimator import Estimator
from pied.bounds.joint import Joint, is_shared
from pied.bounds.quantile import Confidence, Level, checked_level, level_at
from pied.bounds.regimes import TwoRegimes, placed, remembered, sides_told, was_told
from pied.bounds.stack import Stack
from pied.bounds.success import SuccessModel, WithSuccess, where_success_is_likely

__all__ = [
    "NUMBERS_AT_ONCE",
    "Belief",
    "Believer",
    "Bounds",
    "Composite",
    "Confidence",
    "Drawn",
    "Ends",
    "Estimator",
    "Joint",
    "Level",
    "Stack",
    "SuccessModel",
    "TwoRegimes",
    "White",
    "Widened",
    "WithSuccess",
    "caution",
    "checked_level",
    "coding_of",
    "doubt",
    "errors",
    "first_caution",
    "from_memory",
    "is_shared",
    "level_at",
    "misses",
    "optimistic",
    "pessimistic",
    "placed",
    "possible",
    "predicted",
    "ratios",
    "remembered",
    "sampled",
    "sides_told",
    "telling",
    "to_memory",
    "was_told",
    "where_success_is_likely",
]
