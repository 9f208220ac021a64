"""The calendar: which trials belong to what, by their number alone, so that a resumed run goes on uninterrupted.

| trials | belong to |
| --- | --- |
| every `verify_every`-th after 2d + 1 of them, by default 3 | verification (`moves.verify`) |
| every 4th | the belief about everything, where others are sought in one regime (`moves.regime`) |
| odd ones | points at the border of a regime, which halve what is open there; even ones stay where it surely holds |
| even ones | the test of feasibility of everything, where regimes are not clear (`infeasibility`) |
| every 3rd | another look, with noise, although the best point is well known (`moves.tell`) |
| half of them, drawn | expected improvement, with noise (`moves.improve`) |
| every 3rd | the edge of what is known to be safe, where trials have to be (`moves.careful`) |
| every 3rd after 2d + 1 of them | beyond the ends of a front, one objective after the other (`front`) |
"""

EVERYWHERE = 4
BORDER = 2
UNCLEAR = 2
LOOK = 3
IMPROVE = 0.5
"""A share, not a number: batches begin at odd numbers only."""
EDGE = 3
FRONT_END = 3


def is_turn(every: int, number: int) -> bool:
    """Whether a trial is one of every so-many."""
    return number % every == 0
