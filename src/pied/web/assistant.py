"""Studies as tools of an assistant, by the Model Context Protocol over standard input and output."""

from collections.abc import Callable
from typing import Any

from pied.errors import PAGE, PiedError, read_as
from pied.shell.speech import Mistake, gathered
from pied.web import actions
from pied.web.answers import result_data
from pied.web.data import card, detail, trial_list
from pied.web.room import Room
from pied.web.shelf import Shelf

PURPOSE = (
    "Studies that seek the best settings of a plant, a simulator or an experiment from few costly evaluations. Tell "
    "only values that were really measured; say with every number whether it was measured or is a prediction."
)


def tools(shelf: Shelf, refusal: type[Exception], *, write: bool, worker: str) -> list[Callable[..., Any]]:
    """Return the tools; their signatures and texts are what an assistant sees of them.

    Args:
        shelf: The studies.
        refusal: What is raised with the sentence that an assistant is told where there is no answer.
        write: Whether there are tools that write.
        worker: Who acts.
    """

    def answered(study: str, do: Callable[[Room], Any]) -> Any:
        try:
            with read_as(PAGE), gathered() as notes:
                found = do(shelf.room(study))
        except Mistake as error:
            raise refusal(error.message) from None
        except PiedError as error:
            raise refusal(str(error)) from None
        return found | {"notes": notes} if notes and isinstance(found, dict) else found

    def studies() -> Any:
        """List the studies: what is sought, where each stands; `id` is the name for the other tools."""
        return {"studies": [card(room) for room in shelf.rooms()]}

    def question(study: str) -> Any:
        """Show a study's question: variables with ranges, outputs, objective, limits, constants, status."""
        return answered(study, lambda room: detail(room, room.view()))

    def trials(study: str, state: str = "") -> Any:
        """List the trials with settings and measured values; state may be asked, partial, told, failed, withdrawn."""

        def chosen(room: Room) -> Any:
            return {"trials": [each for each in trial_list(room.view()) if state in ("", each["state"])]}

        return answered(study, chosen)

    def result(study: str) -> Any:
        """Recommend settings, with the range of the value, each limit's margin, and what is still possible."""
        return answered(study, lambda room: result_data(room.view(), room.view().result()))

    def what_if(study: str, constants: dict[str, float] | None = None, limits: dict[str, float] | None = None) -> Any:
        """Say what the best settings would be if constants or limits were others; nothing is recorded."""
        given = {"constants": constants or {}, "limits": limits or {}}
        return answered(study, lambda room: actions.what_if(room, given))

    def explain(study: str, trial: int) -> Any:
        """Say what an open trial is for: what is hoped for, what is in doubt, what would change the answer."""
        return answered(study, lambda room: actions.explain(room, trial, {}))

    def ask(study: str, count: int = 1, given: dict[str, Any] | None = None) -> Any:
        """Propose trials to measure next; asking again returns those that are still open. `given` fixes settings."""
        words = {"count": count, "given": given or {}, "worker": worker}
        return answered(study, lambda room: actions.ask(room, words))

    def tell(study: str, trial: int, values: dict[str, Any], at: dict[str, Any] | None = None) -> Any:
        """Record values that were really measured at a trial; `at` has settings that were really other ones."""
        words = {"values": values, "at": at or {}, "worker": worker}
        return answered(study, lambda room: actions.tell(room, trial, words))

    def fail(study: str, trial: int, reason: str) -> Any:
        """Record that a trial could not be done, and why."""
        return answered(study, lambda room: actions.fail(room, trial, {"reason": reason, "worker": worker}))

    made: list[Callable[..., Any]] = [studies, question, trials, result, what_if, explain]
    return [*made, ask, tell, fail] if write else made
