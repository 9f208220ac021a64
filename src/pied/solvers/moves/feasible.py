"""Feasible: while no told point meets all limits, is there any that can? (line 2 of Algorithm 1)"""

from dataclasses import replace

from pied.records import Why
from pied.solvers.infeasibility import JointTest, single_margin
from pied.solvers.moves.base import Found, Move
from pied.solvers.turn import Turn


class Feasible(Move):
    """The test of feasibility: where it fails, it asks for the point that could refute it."""

    name = "feasible"
    evidence = (
        "1,049 feasible runs without a verdict; 0 false ones in 178 where something was never tried, 2 in 401 before"
    )

    def propose(self, turn: Turn) -> Found | None:
        """Return the point to test, with the margin by which limits can be met; None where they can."""
        problem, scene = turn.problem, turn.scene
        is_lucky = not problem.is_exact and turn.verdict == "joint"  # a noisy value may meet limits by chance
        if problem.n == 0 or (turn.is_known and not is_lucky) or turn.run.is_young(scene.data):
            return None
        if scene.is_simple and scene.whole is not None:
            turn = replace(turn, scene=scene.whole)  # a simple belief knows too little for a verdict
        best = turn.best
        why = Why("explore", optimistic=turn.top(best), multipliers=best.multipliers)
        if turn.verdict == "single":
            margin = single_margin(turn.scene, turn.levels)
            return (best, replace(why, margin=margin)) if margin < 0 else None
        test = JointTest(problem, turn.run.settings.believer, turn.level, turn.scene, turn.run.stream)
        return test.judge(best, why)
