"""How quantiles are estimated from samples where no closed form is used."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numpy import ndarray

from pied.bounds import quantile
from pied.errors import SettingError
from pied.problem import Problem
from pied.shapes import Float64

CLOSED_FORMS = ("affine", "monotone")  # kinds of functions of independent outputs
TAIL_SAMPLES = 4  # samples that must lie beyond a sampled quantile; with fewer it is hardly an estimate
MOST_SAMPLES = 2**14  # base samples; levels that need more can be bounded by closed forms only


@dataclass(frozen=True)
class Estimator:
    """How quantiles are estimated from samples where no closed form is used."""

    kind: str = "harrell-davis"
    """"harrell-davis", "order" (plain order statistic) or "soft" (soft sort, the paper's)."""
    samples: int = 512
    """Base samples while solving."""
    screening: int = 128
    """Base samples while screening many points."""
    softness: float = 0.1
    """Strength of the soft sort (paper, table 3)."""
    closed_forms: bool = True
    """Whether closed forms are used where the structure allows; the paper samples everything."""
    ranges: bool = True
    """Whether outputs are kept inside their stated ranges; the paper has none."""
    sobol: bool = True
    """Scrambled Sobol base samples; False: independent ones, as the paper draws them."""

    def __post_init__(self) -> None:
        if self.kind not in ("harrell-davis", "order", "soft"):
            raise SettingError(f"unknown estimator '{self.kind}': choose 'harrell-davis', 'order' or 'soft'")
        if self.samples < 2 or self.screening < 2 or self.softness <= 0:
            raise SettingError("an estimator needs at least 2 samples and a positive softness")

    def estimate(self, samples: Float64[ndarray, "L b"], level: float) -> Float64[ndarray, "b"]:
        """Return a quantile of samples."""
        if self.kind == "soft":
            return quantile.soft_order_statistic(samples, level, self.softness)
        if self.kind == "order":
            return quantile.order_statistic(samples, level)
        return quantile.harrell_davis(samples, level)

    def estimate_and_weights(
        self, samples: Float64[ndarray, "L b"], level: float
    ) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "L b"]]:
        """Return a quantile of samples, and the weight of every sample in it, which is its slope."""
        if self.kind == "soft":
            return quantile.soft_order_statistic_and_weights(samples, level, self.softness)
        if self.kind == "order":
            return quantile.order_statistic_and_weights(samples, level)
        return quantile.harrell_davis_and_weights(samples, level)

    @property
    def tail(self) -> float:
        """How many samples must lie beyond a sampled quantile; a plain order statistic must not be the last one."""
        return float(TAIL_SAMPLES) if self.kind == "harrell-davis" else 1.0 - quantile.RANK_ROUNDING

    def needed(self, level: float, samples: int) -> int:
        """Return how many samples a level needs, at least the given ones; refuse a level that needs too many."""
        beyond = min(level, 1.0 - level)
        while samples * beyond < self.tail and samples < MOST_SAMPLES:
            samples *= 2
        if samples * beyond < self.tail:
            raise SettingError(
                f"a level of {level:.8g} is too extreme to be sampled (at most {1 - self.tail / MOST_SAMPLES:.6f}): "
                "only functions with a closed form (white, affine, or monotone in one output) can be bounded there"
            )
        return samples

    def check(self, level: quantile.Timed, names: Sequence[str]) -> None:
        """Refuse levels at which these functions, which have no closed form, cannot be bounded by these samples.

        Harrell-Davis draws more samples where a level needs them; the order statistics of the paper take what they get.
        """
        if not names:
            return
        quoted = ", ".join(f"'{name}'" for name in names)
        why = f"{quoted} must be sampled"
        if self.closed_forms:
            why += ", without a closed form (white, affine, or monotone in one output)"
        if isinstance(level, quantile.Steps):
            level = max(level.levels)
        if isinstance(level, quantile.Confidence):
            raise SettingError(
                f"the levels of a schedule soon become too extreme for samples, and {why}: state one level, such as "
                "level=0.95" + ("" if self.closed_forms else ", or an estimator with closed_forms=True")
            )
        fewest = MOST_SAMPLES if self.kind == "harrell-davis" else min(self.samples, self.screening)
        most = 1.0 - self.tail / fewest
        if level <= most:
            return
        text = f"a level of {level:.8g} is too extreme for {fewest} samples, and {why}: state at most level={most:.6g}"
        if self.kind != "harrell-davis" and (enough := math.ceil(self.tail / (1.0 - level))) <= MOST_SAMPLES:
            text += f", or at least {enough} samples in Estimator(samples=, screening=)"
        raise SettingError(text)


def sampled(
    problem: Problem, estimator: Estimator, has_closed_form: Callable[[str], bool] = CLOSED_FORMS.__contains__
) -> tuple[int, ...]:
    """Return the functions whose quantiles are estimated from samples.

    Args:
        problem: The white box.
        estimator: Whether closed forms are used.
        has_closed_form: Whether a kind of function has one; by default, if outputs are independent.
    """
    return tuple(
        i
        for i, each in enumerate(problem.structure)
        if not (each.kind == "white" or (estimator.closed_forms and has_closed_form(each.kind)) or i in problem.slow)
    )
