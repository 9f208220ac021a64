"""Quantiles of g(x, h(x)) under the belief, and where evaluations are likely to succeed."""

from pied.bounds.affine import misjudged
from pied.bounds.belief import Belief
from pied.bounds.believer import (
    Believer,
    Bounds,
    White,
    Widened,
    from_memory,
    optimistic,
    pessimistic,
    possible,
    sure,
    to_memory,
)
from pied.bounds.composite import NUMBERS_AT_ONCE, Composite
from pied.bounds.drawn import Drawn
from pied.bounds.estimator import Estimator, sampled
from pied.bounds.inputs import coding_of, ratios
from pied.bounds.joint import Joint, is_shared
from pied.bounds.known import known_of
from pied.bounds.prediction import Ends, predicted, telling
from pied.bounds.quantile import Level, checked_level, level_at, levels_at
from pied.bounds.regimes import TwoRegimes, placed, remembered, sides_told, was_told
from pied.bounds.stack import Stack
from pied.bounds.success import SuccessModel, WithSuccess, where_success_is_likely
from pied.bounds.trust import (
    ROUGH_BELOW,
    ROUGHEST,
    VERDICT_LEVEL,
    Trust,
    assumes_smooth,
    errors,
    explained,
    is_young,
    rough_limits,
)

__all__ = [
    "NUMBERS_AT_ONCE",
    "ROUGHEST",
    "ROUGH_BELOW",
    "VERDICT_LEVEL",
    "Belief",
    "Believer",
    "Bounds",
    "Composite",
    "Drawn",
    "Ends",
    "Estimator",
    "Joint",
    "Level",
    "Stack",
    "SuccessModel",
    "Trust",
    "TwoRegimes",
    "White",
    "Widened",
    "WithSuccess",
    "assumes_smooth",
    "checked_level",
    "coding_of",
    "errors",
    "explained",
    "from_memory",
    "is_shared",
    "is_young",
    "known_of",
    "level_at",
    "levels_at",
    "misjudged",
    "optimistic",
    "pessimistic",
    "placed",
    "possible",
    "predicted",
    "ratios",
    "remembered",
    "rough_limits",
    "sampled",
    "sides_told",
    "sure",
    "telling",
    "to_memory",
    "was_told",
    "where_success_is_likely",
]
