"""Gap, recommendation and result of a study, all computed from one snapshot of its record."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from pied.errors import SettingError, Status
from pied.problem import Named, Problem
from pied.records import Trial, feasible, ranges, spread
from pied.shapes import Float64
from pied.study.blame import Blame, blame_of
from pied.study.gaps import WIDEST, Gap, Top, Unknown, lowest, refuted, tops
from pied.study.messages import confirmed, message
from pied.study.moment import UNSOUGHT, Moment
from pied.study.present import at_present
from pied.study.reframing import for_question
from pied.study.relaxation import Relaxation, conflict_of, relax
from pied.study.result import Result, Revision
from pied.study.words import Words

if TYPE_CHECKING:
    from pied.bounds import Composite, TwoRegimes
    from pied.gp import GP, ModelChoice
    from pied.search import Optimum
    from pied.study.blocks import BlockOffset
    from pied.study.campaigns import Relation
    from pied.study.doubtful import Doubtful
    from pied.study.following import Following
    from pied.study.front import Front
    from pied.study.recommendation import Recommendation
    from pied.study.regime_verdict import Side

OTHER_QUESTION = -1
"""Number of a question that was not recorded: no trial was proposed for it."""


@dataclass(frozen=True, eq=False)
class Snapshot(Moment):
    """A study at one moment, and all answers that follow from its record.

    Beliefs, and the solver of a stored study, are loaded when an answer needs them: counting trials needs neither.
    """

    belief_of: "Callable[[], GP] | None" = None
    """Return the belief, if it is that of another question on the same data; None: it is fitted when first needed."""

    @property
    def _previous(self) -> "tuple[ModelChoice, ...] | None":
        """Models chosen for the last belief, if recorded."""
        from pied.bounds import from_memory

        return from_memory(self.data.last.memory) if self.data.last is not None else None

    # ------------------------------------------------------------------------------------------------ answers

    @cached_property
    def front(self) -> "Front":
        """The best trade-offs between several objectives."""
        from pied.study.fronting import front_of

        return front_of(self)

    @cached_property
    def recommended(self) -> "Recommendation | None":
        """The recommended point by the usual rule; None when no point was told completely."""
        return self.recommend(None)

    @cached_property
    def told_still(self) -> Gap:
        """How much better than it any point could be, or why that is not told."""
        return self.still(self.recommended)

    def gap(self, recommendation: "Recommendation | None" = None) -> tuple[float | None, float | None]:
        """Return the gap and the relative gap: how much better any point could still be (see `gaps.gap`)."""
        found = self.still(recommendation)
        return found.width, found.relative

    def still(self, recommendation: "Recommendation | None" = None) -> Gap:
        """Return how much better than a recommended point any could still be, or why that is not told."""
        if self.problem.has_front:  # its analogue is the growth of the front
            return Gap(None)
        is_young = self.data.earlier_campaigns is not None and self.data.complete.sum() < self.initial
        if self.is_too_few or is_young:
            return Gap(math.inf, math.inf, Unknown.FEW.value)
        if self.problem.slice is not None or self.block:
            return self._still_on_slice(recommendation)
        if self.is_exhausted and self.is_met:
            return Gap(0.0, 0.0)
        mine = self.of_this_question
        stated = tops(mine)
        if not any(stated):  # while feasibility is being tested, no point is certified
            is_tested = any(trial.why.margin is not None for trial in mine)
            return Gap(math.inf, math.inf, Unknown.UNCERTAIN.value) if is_tested else Gap(None, None, self._why_unknown)
        found = recommendation or self.recommended
        if found is None or found.certified is None:
            return Gap(math.inf, math.inf, Unknown.UNCERTAIN.value)
        return self._told_gap([*stated, *self._stated_now(found, found.certified)], found.certified)

    def _stated_now(self, found: "Recommendation", certain: float) -> list[Top]:
        """Return what bounds the optimum as it would be said now, and what no outputs can exceed."""
        from pied.problem import ceiling

        stated = [Top(ceiling(self.problem))]
        if self.settings.believer.cautious:
            stated.append(Top(self._possible_top(found, certain), not self._assumes_smooth))
        return stated

    def _still_on_slice(self, recommendation: "Recommendation | None") -> Gap:
        """Return the same on a slice: by the bounds as they are said now, if a belief proposes at all."""
        whys = [trial.why for trial in self.trials]
        if not any(why.optimistic is not None or why.margin is not None for why in whys):
            return Gap(None, None, self._why_unknown)
        found = recommendation or self.recommended
        if found is None or found.certified is None:
            return Gap(math.inf, math.inf, Unknown.UNCERTAIN.value)
        return self._told_gap(self._stated_now(found, found.certified), found.certified)

    def told_gap(self, width: float, certain: float) -> Gap:
        """Return a gap as it is told: not where it is so large, or rests on so little, that it says nothing.

        Args:
            width: How much better than is certain any point could be, as it is said now.
            certain: Objective that is certain.
        """
        return self._told_gap([Top(certain + width, not self._assumes_smooth)], certain)

    def _told_gap(self, stated: "Sequence[Top | None]", certain: float) -> Gap:
        """Return the gap that follows from stated bounds of the optimum."""
        f = self.data.functions(self.problem)[:, :1]
        f = f[np.isfinite(f[:, 0])]
        span = float(ranges(f)[0])
        top = lowest(stated, certain)
        if top is None or not top.value - certain <= WIDEST * span:
            below = [each for each in stated if each is not None and certain <= each.value <= certain + WIDEST * span]
            why = Unknown.UNSURE if below else Unknown.REFUTED if top is None else Unknown.TOO_WIDE
            return Gap(math.inf, math.inf, why.value)
        width = top.value - certain
        return Gap(width, width / max(abs(top.value), abs(certain), float(spread(f)[0])))

    def refuted_by(self, number: int) -> Top | None:
        """Return the bound of the optimum that counted until the value of a trial was told, if that is above it.

        A value with noise refutes none by itself: there it is what is certain of the recommended settings.
        """
        if self.problem.has_front or self.problem.slice is not None or number not in self.data.numbers:
            return None
        row, stated = self.data.numbers.index(number), tops(t for t in self.of_this_question if t.number <= number)
        if not self.problem.is_exact:
            found = self.recommended
            if found is None or found.row != row or found.certified is None:
                return None
            return refuted(stated, -math.inf, found.certified)
        f = self.data.functions(self.problem)
        fine, earlier = feasible(self.problem, f), np.array(self.data.numbers) < number
        before = float(f[fine & earlier, 0].max(initial=-math.inf))
        return refuted(stated, before, float(f[row, 0])) if fine[row] else None

    @property
    def _why_unknown(self) -> str:
        """Why no proposal says how much better is possible."""
        sought = [trial for trial in self.trials if not trial.is_added and trial.why.aim not in UNSOUGHT]
        given = self.problem.given
        mine = [trial for trial in sought if trial.revision == self.revision and dict(trial.why.given) == given]
        if any(trial.why.optimistic is not None for trial in mine):
            return Unknown.CORRECTED.value
        if mine and self.data.earlier_campaigns is not None:
            return Unknown.FEW.value
        return Unknown.UNTOLD.value if mine else Unknown.UNASKED.value if sought else Unknown.SPREAD.value

    @property
    def _assumes_smooth(self) -> bool:
        """Whether the belief takes outputs for smoother than the told values show."""
        from pied.bounds import assumes_smooth

        believer = self.settings.believer
        return believer.cautious and assumes_smooth(
            self.problem, believer.of_told(self.problem, self.data, self.alone), self.data.Y
        )

    def possible_optimum(self, found: "Recommendation") -> "Optimum":
        """Return where the upper bound is the largest, as far as the belief is to be doubted."""
        if found.rule not in self._optima or self._optima[found.rule][0] is not found:
            from pied.study.prospect import possible_optimum

            believer, stream = self.settings.believer, self.stream
            composite = believer.doubted(self.problem, self.data, self.alone, stream.at("recommend"), self.level)
            self._optima[found.rule] = found, possible_optimum(composite, found, self.level, stream.at("gap"))
        return self._optima[found.rule][1]

    @cached_property
    def _optima(self) -> "dict[str, tuple[Recommendation, Optimum]]":
        """Those that were searched already, by rule of recommendation."""
        return {}

    def _possible_top(self, found: "Recommendation", certain: float) -> float:
        """Return the largest upper bound of the objective as it is said now."""
        best = self.possible_optimum(found)
        return max(float(best.f[0]) if best.satisfied else -math.inf, float(found.upper[0]), certain)

    @property
    def is_too_few(self) -> bool:
        """Whether too few measurements were made to say anything but what was measured."""
        return self.settings.believer.trust(self.problem, self.data, self.level).is_too_few

    @cached_property
    def untried(self) -> tuple[str, ...]:
        """What was never tried and may meet all limits, as phrases; empty while a design is under way, or if any do."""
        if self.problem.n == 0 or self.white is not None or self.data.complete.sum() < self.initial or self.is_met:
            return ()
        from pied.solvers.untried import Untried

        believer, data = self.settings.believer, self.data.settled
        belief = believer.of_told(self.problem, data, self.alone)
        return Untried(self.problem, believer, data, belief).phrases()

    @cached_property
    def chance(self) -> float | None:
        """The probability that any settings meet all limits; None where it would mean nothing.

        That is within a design, and while what was never tried may meet them: no belief knows how likely that is.
        """
        if self.problem.n == 0 or self.white is not None or self.data.complete.sum() < self.initial or self.untried:
            return None
        if self.is_too_few:
            return None
        from pied.study import regime_verdict
        from pied.study.prospect import chance_of_any

        settings = self.settings
        if self._sides:
            stream = self.stream.at("chance")
            return regime_verdict.chance(self.problem, settings.believer, self.data, self._sides, self.level, stream)
        level, stream = self.level, self.stream
        careful = settings.believer.careful(self.problem, self.data, self.alone.beyond_plateaus, level)
        composite = settings.believer.bound(self.problem, self.data, careful, stream.at("recommend"))
        return chance_of_any(composite, careful, level, self.data.U, stream.at("chance"))

    @cached_property
    def _sides(self) -> "list[Side]":
        """The regimes on which the last test rests if it found the constraints unsatisfiable; else none."""
        last = next((trial.why for trial in reversed(self.of_this_question) if trial.why.margin is not None), None)
        if last is None or self.confirmations == 0 or "apart" not in last.memory:
            return []
        from pied.study.regime_verdict import sides_of

        return sides_of(self.problem, self.settings.believer, self.data, last)

    def recommend(self, rule: str | None) -> "Recommendation | None":
        """Recommend a point; return None when no point was told completely."""
        from pied.study.recommendation import default_rule, recommend

        data, settings = self.data, self.settings
        rows = {trial.number: trial for trial in self.believed}
        asked = [rows[number] for number in data.numbers]
        plain = [trial.is_added or trial.why.aim in UNSOUGHT or trial.revision != self.revision for trial in asked]
        return recommend(
            self.problem,
            data,
            rule or settings.rule or default_rule(self.problem),
            level=self.level,
            believer=settings.believer,
            previous=self._previous,
            asked=[None if is_plain else trial.why for trial, is_plain in zip(asked, plain, strict=True)],
            stream=self.stream,
            penalty=settings.penalty,
            belief_of=lambda: self.belief,
            regimes=self.regimes,
        )

    @cached_property
    def regimes(self) -> "TwoRegimes | None":
        """The regimes of noisy outputs that the last proposal was made with; None where there are none."""
        from pied.bounds import remembered

        if self.data.last is None:
            return None
        believer, level = self.settings.believer, self.level
        return remembered(self.problem, believer, self.data, self.data.last.memory, self.stream.at("recommend"), level)

    def composite(self, label: str) -> "Composite":
        """Return the bounds of all functions under the current belief; `label` names the stream of their samples."""
        settings = self.settings
        return settings.believer.said(self.problem, self.data, self.belief, self.stream.at(label), self.level)

    @cached_property
    def belief(self) -> "GP":
        """The belief behind the answers, from told values alone: nothing that is pending or failed is imagined."""
        if self.belief_of is not None:
            return self.belief_of()
        return self.settings.believer.fit(self.problem, self.data, self._previous, imagine=False)

    @cached_property
    def alone(self) -> "GP":
        """The belief about the present campaign alone."""
        return self.settings.believer.alone(self.problem, self.data, self.belief, self.block)

    def in_block(self, name: str) -> "Snapshot":
        """Return the same record asked about one block; about an average one if nothing was measured in it."""
        return replace(self, block=name) if name in self.data.blocks else self

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
        )  # fmt: skip

    def on(self, given: Mapping[str, Any]) -> "Snapshot":
        """Return the same record asked on a slice; what was measured elsewhere counts fully. None given: all of it.

        Observed variables that are not given have the values of the last measured trial.
        """
        given = at_present(self.problem, self.trials, given)
        if not given:
            return self
        problem = self.problem.sliced(given)
        belief_of = None if problem.is_turned else lambda: self.belief
        return replace(self, problem=problem, conflict_of=conflict_of(problem), belief_of=belief_of, is_done=False)

    def expected(
        self, X: Float64[ndarray, "b v"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return lower end, median and upper end of measurements at points in natural units, noise included."""
        from pied.bounds import predicted

        level = self.level
        U = np.clip(self.problem.to_unit(X), 0.0, 1.0)
        if self.regimes is not None:
            return self.regimes.predicted(U, level)
        factor = self.settings.believer.trust(self.problem, self.data, level).stated
        return predicted(self.problem, self.belief, U, level, factor)

    @cached_property
    def left_out(
        self,
    ) -> tuple[Float64[ndarray, "N m"], Float64[ndarray, "N m"], Float64[ndarray, "N m"]]:
        """Return what the other measurements predict for each one, models kept: lower end, median, upper end."""
        from pied.study.prediction import left_out

        return left_out(self.problem, self.data, self.belief, self.settings)

    def noise(self) -> dict[str, tuple[float, float]]:
        """Return the standard deviation of each output's noise: as stated, else the smallest and largest learned."""
        from pied.study.prediction import deviations

        return dict(zip(self.problem.outputs, deviations(self.problem, self.belief, self.data), strict=True))

    @cached_property
    def doubtful(self) -> "tuple[Doubtful, ...]":
        """The measurements that do not fit the others, the surest first."""
        from pied.study.doubtful import doubtful_of

        if (np.isfinite(self.data.Y).sum(0) < 2).any():
            return ()
        return doubtful_of(self.problem, self.data, self.belief, self.settings)

    @cached_property
    def blocks(self) -> "tuple[BlockOffset, ...]":
        """By how much each block reads outputs higher or lower than an average one."""
        from pied.study.blocks import offsets_of

        if not self.data.blocks or (np.isfinite(self.data.Y).sum(0) < 2).any():
            return ()
        return offsets_of(self.problem, self.data, self.belief)

    @cached_property
    def campaigns(self) -> "tuple[Relation, ...]":
        """How earlier campaigns are related to the present one."""
        from pied.study.campaigns import relations_of

        if self.settings.believer.priors is not None:
            return ()  # what is stated is about the present one alone
        return relations_of(self.problem, self.data, lambda: self.belief)

    @cached_property
    def models(self) -> "tuple[Following, ...]":
        """Which outputs follow their models, and what is left of them."""
        from pied.study.following import followed

        if self.problem.models is None or (np.isfinite(self.data.Y).sum(0) < 2).any():
            return ()
        return followed(self.problem, self.data, self.belief)

    def relaxation(self) -> Relaxation | None:
        """Return what would make an infeasible problem plausible again; None unless the status is infeasible."""
        if self.white is not None:
            return self.white
        if self.status is not Status.INFEASIBLE:
            return None
        from pied.bounds import VERDICT_LEVEL

        settings = self.settings
        level = self.level if settings.tests_singly else VERDICT_LEVEL
        believer, stream, start = settings.believer, self.stream.at("relax"), self.data.U[-1]
        if self._sides:
            from pied.study.regime_verdict import relaxed

            return relaxed(self.problem, believer, self._sides, level, stream, start)
        composite = believer.bound(self.problem, self.data, self.belief, stream)
        return relax(composite, level, stream, start, singly=settings.tests_singly)

    def at(self, x: Named, number: int | None) -> "Recommendation":
        """Return what is known at a point under the current question: the told value if it is exact, else bounds."""
        from pied.study.recommendation import default_rule, describe

        problem, data, level = self.problem, self.data, self.level
        composite = self.regimes or self.composite("recommend")
        u = problem.to_unit(np.array(x.array))
        row = data.numbers.index(number) if number in data.numbers else None
        found = describe(composite, u, row, "lower", level)
        if row is None or default_rule(problem) != "observed" or not bool(data.complete[row]):
            return found
        f = data.functions(problem)
        return replace(found, is_feasible=bool(feasible(problem, f)[row])).with_told(f[row])

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
        there = (for_question(trial, old, names) for trial in self.trials)
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
        found = self.recommended if rule is None else self.recommend(rule)
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
            level=self.level, seed=self.seed, relaxation=relaxation,
            settings={"solver": self.solver.name, "settings": repr(self.solver)}, words=Words.of(problem),
            confirmations=(self.confirmations, self.needed), doubtful_of=lambda: self.doubtful,
            blocks_of=lambda: self.blocks, campaigns_of=lambda: self.campaigns,
            given=dict(problem.given), block=self.block,
            models_of=lambda: self.models,
        )  # fmt: skip
        if found is None:
            is_few = self.is_too_few and bool(self.data.complete.any())
            more = " Too few measurements to say." if is_few else ""
            return replace(nothing, is_too_few=is_few, message=message + more)
        still = self.told_still if found is self.__dict__.get("recommended") else self.still(found)
        number = self.data.numbers[found.row] if found.row is not None else None
        told = next((trial for trial in self.trials if trial.number == number), None)
        low, high = sorted(problem.user_value(float(each)) for each in (found.lower[0], found.upper[0]))
        names = problem.constraints
        bounds = {name: (float(found.lower[i]), float(found.upper[i])) for i, name in enumerate(names, 1)}
        is_known = not np.isnan(found.joint)
        probability = {name: float(found.probability[i]) for i, name in enumerate(names) if is_known}
        return replace(
            nothing,
            x=problem.named_x(problem.natural(found.u)) if told is None else told.x,
            y=None if told is None else told.y,
            value=problem.user_value(float(found.value[0])),
            bounds={problem.objective: (low, high), **bounds},
            slack={name: float(found.value[i]) for i, name in enumerate(names, 1)},
            probability=probability | ({"all": found.joint} if names and is_known else {}),
            is_feasible=found.is_feasible,
            gap=still.width,
            relative_gap=still.relative,
            gap_why=still.why,
            blame_of=lambda: self._blame(found),
            is_too_few=not is_known,
            trial=number,
            chance=None if found.is_feasible else self.chance,
            untried=() if found.is_feasible or status is Status.INFEASIBLE else self.untried,
        )

    def _blame(self, found: "Recommendation") -> Blame | None:
        """Return what failures have changed of a recommendation: they keep settings near them from being recommended.

        A rule that recommends told settings alone does not look at failures.
        """
        failed = [self.data.away[row] for row in self.data.failures]
        if not failed or self.problem.has_front or found.rule in ("observed", "asked"):
            return None
        trials = tuple(
            replace(trial, not_the_settings=True) if trial.number in failed else trial for trial in self.trials
        )
        other = replace(self, trials=trials, belief_of=lambda: self.belief).recommend("anywhere")
        return None if other is None else blame_of(self.problem, failed, found, other)

    def message(
        self, status: Status, relaxation: Relaxation | None = None, found: "Recommendation | None" = None
    ) -> str:
        """Return the status as a sentence, with the relevant numbers."""
        return message(self, status, relaxation, found, lambda: (self.untried, self.chance))

    @property
    def doubt(self) -> str:
        """How many tests confirm that no settings meet all limits, as a phrase; empty if none do."""
        return confirmed(self)


def lies_on(problem: Problem, trial: Trial) -> bool:
    """Tell whether the settings of a trial lie on the slice of a problem; all do if it has none."""
    return problem.slice is None or bool(problem.lies_on(problem.to_unit(np.array(trial.x.array))[None])[0])
