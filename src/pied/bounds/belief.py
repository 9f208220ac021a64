"""What bounds need of a belief about the black box."""

from typing import Protocol, runtime_checkable

from numpy import ndarray

from pied.shapes import Float64


@runtime_checkable
class Belief(Protocol):
    """What a `Composite` needs of a belief about h: moments at single points, nothing joint over points."""

    @property
    def is_warped(self) -> bool:
        """Whether outputs are modelled in other units than their own, such as their logarithm."""

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b *m"]]:
        """Return the mean and the root of the covariance: deviations `b m`, or Cholesky factors if correlated.

        With a mixing (`Mixed`), they are the deviations of what is mixed.
        """

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[
        Float64[ndarray, "b m"], Float64[ndarray, "b *m"], Float64[ndarray, "b m d"], Float64[ndarray, "b *m d"]
    ]:
        """Return the moments and their derivatives with respect to the point."""

    def unwarp(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return outputs in natural units from values in modelled units."""

    def unwarp_slopes(self, Y: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return the derivatives of `unwarp` where it gives these outputs."""


@runtime_checkable
class Mixed(Protocol):
    """A belief whose outputs may be mixtures of independent parts."""

    @property
    def mixing(self) -> Float64[ndarray, "m m"] | None:
        """A: the covariance at a point is A D^2 A', with the deviations D of its moments; None: A = 1."""


@runtime_checkable
class Thinned(Protocol):
    """A belief that may have a cheaper version."""

    @property
    def fewer(self) -> Belief | None:
        """The belief conditioned on fewer points; None where it rests on few."""


class LastMoments:
    """The moments of a belief at the points looked up last: a pool is looked up several times.

    The same array must not be changed in place between two look-ups.
    """

    def __init__(self, belief: Belief) -> None:
        self._belief = belief
        self._kept: tuple[ndarray, ndarray, ndarray] | None = None

    def __call__(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b *m"]]:
        """Return the mean and the root of the covariance."""
        if self._kept is None or self._kept[0] is not U:
            self._kept = U, *self._belief.moments(U)
        return self._kept[1], self._kept[2]
