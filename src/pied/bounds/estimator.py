"""How quantiles are found where no closed form is known, or wanted."""

from dataclasses import dataclass

from pied.errors import SettingError

TAIL = 4  # samples that must lie beyond a sampled quantile
MOST_SAMPLES = 2**14  # more extreme levels are left to closed forms


@dataclass(frozen=True)
class Estimator:
    """How quantiles are found where no closed form is known, or wanted."""

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
    """Whether outputs are kept inside their stated ranges; the paper knows none."""
    sobol: bool = True
    """Scrambled Sobol base samples; False: independent ones, as the paper draws them."""

    def __post_init__(self) -> None:
        if self.kind not in ("harrell-davis", "order", "soft"):
            raise SettingError(f"unknown estimator '{self.kind}': choose 'harrell-davis', 'order' or 'soft'")
        if self.samples < 2 or self.screening < 2 or self.softness <= 0:
            raise SettingError("an estimator needs at least 2 samples and a positive softness")

    def needed(self, level: float, samples: int) -> int:
        """Return how many samples a level needs; refuse levels that cannot be sampled."""
        if self.kind != "harrell-davis":
            return samples
        tail = min(level, 1.0 - level)
        while samples * tail < TAIL and samples < MOST_SAMPLES:
            samples *= 2
        if samples * tail < TAIL:
            raise SettingError(
                f"a level of {level:.8g} is too extreme to be sampled (at most {1 - TAIL / MOST_SAMPLES:.6f}): "
                "only functions with a closed form (white, affine, or monotone in one output) can be bounded there"
            )
        return samples
