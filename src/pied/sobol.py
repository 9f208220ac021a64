"""Scrambled Sobol points, the same numbers as those of `scipy.stats.qmc.Sobol`.

`scipy.stats` takes half a second to load, which every command would wait for. The direction numbers (Joe and Kuo 2008)
of the first coordinates are written here. Those of further ones are read from SciPy's table, which takes a while to
unpack; if a later SciPy keeps it elsewhere, SciPy's own engine is used.
"""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy import ndarray

from pied.shapes import Float64, Int64

BITS = 30
"""Binary digits of each coordinate."""
FIRST = (
    (3, (1,)), (7, (1, 3)), (11, (1, 3, 1)), (13, (1, 1, 1)), (19, (1, 1, 3, 3)), (25, (1, 3, 5, 13)),
    (37, (1, 1, 5, 5, 17)), (41, (1, 1, 5, 5, 5)), (47, (1, 1, 7, 11, 19)), (55, (1, 1, 5, 1, 1)),
    (59, (1, 1, 1, 3, 11)), (61, (1, 3, 5, 5, 31)), (67, (1, 3, 3, 9, 7, 49)), (91, (1, 1, 1, 15, 21, 21)),
    (97, (1, 3, 1, 13, 27, 49)), (103, (1, 1, 1, 15, 7, 5)), (109, (1, 3, 1, 15, 13, 25)),
    (115, (1, 1, 5, 5, 19, 61)), (131, (1, 3, 7, 11, 23, 15, 103)), (137, (1, 3, 7, 13, 13, 15, 69)),
    (143, (1, 1, 3, 13, 7, 35, 63)), (145, (1, 3, 5, 9, 1, 25, 53)), (157, (1, 3, 1, 13, 9, 35, 107)),
)  # fmt: skip
"""Polynomial and initial numbers of the coordinates from the second one on; the first one has neither."""


def scrambled(points: int, d: int, rng: np.random.Generator) -> Float64[ndarray, "points d"]:
    """Return the first points of a sequence in the unit cube, scrambled by a random matrix and a random shift."""
    try:
        directions = _directions(d)
    except (OSError, KeyError, ValueError):
        from scipy.stats import qmc

        return qmc.Sobol(d, scramble=True, rng=rng).random_base2(max(0, (points - 1).bit_length()))[:points].copy()
    rng = rng.spawn(1)[0]
    powers = 2 ** np.arange(BITS, dtype=np.int64)
    shift = rng.integers(2, size=(d, BITS), dtype=np.uint32).astype(np.int64) @ powers
    matrix = np.tril(rng.integers(2, size=(d, BITS, BITS), dtype=np.uint32)).astype(np.int64)
    matrix[:, range(BITS), range(BITS)] = 1
    digits = (directions[:, :, None] >> np.arange(BITS - 1, -1, -1)) & 1  # d columns digits, the highest first
    mixed = np.matmul(matrix, digits.swapaxes(1, 2)) & 1  # d digits columns
    columns = (mixed * powers[::-1, None]).sum(1)
    order = np.arange(points)
    gray = order ^ (order >> 1)
    state = np.broadcast_to(shift, (points, d)).copy()
    for bit in range(max(1, int(points - 1).bit_length())):
        chosen = (gray >> bit) & 1 == 1
        state[chosen] ^= columns[:, bit]
    return state * 2.0**-BITS


@lru_cache(maxsize=32)
def _directions(d: int) -> Int64[ndarray, "d bits"]:
    """Return the direction numbers of the first coordinates."""
    numbers = np.ones((d, BITS), dtype=np.int64)
    for place, (polynomial, initial) in enumerate(FIRST[: max(0, d - 1)] if d <= 1 + len(FIRST) else _table(d), 1):
        degree = polynomial.bit_length() - 1
        row = list(initial)
        for j in range(degree, BITS):
            new = row[j - degree]
            for k in range(degree):
                if (polynomial >> (degree - 1 - k)) & 1:
                    new ^= row[j - k - 1] << (k + 1)
            row.append(new)
        numbers[place] = row[:BITS]
    return numbers << np.arange(BITS - 1, -1, -1)


def _table(d: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return what `FIRST` has, for as many coordinates as are wanted, from SciPy's table."""
    scipy = find_spec("scipy")
    table = Path((scipy and scipy.origin) or "").parent / "stats" / "_sobol_direction_numbers.npz"
    with np.load(table) as kept:
        polynomials, initial = kept["poly"][:d].tolist(), kept["vinit"][:d].tolist()
    if len(polynomials) < d:
        raise ValueError(f"there are Sobol points in at most {len(polynomials)} dimensions")
    rows = zip(polynomials[1:], initial[1:], strict=True)
    return [(polynomial, tuple(row[: polynomial.bit_length() - 1])) for polynomial, row in rows]
