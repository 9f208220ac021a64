"""Status, gap, verdict and recommendation of a study, all computed from one snapshot of its record."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from pied.distances import to_nearest
from pied.errors import SettingError, Status, UnknownName, is_everywhere
from pied.problem import SAME, Named, Problem, listed
from pied.records import Dataset, State, Trial, feasible, met, spread
from pied.rng import Stream
from pied.shapes import Float64
from pied.solvers.base import Solver
from pied.study.relaxation import Relaxation, conflict_of, relax
from pied.study.result import Result, Revision
from pied.study.words import REASONS_SHOWN, Words, failures, percent

if TYPE_CHECKING:
    from pied.bounds import Composite
    from pied.gp import GP, Choice
    from pied.solvers.cuqb import CUQB
    from pied.study.apart import Side
    from pied.study.doubtful import Doubtful
    from pied.study.front import Front
    from pied.study.recommendation import Recommendation

OTHER_QUESTION = -1
"""Number of a question that was not recorded: no trial was proposed for it."""
FIRST_FAILURES = 3
"""Trials: if these first ones all fail for reasons that cannot depend on the point, a run stops."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A study at one moment, and all answers that follow from its record.

    Beliefs, and the solver of a stored study, are loaded when an answer needs them: counting trials needs neither.
    """

    problem: Problem
    solver_of: Callable[[], Solver]
    """Return the solver."""
    seed: int
    patience: int | None
    initial: int
    trials: tuple[Trial, ...]
    revision: int = 1
    """Number of the question: bounds for other questions do not count."""
    conflict_of: Callable[[], Relaxation | None] = lambda: None
    """Return the constraints that nothing can meet, known before any evaluation, if any."""
    is_done: bool = False
    """Whether the solver has nothing more to propose."""
    belief_of: "Callable[[], GP] | None" = None
    """Return the belief, if it is that of another question on the same data; None: it is fitted when first needed."""
    told_belief_of: "Callable[[], GP] | None" = None
    """The same for the belief from told values alone."""

    @property
    def solver(self) -> Solver:
        """The solver of the study."""
        return self.solver_of()

    @property
    def white(self) -> Relaxation | None:
        """Constraints that nothing can meet, known before any evaluation, if any."""
        return self.conflict_of()

    @cached_property
    def data(self) -> Dataset:
        """The record as arrays."""
        return Dataset.of(self.problem, self._believed)

    @cached_property
    def correction(self) -> int:
        """Number of the last correction of the record: what was computed before it no longer counts."""
        return max((trial.corrected for trial in self.trials), default=0)

    @property
    def stamp(self) -> tuple[int, int]:
        """Two numbers that change with every proposal and correction."""
        return self.used, self.correction

    @cached_property
    def _believed(self) -> tuple[Trial, ...]:
        """The trials, with as much of why they were proposed as still holds."""
        return tuple(trial.believed(self.correction) for trial in self.trials)

    @property
    def current(self) -> tuple[Trial, ...]:
        """The trials with those bounds that hold for this question and after the last correction, for pictures."""
        return tuple(
            trial if trial.revision == self.revision else trial.believed(self.correction + 1)
            for trial in self._believed
        )

    @property
    def used(self) -> int:
        """Number of proposed trials: told, partial, failed, withdrawn or pending."""
        return sum(not trial.is_added for trial in self.trials)

    @cached_property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the trials with missing values."""
        return tuple(trial.number for trial in self.trials if trial.state in (State.ASKED, State.PARTIAL))

    @property
    def settings(self) -> "CUQB":
        """The solver's settings if it has a belief, else the default ones, for the belief behind the answers."""
        from pied.solvers.cuqb import CUQB

        return self.solver if isinstance(self.solver, CUQB) else CUQB()

    @property
    def stream(self) -> Stream:
        """Random numbers of samples and searches."""
        return Stream(self.seed)

    # ------------------------------------------------------------------------------------------------ status

    @cached_property
    def status(self) -> Status:
        """Status of the study."""
        if self.white is not None or self.is_infeasible:
            return Status.INFEASIBLE
        if self.is_exhausted:
            return Status.DONE if self.problem.n == 0 or self._is_met else Status.INFEASIBLE
        if self.is_broken:
            return Status.BROKEN
        return Status.DONE if self.is_done else Status.RUNNING

    @cached_property
    def is_exhausted(self) -> bool:
        """Whether there are few settings and each was measured without error, or failed: nothing is left to learn."""
        points, data = self.problem.choosable, self.data
        if points is None or any(noise != 0 for noise in self.problem.noise):
            return False
        known = np.concatenate([data.U[data.complete], data.failed])
        return len(known) >= len(points) and bool((to_nearest(points, known, "chebyshev") <= SAME).all())

    @property
    def _is_met(self) -> bool:
        """Whether a told point meets every constraint, with noise by the mean of its measurements."""
        return bool(met(self.problem, self.data).any())

    @cached_property
    def is_broken(self) -> bool:
        """Whether the black box does not work at all; failures in a part of the box are normal and are learned.

        It does not when nothing was told and either the whole initial design failed, or the first evaluations failed
        for reasons that cannot depend on the point; nor when an output came in no evaluation of the initial design.
        """
        if self._never_came:
            return True
        if any(trial.state in (State.TOLD, State.PARTIAL) for trial in self.trials):
            return False
        asked = [trial for trial in self.trials if not trial.is_added and trial.state is not State.WITHDRAWN]
        failed = [trial.state is State.FAILED for trial in asked]
        first = asked[:FIRST_FAILURES]
        if len(asked) >= self.initial and all(failed[: self.initial]):
            return True
        is_code = all(failed[:FIRST_FAILURES]) and all(is_everywhere(trial.reason) for trial in first)
        return len(first) == FIRST_FAILURES and is_code

    @cached_property
    def _never_came(self) -> tuple[str, ...]:
        """Outputs that the black box gave at no point of a whole initial design; people may tell them later."""
        done = [trial for trial in self.trials if trial.state in (State.TOLD, State.PARTIAL)]
        if self.problem.blackbox is None or not done or len(done) < self.initial:
            return ()
        missing = np.isnan(self.data.Y).all(0)
        return tuple(
            name for name, is_missing in zip(self.problem.outputs, missing.tolist(), strict=True) if is_missing
        )

    @cached_property
    def is_infeasible(self) -> bool:
        """Whether the verdict is reached: confirmed, and no outcome is awaited that could still be feasible.

        A pending trial could be if it was proposed when the constraints seemed satisfiable, so the verdict waits until
        it is told or failed. Without this, a feasible problem was declared while its best point was being evaluated.
        What a black box left out of its answer will not come any more.
        """
        is_run = self.problem.blackbox is not None
        awaited = {
            trial.number
            for trial in self.trials
            if trial.state is State.ASKED or (trial.state is State.PARTIAL and not is_run)
        }
        is_awaited = any(
            trial.number in awaited and not (trial.why.margin is not None and trial.why.margin < 0)
            for trial in self._of_this_question
        )
        return self.is_confirmed and not is_awaited

    @cached_property
    def is_confirmed(self) -> bool:
        """Whether the last tests of a belief all found the constraints unsatisfiable, and no told point is feasible."""
        if self.patience is None or self.problem.n == 0 or self.confirmations == 0:
            return False
        return self.confirmations >= self.needed and not self._is_met

    @property
    def needed(self) -> int:
        """Number of confirmations that a verdict needs."""
        return 1 if self._tests_singly or self.patience is None else self.patience

    @property
    def _tests_singly(self) -> bool:
        """Whether the solver tests one constraint at a time, as the paper does."""
        from pied.solvers.cuqb import CUQB

        return isinstance(self.solver, CUQB) and self.solver.verdict == "single"

    @cached_property
    def confirmations(self) -> int:
        """Number of consecutive tests which confirm that the constraints cannot be met.

        A test that finds them unsatisfiable (M < 0) confirms once its trial is told. Parallel tests use the same data
        and count once. The number is therefore the length of the longest chain of told tests since the last passed
        test, in which each test knew the values of its predecessor.
        """
        chains: list[tuple[Trial, int]] = []
        for trial in self._of_this_question:
            if trial.is_added or trial.why.aim in ("initial", "repeat"):
                continue
            if trial.why.margin is None or not trial.why.margin < 0:
                chains = []
            elif trial.state is State.TOLD:
                known = [length for before, length in chains if trial.knew(before)]
                chains.append((trial, 1 + max(known, default=0)))
        return max((length for _, length in chains), default=0)

    @property
    def _previous(self) -> "tuple[Choice, ...] | None":
        """Models chosen for the last belief, if recorded."""
        from pied.bounds import from_memory

        return from_memory(self.data.last.memory) if self.data.last is not None else None

    @property
    def _of_this_question(self) -> list[Trial]:
        return [trial for trial in self._believed if trial.revision == self.revision]

    # ------------------------------------------------------------------------------------------------ answers

    @cached_property
    def front(self) -> "Front":
        """The best trade-offs between several objectives."""
        from pied.study.fronting import front_of

        return front_of(self)

    def gap(self, recommendation: "Recommendation | None" = None) -> tuple[float | None, float | None]:
        """Return the gap and the relative gap: how much better any point could still be (see `recommendation.gap`)."""
        if self.problem.has_front:  # its analogue is the growth of the front
            return None, None
        if self.is_exhausted and self._is_met:
            return 0.0, 0.0
        from pied.study.recommendation import gap

        whys = [trial.why for trial in self._of_this_question]
        optima = [why.optimistic for why in whys if why.optimistic is not None]
        if not optima:  # while feasibility is being tested, no point is certified
            return (math.inf, math.inf) if any(why.margin is not None for why in whys) else (None, None)
        found = recommendation or self.recommend(None)
        certain = found.certified if found is not None else None
        width = gap(optima, certain)
        if found is not None and math.isfinite(width) and self.settings.believer.cautious:
            width = max(width, self._possible_gain(found))
        if certain is None or not math.isfinite(width):
            return math.inf, math.inf
        f = self.data.functions(self.problem)[:, :1]
        size = max(abs(width + certain), abs(certain), float(spread(f[np.isfinite(f[:, 0])])[0]))
        return width, width / size

    def _possible_gain(self, found: "Recommendation") -> float:
        """Return how much better any point could be by the bounds as they are said now."""
        from pied.study.prospect import possible_gain

        settings = self.settings
        composite = settings.believer.doubted(
            self.problem, self.data, self.belief, self.stream.at("recommend"), settings.level
        )
        return possible_gain(composite, found, settings.level, self.stream.at("gap"))

    @cached_property
    def chance(self) -> float | None:
        """The probability that any settings meet all limits; None where it would mean nothing: within a design."""
        if self.problem.n == 0 or self.white is not None or self.data.complete.sum() < self.initial:
            return None
        from pied.study import apart
        from pied.study.prospect import chance_of_any

        settings = self.settings
        if self._sides:
            stream = self.stream.at("chance")
            return apart.chance(self.problem, settings.believer, self._sides, settings.level, stream)
        return chance_of_any(
            self.composite("recommend"),
            self.told_belief,
            settings.believer.caution(self.problem, self.data, settings.level),
            settings.level,
            self.data.U,
            self.stream.at("chance"),
        )

    @cached_property
    def _sides(self) -> "list[Side]":
        """The regimes on which the last test rests if it found the constraints unsatisfiable; else none."""
        last = next((trial.why for trial in reversed(self._of_this_question) if trial.why.margin is not None), None)
        if last is None or self.confirmations == 0 or "apart" not in last.memory:
            return []
        from pied.study.apart import sides_of

        return sides_of(self.problem, self.settings.believer, self.data, last)

    def recommend(self, rule: str | None) -> "Recommendation | None":
        """Recommend a point; return None when no point was told completely."""
        from pied.solvers.cuqb import CUQB
        from pied.study.recommendation import default_rule, recommend

        data, settings = self.data, self.settings
        rows = {trial.number: trial for trial in self._believed}
        asked = [rows[number] for number in data.numbers]
        plain = [
            trial.is_added or trial.why.aim in ("initial", "repeat") or trial.revision != self.revision
            for trial in asked
        ]
        return recommend(
            self.problem,
            data,
            rule or ("asked" if settings == CUQB.paper() else default_rule(self.problem)),
            level=settings.level,
            believer=settings.believer,
            previous=self._previous,
            asked=[None if is_plain else trial.why for trial, is_plain in zip(asked, plain, strict=True)],
            stream=self.stream,
            penalty=settings.penalty,
            belief_of=lambda: self.belief,
        )

    def composite(self, label: str) -> "Composite":
        """Return the bounds of all functions under the current belief; `label` names the stream of their samples."""
        settings = self.settings
        return settings.believer.said(self.problem, self.data, self.belief, self.stream.at(label), settings.level)

    @cached_property
    def belief(self) -> "GP":
        """The belief behind the answers: what is pending or failed is imagined."""
        if self.belief_of is not None:
            return self.belief_of()
        return self.settings.believer.fit(self.problem, self.data, self._previous)

    @property
    def snapshot(self) -> "Snapshot":
        """Itself, so that pictures take a study or one moment of it."""
        return self

    def under(self, problem: Problem) -> "Snapshot":
        """Return the same data under another question with the same variables and outputs, for instance other prices.

        The belief is about the outputs, so it stays: only the white box changes, and nothing is fitted again.
        """
        return replace(
            self, problem=problem, revision=OTHER_QUESTION, conflict_of=lambda: None, belief_of=lambda: self.belief,
            told_belief_of=lambda: self.told_belief,
        )  # fmt: skip

    @cached_property
    def told_belief(self) -> "GP":
        """The belief from told values alone: what is pending or failed is not imagined."""
        if self.told_belief_of is not None:
            return self.told_belief_of()
        if not len(self.data.imagined) and not self.data.failures:
            return self.belief
        data = replace(self.data, imagined=self.data.imagined[:0], failures=())
        return self.settings.believer.fit(self.problem, data, self._previous)

    def expected(
        self, X: Float64[ndarray, "b v"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return lower end, median and upper end of measurements at points in natural units, noise included."""
        from pied.bounds import predicted

        level = self.settings.level
        factor = self.settings.believer.caution(self.problem, self.data, level)
        return predicted(self.problem, self.told_belief, np.clip(self.problem.to_unit(X), 0.0, 1.0), level, factor)

    def left_out(
        self,
    ) -> tuple[Float64[ndarray, "N m"], Float64[ndarray, "N m"], Float64[ndarray, "N m"]]:
        """Return what the other measurements predict for each one, models kept: lower end, median, upper end."""
        from pied.study.prediction import left_out

        return left_out(self.problem, self.data, self.told_belief, self.settings)

    def noise(self) -> dict[str, float]:
        """Return the standard deviation of each output's noise: as stated, else as learned."""
        from pied.study.prediction import deviations

        return dict(zip(self.problem.outputs, deviations(self.problem, self.told_belief, self.data), strict=True))

    @cached_property
    def doubtful(self) -> "tuple[Doubtful, ...]":
        """The measurements that do not fit the others, the surest first."""
        from pied.study.doubtful import doubtful_of

        if (np.isfinite(self.data.Y).sum(0) < 2).any():
            return ()
        return doubtful_of(self.problem, self.data, self.told_belief, self.settings)

    def relaxation(self) -> Relaxation | None:
        """Return what would make an infeasible problem plausible again; None unless the status is infeasible."""
        if self.white is not None:
            return self.white
        if self.status is not Status.INFEASIBLE:
            return None
        from pied.solvers.cuqb import VERDICT_LEVEL

        settings = self.settings
        level = VERDICT_LEVEL if settings.verdict == "joint" else settings.level
        believer, stream, start = settings.believer, self.stream.at("relax"), self.data.U[-1]
        if self._sides:
            from pied.study.apart import relaxed

            return relaxed(self.problem, believer, self._sides, level, stream, start)
        return relax(believer.bound(self.problem, self.data, self.belief, stream), level, stream, start)

    def at(self, x: Named, number: int | None) -> "Recommendation":
        """Return what is known at a point under the current question: the told value if it is exact, else bounds."""
        from pied.study.recommendation import default_rule, describe

        problem, data, level = self.problem, self.data, self.settings.level
        composite = self.composite("recommend")
        u = problem.to_unit(np.array(x.array))
        row = data.numbers.index(number) if number in data.numbers else None
        found = describe(composite, u, row, "lower", level)
        if row is None or default_rule(problem) != "observed" or not bool(data.complete[row]):
            return found
        f = data.functions(problem)
        return replace(found, is_feasible=bool(feasible(problem, f)[row])).with_told(f[row])

    @property
    def initial_index(self) -> int | None:
        """Index of the next point of the initial design; None when the design is complete."""
        first = [trial for trial in self.trials if not trial.is_added and trial.why.aim == "initial"]
        added = sum(trial.is_added and trial.state is State.TOLD for trial in self.trials)
        told = [trial for trial in self.trials if trial.state in (State.TOLD, State.PARTIAL)]
        gone = [trial for trial in self.trials if trial.state is State.WITHDRAWN]
        lost = sum(trial.is_added or trial.why.aim == "initial" for trial in gone)
        chosen = sum(not trial.is_added and trial.why.aim != "initial" for trial in told)
        here = len(first) - sum(trial.state is State.WITHDRAWN for trial in first)
        is_complete = here + added + min(lost, chosen) >= self.initial  # chosen points stand in for withdrawn ones
        return None if is_complete and len(told) >= 2 else len(first)

    def compared(self, old: Problem | None, number: int, names: Mapping[str, str] | None = None) -> Revision:
        """Answer the question anywhere in the box, and compare with the optimum of an old question.

        Args:
            old: The old question; None when it cannot be restored.
            number: Number of the old question.
            names: What its variables and outputs are called now, by their old names, where they were renamed.
        """
        names = names or {}
        result = self.result(None if self.problem.has_front else "anywhere")
        if old is None:
            return Revision(result, None, None)
        there = (_for_question(trial, old, names) for trial in self.trials)
        trials = tuple(trial for trial in there if trial is not None)
        past = replace(self, problem=old, trials=trials, revision=number, conflict_of=conflict_of(old)).result()
        if past.x is None:
            return Revision(result, None, past)
        now = {names.get(name, name): value for name, value in past.x.items()}
        x = self.problem.named_x(np.array(self.problem.codes(now)))
        if past.trial is None and not bool(self.problem.settable(np.array([x.array]))[0]):
            return Revision(result, None, past)
        found = self.at(x, past.trial)
        return Revision(
            result, self.described(found, self.status, "The previous best settings, under the new question:"), past
        )

    # ------------------------------------------------------------------------------------------------ the result

    def result(self, rule: str | None = None, ended: Status | None = None) -> Result:
        """Return the recommended point and all that is known about it.

        Args:
            rule: Rule of recommendation.
            ended: How the last run ended, if nothing has changed since.
        """
        status = ended if ended is not None and self.status is Status.RUNNING else self.status
        relaxation = self.relaxation() if status is Status.INFEASIBLE else None
        if self.problem.has_front:
            return self._with_front(rule, status, relaxation)
        found = self.recommend(rule)
        return self.described(found, status, self.message(status, relaxation, found), rule, relaxation)

    def _with_front(self, rule: str | None, status: Status, relaxation: Relaxation | None) -> Result:
        """Return the front, and its balanced point as the recommended one; without a front, the least violated one."""
        if rule is not None:
            raise SettingError(
                f"a rule recommends one point, and this study has {len(self.problem.objectives)} objectives: "
                "choose from its front, study.result().pick(...)"
            )
        front = self.front
        knee = front.pick() if len(front) else None
        found = self.recommend("observed") if knee is None else self.at(knee.x, knee.trial)
        if knee is not None and found is not None:
            found = replace(found, is_feasible=True)
        made = self.described(found, status, self.message(status, relaxation, found), rule, relaxation)
        if knee is None:
            return replace(made, front=front)
        return replace(made, front=front, values=knee.values, bounds=knee.bounds | made.bounds)

    def described(
        self,
        found: "Recommendation | None",
        status: Status,
        message: str,
        rule: str | None = None,
        relaxation: Relaxation | None = None,
    ) -> Result:
        """Convert a recommendation to the user's names and units."""
        from pied.study.recommendation import default_rule

        problem = self.problem
        nothing = Result(
            status=status, message=message, x=None, y=None, value=math.nan, bounds={}, slack={}, probability={},
            is_feasible=False, gap=None, relative_gap=None, trial=None, trials=self.trials,
            rule=found.rule if found is not None else rule or default_rule(problem), objective=problem.objective,
            level=self.settings.level, seed=self.seed, relaxation=relaxation,
            settings={"solver": self.solver.name, "settings": repr(self.solver)}, words=Words.of(problem),
            confirmations=(self.confirmations, self.needed), doubtful_of=lambda: self.doubtful,
        )  # fmt: skip
        if found is None:
            return nothing
        width, relative = self.gap(found)
        number = self.data.numbers[found.row] if found.row is not None else None
        told = next((trial for trial in self.trials if trial.number == number), None)
        low, high = sorted(problem.user_value(float(each)) for each in (found.lower[0], found.upper[0]))
        names = problem.constraints
        bounds = {name: (float(found.lower[i]), float(found.upper[i])) for i, name in enumerate(names, 1)}
        probability = {name: float(found.probability[i]) for i, name in enumerate(names)}
        return replace(
            nothing,
            x=problem.named_x(problem.natural(found.u)) if told is None else told.x,
            y=None if told is None else told.y,
            value=problem.user_value(float(found.value[0])),
            bounds={problem.objective: (low, high), **bounds},
            slack={name: float(found.value[i]) for i, name in enumerate(names, 1)},
            probability=probability | ({"all": found.joint} if names else {}),
            is_feasible=found.is_feasible,
            gap=width,
            relative_gap=relative,
            trial=number,
            chance=None if found.is_feasible else self.chance,
        )

    def message(
        self, status: Status, relaxation: Relaxation | None = None, found: "Recommendation | None" = None
    ) -> str:
        """Return the status as a sentence, with the relevant numbers."""
        if status is Status.INFEASIBLE and relaxation is not None:
            return self._verdict(relaxation)
        if status is Status.BROKEN:
            return self._broken()
        if not self.trials:
            return "Nothing has been evaluated yet."
        text = status.value
        if self.used and all(trial.why.aim in ("initial", "added") for trial in self.trials):
            text += (
                f" The first {self.initial} points are spread over the ranges; after them each one is chosen."
                if status is Status.RUNNING
                else f" It ended within the first {self.initial} points, which are spread over the ranges; "
                f"give a budget above {self.initial}."
            )
        if found is not None and not found.is_feasible:
            text += f" No settings are known to meet all limits{self._doubt(status)}. Closest so far:"
        return text

    def _doubt(self, status: Status) -> str:
        """Return how near the verdict is that no settings can meet them, as a phrase; empty if nothing points to it."""
        if status is Status.INFEASIBLE or self.patience is None:
            return ""
        text = self.doubt
        return text if self.chance is None else f"{text}; probability that any do: {percent(self.chance)}"

    @property
    def doubt(self) -> str:
        """How many tests confirm that no settings meet all limits, as a phrase; empty if none do."""
        if self.patience is None or not self.confirmations or self._is_met:
            return ""
        return f"; {self.confirmations} of {self.needed} confirmations that there are none"

    def _broken(self) -> str:
        """Return a message: how many evaluations failed, why, and what to do."""
        if self._never_came:
            count = sum(trial.y is not None for trial in self.trials)
            return (
                f"The black box never gave {listed(self._never_came)} in {count} evaluations (missing, None or not "
                "finite): mend it, or leave this output out, then run again."
            )
        reasons = failures(self.trials)
        shown = [f"{count} x {reason}" for reason, count in list(reasons.items())[:REASONS_SHOWN]]
        others = sum(list(reasons.values())[REASONS_SHOWN:])
        shown += [f"{others} x other reasons"] if others else []
        text = f"{Status.BROKEN.value} {sum(reasons.values())} of {self.used} failed. Reasons: {' | '.join(shown)}"
        if all(is_everywhere(reason) for reason in reasons):
            return f"{text} | Such a mistake cannot depend on the settings: mend what is evaluated, then run again."
        return f"{text} | Mend what is evaluated, or add settings where it works, then go on."

    def _verdict(self, relaxation: Relaxation) -> str:
        """Return a message: no point meets the constraints, which of them are in conflict, and what would help."""
        quoted = " and ".join(f"'{name}'" for name in relaxation.conflict)
        together = " together" if len(relaxation.conflict) > 1 else ""
        if self.white is not None:
            where = "within the ranges" if self.problem.candidates is None else "by any candidate"
            white = [self.problem.functions[place] for place in self.problem.white]
            where = where if set(relaxation.conflict) <= set(white) else "by any value within the stated ranges"
            text = f"No settings meet the known limits: {quoted} cannot be met{together} {where}."
            text += " Nothing needed to be evaluated." if not self.used else ""
        elif self.is_exhausted:
            few = 0 if self.problem.choosable is None else len(self.problem.choosable)
            text = f"No settings meet all limits: all {few} that can be chosen were tried."
        else:
            count = f"{self.patience} confirmation{'s' * (self.patience != 1)}"
            test = "one at a time" if self._tests_singly else count
            text = f"No settings meet all limits: {quoted} cannot be met{together} ({test}, {self.used} evaluations)."
        words = Words.of(self.problem)
        helps = [words.relaxed(name, amount) for name, amount in relaxation.alone.items() if amount is not None]
        if helps:
            text += f" Feasible perhaps with {' or '.join(helps)}."
        return text


def _for_question(trial: Trial, old: Problem, names: Mapping[str, str]) -> Trial | None:
    """Return a trial with the variables and outputs of another question, by the names and in the order there.

    None if it has a label that the other question does not know.
    """

    def there(point: Named) -> Named:
        return old.named_x(np.array(old.codes({name: point[names.get(name, name)] for name in old.variables})))

    try:
        x = there(trial.x)
        proposed = None if trial.proposed is None else there(trial.proposed)
    except UnknownName:
        return None
    is_same = tuple(trial.x) == tuple(old.variables) and tuple(x.array) == tuple(trial.x.array)
    if is_same and (trial.y is None or tuple(trial.y) == old.outputs):
        return trial

    def told(y: Named) -> Named:
        now = {name: names.get(name, name) for name in old.outputs}
        return Named(list(now), tuple(float(y[new]) if new in y else math.nan for new in now.values()))

    return replace(
        trial,
        x=x,
        proposed=proposed,
        y=None if trial.y is None else told(trial.y),
        why=replace(trial.why, memory={}),
    )
