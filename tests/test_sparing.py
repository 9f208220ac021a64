"""The checks of shapes find a wrong shape, and stay cheap."""

import numpy as np
import pytest

import sparing
from pied import distances
from pied.records import Why
from pied.solvers.base import Proposal


def test_the_first_calls_are_checked_and_later_ones_now_and_then() -> None:
    looked = [call for call in range(1, 200) if sparing.is_looked_at(call)]
    assert looked == [1, 2, 16, 32, 64, 128]


def test_a_wrong_shape_is_found_in_the_package() -> None:
    with pytest.raises(Exception, match=r"[Tt]ype-check"):
        distances.to_nearest(np.zeros(3), np.zeros((2, 3)))
    with pytest.raises(Exception, match=r"[Tt]ype-check"):
        Proposal(np.zeros((2, 1)), Why("explore"))
