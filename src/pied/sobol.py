"""Scrambled Sobol points, the same numbers as those of `scipy.stats.qmc.Sobol`.

`scipy.stats` takes half a second to load, which every command would wait for. Its table of direction numbers (Joe and
Kuo 2008) is read as a file; if a later SciPy keeps it elsewhere, SciPy's own engine is used.
"""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy import ndarray

from pied.shapes import Float64, Int64

BITS = 30
"""Binary digits of each coordinate."""


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
    """Return the direction numbers of the first coordinates, from SciPy's table."""
    scipy = find_spec("scipy")
    table = Path((scipy and scipy.origin) or "").parent / "stats" / "_sobol_direction_numbers.npz"
    with np.load(table) as kept:
        polynomials, initial = kept["poly"][:d].astype(np.int64), kept["vinit"][:d].astype(np.int64)
    if len(polynomials) < d:
        raise ValueError(f"there are Sobol points in at most {len(polynomials)} dimensions")
    numbers = np.ones((d, BITS), dtype=np.int64)
    for place in range(1, d):
        polynomial = int(polynomials[place])
        degree = polynomial.bit_length() - 1
        row = initial[place, :degree].tolist()
        for j in range(degree, BITS):
            new = row[j - degree]
            for k in range(degree):
                if (polynomial >> (degree - 1 - k)) & 1:
                    new ^= row[j - k - 1] << (k + 1)
            row.append(new)
        numbers[place] = row[:BITS]
    return numbers << np.arange(BITS - 1, -1, -1)
