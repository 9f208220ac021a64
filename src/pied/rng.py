"""Independent random streams by label, so that a trial draws the same numbers after a resume."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.shapes import Float64
from pied.sobol import scrambled

SMALLEST_TAIL = 1e-12  # probability: keeps normal numbers from Sobol points within 7 standard deviations


@dataclass(frozen=True)
class Stream:
    """A random stream, identified by a seed and a path of labels.

    Streams with different labels are independent. The same labels always give the same numbers, in any order of use.
    No global generator is read or changed.
    """

    seed: int
    """Given by the user, or drawn, stored and shown."""
    path: tuple[str | int, ...] = ()
    """The labels, outermost first, for instance ("trial", 17)."""

    def at(self, *labels: str | int) -> "Stream":
        """Return the substream with these labels."""
        return Stream(self.seed, self.path + labels)

    def generator(self) -> np.random.Generator:
        """Return a new generator at the start of this stream."""
        text = repr((self.seed, self.path)).encode()
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:16], "big"))

    def uniform(self, *shape: int) -> Float64[ndarray, "..."]:
        """Return uniform numbers in [0, 1)."""
        return self.generator().random(shape)

    def normal(self, *shape: int) -> Float64[ndarray, "..."]:
        """Return standard normal numbers."""
        return self.generator().standard_normal(shape)

    def sobol(self, points: int, d: int) -> Float64[ndarray, "points d"]:
        """Return the first points of a scrambled Sobol sequence in the unit cube."""
        return scrambled(points, d, self.generator())

    def sobol_normal(self, samples: int, m: int) -> Float64[ndarray, "samples m"]:
        """Return scrambled Sobol points mapped to standard normals (base samples Z)."""
        from scipy.special import ndtri  # not before it is needed: commands that draw nothing should not wait for it

        inner = np.clip(self.sobol(samples, m), SMALLEST_TAIL, 1 - SMALLEST_TAIL)
        return np.asarray(ndtri(inner))


def fresh_seed() -> int:
    """Draw a 32-bit seed from the operating system."""
    return int(np.random.SeedSequence().generate_state(1)[0])
