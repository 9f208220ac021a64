"""Other last bits, as another processor, another BLAS or another compiler has them: `PIED_DISTURB=1 pytest`.

What linear algebra returns is changed by a few units of its last place. The change depends on the number itself and on
the value of the variable, so that the same run twice is the same still: only tests that rely on the last bits of one
machine fail. Another value disturbs in another way.
"""

from typing import Any

import numpy as np
from numpy import ndarray
from scipy.linalg import lapack

SIZE = 1e-15  # relative


def install(phase: float) -> None:
    """Disturb the factorizations that beliefs and searches rest on, for the life of this process."""

    def changed(values: ndarray) -> ndarray:
        """Disturb in place: the callers of LAPACK read what it left in their own array."""
        with np.errstate(all="ignore"):
            change = SIZE * np.cos(1e6 * values + phase)
            values *= 1.0 + np.where(values == np.rint(values), 0.0, change)  # whole numbers are exact everywhere
        return values

    def disturbed(function: Any) -> Any:
        return lambda *args, **words: changed(function(*args, **words))

    def disturbed_lapack(function: Any) -> Any:
        def call(*args: Any, **words: Any) -> tuple[ndarray, int]:
            values, info = function(*args, **words)
            return changed(values), info

        return call

    np.linalg.cholesky, np.linalg.inv = disturbed(np.linalg.cholesky), disturbed(np.linalg.inv)
    lapack.dpotrf, lapack.dtrtri = disturbed_lapack(lapack.dpotrf), disturbed_lapack(lapack.dtrtri)
