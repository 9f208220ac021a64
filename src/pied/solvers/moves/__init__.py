"""The moves of the method: one file each, in the order in which they are asked.

`CUQB.moves` lists them by name. Leaving one out of the list shows what it is worth; `docs/ablation.md` has the figures.
Which trials a move may take stands in `solvers.calendar`.
"""

from pied.errors import SettingError, did_you_mean
from pied.solvers.moves.base import Found as Found
from pied.solvers.moves.base import Move as Move
from pied.solvers.moves.careful import Careful as Careful
from pied.solvers.moves.careful import check_safe as check_safe
from pied.solvers.moves.careful import none_safe as none_safe
from pied.solvers.moves.explore import Explore
from pied.solvers.moves.feasible import Feasible
from pied.solvers.moves.improve import Improve
from pied.solvers.moves.likely import Likely
from pied.solvers.moves.probe import Probe
from pied.solvers.moves.regime import Regime
from pied.solvers.moves.shrink import Shrink
from pied.solvers.moves.simple import Simple
from pied.solvers.moves.tell import Tell
from pied.solvers.moves.verify import Verify
from pied.solvers.moves.widen import Widen

ALL: dict[str, Move] = {
    move.name: move
    for move in (
        Regime(), Verify(), Simple(), Shrink(), Improve(), Feasible(), Likely(), Probe(), Widen(), Tell(), Explore(),
    )
}  # fmt: skip
"""All moves, in the order of the default method."""
PUBLISHED = ("feasible", "explore")
"""Those of the method as published."""


def named(names: tuple[str, ...]) -> tuple[Move, ...]:
    """Return moves by their names.

    Raises:
        SettingError: For a name that no move has, with the one probably meant; without the move that always applies.
    """
    for name in names:
        if name not in ALL:
            raise SettingError(f"there is no move '{name}'.{did_you_mean(name, ALL)}")
    if not names or names[-1] != "explore":
        raise SettingError("the last move is 'explore', which always has a point to propose")
    return tuple(ALL[name] for name in names)
