"""What an output can be modelled with, and what was chosen: kernel, trend, warp, scale of its inputs, a wave.

Candidates are {squared exponential, Matern 5/2, Matern 3/2} x {constant, linear, quadratic trend} x {no warp, log,
shifted log, logit, mirrored log} x {inputs as they are, on a logarithmic scale}. A choice is plain data: it is stored
with a trial, and one fit rebuilds the belief from it. `selection` makes the choice.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pied.errors import SettingError, did_you_mean
from pied.gp.kernels import KERNELS, TRENDS
from pied.gp.likelihood import EXACT_NUGGET
from pied.gp.warps import WARPS
from pied.shapes import Float64

SCALES = ("plain", "log")
CORRELATED = ("none", "partial", "all")


@dataclass(frozen=True)
class Model:
    """What a belief may choose from, and how."""

    kernels: tuple[str, ...] = tuple(KERNELS)
    """Kernels to choose from."""
    trends: tuple[str, ...] = ("constant", "linear", "quadratic")
    """Trends to choose from; "none" is a zero mean after standardization (the paper's). Where there is "constant", an
    output that has a model may follow it, too (`drift`)."""
    warps: tuple[str, ...] = WARPS
    """Output warps to choose from."""
    scales: tuple[str, ...] = SCALES
    """Scales of the inputs to choose from: "log" is for inputs that range over a factor of five or more, where power
    laws become straight lines."""
    nugget: tuple[float, float] = (EXACT_NUGGET, EXACT_NUGGET)
    """Smallest and largest nugget of an exact output, relative to its process variance."""
    prior: bool = True
    """Whether length scales have a prior (MAP) or not (maximum likelihood)."""
    declustering: float | None = 0.03
    """Distance in the unit cube: the variance is not below its estimate from points this far apart. None: off."""
    waves: bool = True
    """Whether an output that nothing else explains may have a wave along one of its inputs: many regular basins."""
    plateaus: bool = True
    """Whether an exact output with a plateau may be a latent one that is cut off there (`plateaus`)."""
    hysteresis: float = 1.0
    """Nats by which a new choice must beat the current one."""
    finalists: int = 4
    """How many candidates are optimized at a selection beyond `always_refit` points, the best by leave-one-out at
    the current length scales, or at coarse ones when there are none; with fewer points all are."""
    reselect: int = 4
    """A new selection after this many new points; later, after the data have grown by an eighth."""
    always_refit: int = 40
    """Length scales are refitted with every point up to this many, ..."""
    refit: int = 3
    """... then after this many new points; later, after the data have grown by a thirtieth."""
    correlated: str = "partial"
    """Which exact outputs may be correlated with others that tell something about them (`correlated`): "partial" those
    that were told less often, "all", or "none"."""
    most_rows: int = 256
    """Choices and length scales are learned from at most so many points, far apart; the posterior uses 1,000."""
    shared: int | None = 32
    """From this many outputs on, outputs with the same inputs and rows share kernel, trend, warp and length scales (not
    their variances). None: never."""

    def __post_init__(self) -> None:
        for word, given, known in (
            ("kernel", self.kernels, KERNELS),
            ("trend", self.trends, TRENDS),
            ("warp", self.warps, WARPS),
            ("scale", self.scales, SCALES),
            ("word for correlated outputs", (self.correlated,), CORRELATED),
        ):
            if not given:
                raise SettingError(f"a model needs at least one {word}")
            for name in given:
                if name not in known:
                    raise SettingError(f"unknown {word} '{name}'.{did_you_mean(name, known)}")


class Candidate(NamedTuple):
    """What outputs that share their hyperparameters, usually one, could be modelled with."""

    outputs: tuple[int, ...]
    kernel: str
    trend: str
    warp: str
    scale: str
    waves: tuple[float, ...] = ()


class Found(NamedTuple):
    """What an output may be modelled with."""

    candidate: Candidate
    theta: tuple[float, ...]
    score: float
    """Leave-one-out density less the price of what it has."""


class Other(NamedTuple):
    """Another model of an output, on the scale of the best one (`mixture`); plain data."""

    kernel: str
    trend: str
    scale: str
    theta: tuple[float, ...]
    """As in `ModelChoice`."""


@dataclass(frozen=True)
class ModelChoice:
    """What the belief chose for one output; plain data."""

    kernel: str
    trend: str
    warp: str
    scale: str
    theta: tuple[float, ...]
    """Logarithms of the d length scales (of inputs not seen: unused), of two more on a wave, then of the nugget."""
    selected: int
    """Rows at the last selection."""
    fitted: int
    """Rows at the last fit of the length scales."""
    waves: tuple[float, ...] = ()
    """Angular frequencies of the wave along each input of the unit cube; empty: none."""
    clipped: tuple[int, ...] = ()
    """At which plateaus a latent output is cut off (`plateaus`): -1 that of its least value, 1 that of its largest."""
    parents: tuple[int, ...] = ()
    """Other outputs that it is mixed of (`correlated`); what is modelled is the rest."""
    weights: tuple[float, ...] = ()
    """Their weights, on the warped scales."""
    noise: float = 0.0
    """Usual noise on the scale of the warp, where values have errors of their own (`stated`); 0: none has."""
    share: float = 0.0
    """Variance of the offsets of blocks in units of the process variance (`offsets`); 0: there are none."""
    campaigns: tuple[str, ...] = ()
    """Earlier campaigns whose values of the output count (`campaigns`)."""
    others: tuple[Other, ...] = ()
    """The next best models at the last selection, the best first."""

    def candidate(self, outputs: tuple[int, ...]) -> Candidate:
        """Return the choice as a candidate of some outputs."""
        return Candidate(outputs, self.kernel, self.trend, self.warp, self.scale, self.waves)

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON-able data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ModelChoice":
        """Rebuild a choice from `to_dict`; what another version had learned besides is ignored."""
        known = {field.name for field in fields(cls)}
        made: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in data.items() if name in known
        }
        others = made.get("others", ())
        made["others"] = tuple(Other(kernel, trend, scale, tuple(theta)) for kernel, trend, scale, theta in others)
        return cls(**made)


def thetas(choices: Sequence[ModelChoice]) -> Float64[ndarray, "B q"]:
    """Return the hyperparameters of some outputs side by side; where only others have a wave, zeros are put in."""
    most = max(len(choice.theta) for choice in choices)
    rows = [(*each.theta[:-1], *(0.0,) * (most - len(each.theta)), each.theta[-1]) for each in choices]
    return np.array(rows, dtype=np.float64)
