"""What can be done with a study: each action as the shell does it, with JSON in and JSON out."""

import math
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pied.errors import Contradiction, PiedError, StatementError, StoreError, TellError
from pied.records import GROUPS, State, Trial, key
from pied.shell.adding import Reading, added_as
from pied.shell.corrections import event_data
from pied.shell.deciding import axes_of
from pied.shell.frame import keep_data
from pied.shell.laboratory import (
    asked_data,
    failure_data,
    given_of,
    settings_of,
    told_line,
    trial_data,
    values_of,
)
from pied.shell.opening import Desk, me
from pied.shell.sheets import from_sheet, trial_column
from pied.shell.speech import Mistake, NoAnswer
from pied.shell.statement_file import LARGEST, from_text
from pied.shell.tables import Table, text_of
from pied.study import changed, explained, policy_of
from pied.study import what_if as answered
from pied.web.answers import scenario_data
from pied.web.data import words_of
from pied.web.forms import form_of, with_form
from pied.web.limits import LONGEST_NOTE, MOST_ASKED
from pied.web.pictures import pictured
from pied.web.rewriting import edited, revised
from pied.web.room import Room
from pied.web.shelf import Missing
from pied.writing import replaced

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Action:
    """Something that can be done, and the fields of its request."""

    do: Callable[..., Any]
    fields: Mapping[str, str]
    """Name and meaning of each field."""
    purpose: str
    writes: bool = True


def text(given: Given, word: str) -> str:
    """Return a text of a request."""
    value = given.get(word, "")
    if not isinstance(value, str) or len(value) > LONGEST_NOTE:
        raise StatementError(f"'{word}' is a text of at most {LONGEST_NOTE:,} characters")
    return value


def _worker(given: Given) -> str:
    return text(given, "worker").strip() or me()


def _flag(given: Given, word: str) -> bool:
    value = given.get(word, False)
    if not isinstance(value, bool):
        raise StatementError(f"'{word}' is true or false")
    return value


def _mapping(given: Given, word: str) -> Mapping[str, Any]:
    value = given.get(word) or {}
    if not isinstance(value, Mapping):
        raise StatementError(f"'{word}' is an object of names and values")
    return value


def _names(given: Given, word: str) -> list[str]:
    value = given.get(word) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise StatementError(f"'{word}' is a list of names")
    return value


def _numbers(given: Given, word: str) -> dict[str, float]:
    found = {}
    for name, value in _mapping(given, word).items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise StatementError(f"'{name}': a finite number is expected")
        found[name] = float(value)
    return found


def _known(desk: Desk, number: int) -> Trial:
    """Return a trial, so that a wrong number is told apart from a wrong value."""
    for trial in desk.study.trials:
        if trial.number == number:
            return trial
    raise Missing(f"there is no trial {number}; the record has trials 1 to {len(desk.study.trials)}")


# ---------------------------------------------------------------------------------------------------------- experiments


def ask(room: Room, given: Given) -> Any:
    """Propose; who asks again gets the same trials back until they are told or failed."""
    count = given.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_ASKED:
        raise StatementError(f"'count' is a whole number from 1 to {MOST_ASKED}")
    with room.desk(_worker(given), is_new=True) as desk:
        fixed = given_of(desk.stated.problem, words_of(_mapping(given, "given")))
        own = settings_of(desk.stated.problem, tuple(words_of(_mapping(given, "at"))))
        far = _numbers(given, "max_step")
        trials = (
            [desk.study.enqueue(own, take=True)]
            if own
            else desk.study.open_trials(
                count,
                given=fixed,
                max_step=far,
                present=_mapping(given, "present"),
                same=_names(given, "same"),
                block=_names(given, "block"),
            )
        )
        return {"trials": [asked_data(desk.study, each) for each in trials]}


def tell(room: Room, number: int, given: Given) -> Any:
    """Tell what was measured; telling the same once more changes nothing."""
    with room.desk(_worker(given)) as desk:
        return _told(desk, number, given)


def _told(desk: Desk, number: int, given: Given) -> dict[str, Any]:
    problem, before = desk.stated.problem, _known(desk, number)
    values = values_of(problem, tuple(words_of(_mapping(given, "values"))))
    at = settings_of(problem, tuple(words_of(_mapping(given, "at"))))
    try:
        made = desk.study.tell(
            number, values or None, at=at or None, block=text(given, "block"),
            campaign=text(given, "campaign"), anyway=_flag(given, "anyway"), again=False,
        )  # fmt: skip
    except Contradiction as error:
        raise Contradicted(f"{error.facts}. If the earlier one is wrong, correct it.") from error
    return trial_data(problem, made) | {"said": told_line(problem, made, before)}


def tell_all(room: Room, given: Given) -> Any:
    """Tell several trials; what is wrong with one keeps none of the others back."""
    rows = given.get("trials")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise StatementError("'trials' is a list of objects, each with 'trial' and 'values'")
    told, refused = [], []
    with room.desk(_worker(given)) as desk:
        for row in rows:
            try:
                if odd := [word for word in row if word != "trial" and word not in TRIAL_ACTIONS["tell"].fields]:
                    raise StatementError(f"there is no field '{odd[0]}' of a trial")
                told.append(_told(desk, _whole(row.get("trial")), row))
            except StoreError:
                raise
            except (PiedError, Mistake) as error:
                said = error.message if isinstance(error, Mistake) else str(error)
                refused.append({"trial": row.get("trial"), "error": said})
    return {"told": told, "refused": refused}


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise StatementError("'trial' is the number of a trial")
    return value


class Contradicted(TellError):
    """Another value was told before."""


def explain(room: Room, number: int, _: Given) -> Any:
    """Say what a proposed trial is for."""
    view = room.view()
    trial = next((each for each in view.trials if each.number == number), None)
    if trial is None:
        raise Missing(f"there is no trial {number}; the record has {len(view.trials)}")
    return explained(view.outlook(trial.why.given), trial).to_dict()


def fail(room: Room, number: int, given: Given) -> Any:
    """Say that a trial could not be done."""
    with room.desk(_worker(given)) as desk:
        _known(desk, number)
        reason = text(given, "reason").strip()
        if not reason:
            raise StatementError("say why it could not be done: 'reason'")
        is_luck = _flag(given, "not_the_settings") if "not_the_settings" in given else None
        made = desk.study.fail(number, reason, anyway=_flag(given, "anyway"), not_the_settings=is_luck)
        return trial_data(desk.stated.problem, made) | failure_data(made)


def correct(room: Room, number: int, given: Given) -> Any:
    """Replace told values; the earlier ones stay in the history."""
    with room.desk(_worker(given)) as desk:
        problem, _ = desk.stated.problem, _known(desk, number)
        words, settings = words_of(_mapping(given, "values")), words_of(_mapping(given, "at"))
        if not words and not settings and not {"block", "campaign"} & set(given):
            raise StatementError("say what is right: give 'values', or what was really set, 'at'")
        made = desk.study.correct(
            number,
            values_of(problem, tuple(words)) if words else None,
            at=settings_of(problem, tuple(settings)) or None,
            block=text(given, "block") if "block" in given else None,
            campaign=text(given, "campaign") if "campaign" in given else None,
            why=text(given, "why"),
            anyway=_flag(given, "anyway"),
        )
        return trial_data(problem, made)


def withdraw(room: Room, number: int, given: Given) -> Any:
    """Let a trial no longer count; it stays in the record."""
    with room.desk(_worker(given)) as desk:
        _known(desk, number)
        made = desk.study.withdraw(number, why=text(given, "why"))
        return trial_data(desk.stated.problem, made) | {"reason": made.reason}


def restore(room: Room, number: int, given: Given) -> Any:
    """Let a withdrawn trial count again."""
    with room.desk(_worker(given)) as desk:
        _known(desk, number)
        return trial_data(desk.stated.problem, desk.study.restore(number, why=text(given, "why")))


def note(room: Room, number: int, given: Given) -> Any:
    """Write a note about a trial; the same note of the same person again changes nothing."""
    with room.desk(_worker(given)) as desk:
        _known(desk, number)
        return event_data(desk.study.note(number, text(given, "text")))


class _AskFirst(Exception):
    """How a table is understood, which the person who dropped it has to confirm."""


def _asked_first(said: str) -> bool:
    raise _AskFirst(said)


def take_table(room: Room, content: bytes, given: Mapping[str, str]) -> Any:
    """Take a dropped table: a filled-in run sheet is told, anything else is added as older data."""
    name, worker = text(given, "name").replace("\\", "/").rpartition("/")[2] or "table.csv", _worker(given)
    anyway, stated = given.get("anyway") == "true", room.stated()
    problem, table = stated.problem, None
    with suppress(StatementError):
        table = Table.of(content, name)
    columns = () if table is None else table.columns
    room.check_store()
    is_sheet = trial_column(problem) in columns and "state" not in columns and "aim" not in columns
    if table is None or not is_sheet:
        reading = Reading({}, confirm=(lambda _: True) if given.get("yes") == "true" else _asked_first)
        again = given.get("again") == "true"
        try:
            done = added_as(
                room.called, room.store, worker, content, name, stated, reading, anyway=anyway, again=again,
                campaign=text(given, "campaign"),
            )  # fmt: skip
        except _AskFirst as question:
            return {"question": str(question)}
        return {**done.data, "said": done.said}
    with room.desk(worker) as desk:
        before = {trial.number: trial for trial in desk.study.trials}
        told, refused = [], []
        for place, number, values, at, *own in from_sheet(desk, table, anyway):
            words = dict(zip(GROUPS, own, strict=True))
            try:
                told.append(desk.study.tell(number, values or None, at=at, **words, anyway=anyway, again=False))
            except Contradiction as error:
                refused.append(f"{place}{error.facts}")
            except TellError as error:
                refused.append(f"{place}{error}")
        if refused and not told:
            raise Contradicted(". ".join(refused))
        said = [told_line(problem, each, before[each.number]) for each in told]
        said = said or ["nothing to tell yet: no cell of an output is filled"]
        return {"told": [each.number for each in told], "refused": refused, "said": "; ".join(said)}


# ------------------------------------------------------------------------------------------------------------- what if


def what_if(room: Room, given: Given) -> Any:
    """Answer a question with other constants and limits; nothing is written."""
    view = room.view()
    here = given_of(view.believed().problem, words_of(_mapping(given, "given")))
    outlook = view.outlook(here)
    limits = _numbers(given, "limits")
    problem = changed(outlook.problem, constants=_numbers(given, "constants"), limits=limits)
    found = view.base() if problem is outlook.problem and not here else answered(outlook, problem)
    data = scenario_data(view, found) | {"recorded": False}
    picture = given.get("map")
    if isinstance(picture, Mapping):
        at = dict(found.result.x) if found.result.x is not None else None
        data["map"] = pictured(found.snapshot, "map", {**picture, "at": at})
    return data


def policy(room: Room, given: Given) -> Any:
    """Return the best settings as a function of the observed variables; nothing is written."""
    view, values = room.view(), axes_of(words_of(_mapping(given, "values")))
    found = view.kept(("policy", str(values)), lambda: policy_of(view.believed(), values))
    return found.to_dict() | {"columns": found.columns, "texts": found.texts()}


def question_form(room: Room) -> dict[str, Any]:
    """Return the question of a problem file as a form to be changed."""
    file, data = _own_file(room)
    return {"form": form_of(data, file.stem), "text": file.read_text(encoding="utf-8")}


def _own_file(room: Room) -> tuple[Path, dict[str, Any]]:
    if room.file is None or not room.file.endswith(".toml"):
        where = "is in Python" if room.file else "has no problem file here"
        raise NoAnswer(f"the question of this study {where}: change it where it is written")
    file = room.stated().file
    return file, tomllib.loads(text_of(file, "problem file", LARGEST))


def form_page(room: Room, form: Mapping[str, Any]) -> tuple[Path, str]:
    """Return the problem file of a study, and its text with what a form changes."""
    file, data = _own_file(room)
    return file, edited(text_of(file, "problem file", LARGEST), with_form(data, form), file.name)


def revise(room: Room, given: Given) -> Any:
    """Make a question the study's own: it is written into its file, and recorded with a note."""
    with room.revising:  # each begins with the question of the one before
        stated = room.stated()
        said = text(given, "note").strip()
        if not said:
            raise StatementError("say why the question changes, for those who read the record later: 'note'")
        if form := _mapping(given, "form"):
            file, page = form_page(room, form)
            problem = from_text(file, page).problem
            is_same = key(problem.statement()) == key(stated.problem.statement())
            return _recorded(room, given, page, said, is_same)
        problem = changed(stated.problem, constants=_numbers(given, "constants"), limits=_numbers(given, "limits"))
        is_same = key(problem.statement()) == key(stated.problem.statement())
        if room.file is None:
            with room.desk(_worker(given)) as desk:
                if is_same:
                    return _asked_before(desk, said)
                desk.study.revise(constants=dict(problem.constants) or None, subject_to=problem.word("subject_to"))
                desk.study.note(None, said)
                return {"question": desk.study.snapshot.revision}
        if not room.file.endswith(".toml"):
            raise StatementError(f"the question is in Python: change {room.file} yourself, then it is asked")
        text_now = text_of(stated.file, "problem file", LARGEST)
        page = revised(stated.file, text_now, stated.problem, problem)
        return _recorded(room, given, page, said, is_same)


def _recorded(room: Room, given: Given, page: str, said: str, is_same: bool) -> Any:
    """Write the new text of a problem file, and record its question with a note; both or none."""
    stated = room.stated()
    new = replace(stated, problem=from_text(stated.file, page).problem)
    with replaced(stated.file, page):
        if not is_same:
            keep_data(new, room.store, {}, _worker(given))  # also with other bounds, units or further outputs
        with room.desk(_worker(given), is_new=True, stated=new) as desk:
            if is_same and not desk.is_new_question:
                return _asked_before(desk, said)
            desk.study.note(None, said)
            return {"question": desk.study.snapshot.revision}


def _asked_before(desk: Desk, said: str) -> Any:
    """Return the question that the same person has just asked, when the request is repeated; refuse any other."""
    notes = [each for each in desk.study.history() if each.kind == "noted" and not each.number]
    if not notes or (notes[-1].why, notes[-1].worker) != (said, desk.study.worker):
        raise StatementError("nothing is different: move a slider first")
    return {"question": desk.study.snapshot.revision}


def picture(room: Room, kind: str, given: Given) -> Any:
    """Return what a picture shows, of the study's own question or of another one."""
    view = room.view()
    snapshot = view.believed()
    constants, limits = _numbers(given, "constants"), _numbers(given, "limits")
    problem = changed(snapshot.problem, constants=constants, limits=limits)
    shown = snapshot if problem is snapshot.problem else snapshot.under(problem)
    key = (kind, str(sorted(given.items(), key=str)))
    return view.kept(key, lambda: pictured(shown, kind, given))


def open_of(room: Room) -> list[Trial]:
    """Return the trials that are open, for a plan."""
    return [trial for trial in room.view().trials if trial.state in (State.ASKED, State.PARTIAL) and not trial.is_added]


_VALUES = "outputs by name, also '0.52 ± 0.01 (n=3)' or {value, deviation, n}; a part of them is fine"
_WORKER = "who acts; by default the login name of the server"
_BLOCK = "the day, operator, batch or reactor"
_CAMPAIGN = "the earlier campaign or other equipment: its outputs are related to the present ones, not equal"
_ANYWAY = "true: values outside of their ranges are right"
TRIAL_ACTIONS: dict[str, Action] = {
    "tell": Action(tell, {"values": _VALUES, "at": "variables that were really set otherwise", "block": _BLOCK,
                          "campaign": _CAMPAIGN, "anyway": _ANYWAY, "worker": _WORKER},
                   "Tell what was measured. A request repeated after a lost answer changes nothing."),
    "explain": Action(explain, {}, "What a proposed trial is for, and what would change the answer.", writes=False),
    "fail": Action(fail, {"reason": "why it could not be done", "anyway": "also if it was told",
                          "not_the_settings": "true: it had nothing to do with the settings", "worker": _WORKER},
                   "Say that a trial could not be done; settings near it are avoided unless the reason was another."),
    "correct": Action(correct, {"values": "the right outputs by name", "at": "what was really set",
                                "block": "the right block", "campaign": "the right campaign, '' for the present one",
                                "why": "the reason", "anyway": _ANYWAY, "worker": _WORKER},
                      "Replace told values; the earlier ones stay in the history."),
    "withdraw": Action(withdraw, {"why": "the reason", "worker": _WORKER}, "Let a trial no longer count."),
    "restore": Action(restore, {"why": "the reason", "worker": _WORKER}, "Let a withdrawn trial count again."),
    "note": Action(note, {"text": "the note", "worker": _WORKER}, "Write a note about a trial."),
}  # fmt: skip
"""Actions on one trial, by the last word of their address."""
_CHANGES = {"constants": "new values of constants by name", "limits": "new limits by the names of constraints"}
STUDY_ACTIONS: dict[str, Action] = {
    "ask": Action(ask, {"count": f"open trials wanted in all, 1 to {MOST_ASKED}", "worker": _WORKER,
                        "at": "settings of your own, all by name: they are the trial",
                        "block": f"{_BLOCK}; a list: the least used of these",
                        "same": "settings that all open trials share, a list of names",
                        "max_step": "how far settings may move by name",
                        "present": "where they stand, if not where the last trial was measured",
                        "given": 'settings that are not free by name: 80, or "78:82" within a range'},
                  "Propose what to measure next. Who asks again gets the same trials back until they are told."),
    "tell": Action(tell_all, {"trials": "a list of {trial, values, at, block, campaign, anyway}, as of one trial",
                              "worker": _WORKER},
                   "Tell several trials at once: what is wrong with one keeps none of the others back ('refused')."),
    "policy": Action(policy, {"values": 'observed values by name: "0:30:7" or "12"; left out: between measured ones'},
                     "The best settings as a function of what is measured. Nothing is written.", writes=False),
    "what-if": Action(what_if, {**_CHANGES, "given": "settings that are not free, and observed values, by name",
                                "map": "variables of a map, {across, up}; left out: no map"},
                      "The best settings if constants or limits were others. Nothing is written.", writes=False),
    "revise": Action(revise, {**_CHANGES, "form": "or the whole question, as GET .../form gives it",
                             "note": "why the question changes", "worker": _WORKER},
                     "Make another question the study's: constants and limits, or all of it. The data are kept."),
}  # fmt: skip
"""Actions on a study."""
PICTURES = ("slices", "map", "predictions", "importance")
