"""The pages and the interface under /api, as one application."""

import asyncio
import errno
import json
import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pied import __version__
from pied.address import masked
from pied.errors import (
    PAGE,
    Infeasible,
    MissingExtra,
    NotYet,
    PiedError,
    SolverDone,
    StatementError,
    StoreAway,
    StoreError,
    StudyMismatch,
    read_as,
)
from pied.shell.answers import everything, export_rows
from pied.shell.corrections import event_data
from pied.shell.excel import to_excel
from pied.shell.laboratory import given_of, sheet_of
from pied.shell.opening import me
from pied.shell.pages import statement_lines
from pied.shell.speech import Mistake, NoAnswer, Verdict, gathered
from pied.shell.statement_file import Stated, from_text
from pied.shell.tables import to_csv
from pied.study import hopeless
from pied.web import actions
from pied.web.answers import result_data
from pied.web.data import card, detail, trial_list
from pied.web.forms import as_toml, checked, written
from pied.web.guard import Guard, Unread
from pied.web.limits import LONGEST_WAIT
from pied.web.live import EVERY, Feed, follow_all
from pied.web.openapi import described
from pied.web.reading import Refused, json_object, trial_number
from pied.web.shelf import Missing, Shelf

logger = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A report brings its own style and pictures, and nothing else."""
SOON, LATER = 5, 60
"""Seconds after which a request may be sent again: while a store is away, and where something has to be told first."""
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (Missing, 404), (NoAnswer, 409), (Verdict, 409), (Mistake, 422), (Infeasible, 409), (SolverDone, 409),
    (actions.Contradicted, 409), (StudyMismatch, 409), (NotYet, 409), (MissingExtra, 501), (StoreAway, 503),
    (StoreError, 500), (PiedError, 422),
)  # fmt: skip


def made(shelf: Shelf, *, token: str, hosts: frozenset[str], port: int, read_only: bool = False) -> Guard:
    """Return the application behind its guard.

    Args:
        shelf: The studies.
        token: The secret that every request must have.
        hosts: Names of this server.
        port: Its port, part of the cookie's name.
        read_only: Whether nothing can be written.
    """
    pages = _Pages(shelf, read_only)
    app = Starlette(
        routes=pages.routes(),
        exception_handlers={
            HTTPException: _not_found, Unread: _refused, Mistake: _explained, PiedError: _explained,
            OSError: _unwritten, Exception: _broken,
        },
    )  # fmt: skip
    return Guard(app, token=token, hosts=hosts, cookie=f"pied-{port}", on_end=pages.end, close=shelf.close)


class _Pages:
    """The answers to requests."""

    def __init__(self, shelf: Shelf, read_only: bool) -> None:
        self._shelf, self._read_only = shelf, read_only
        self._feeds: dict[str, Feed] = {}
        self._is_over = False

    def end(self) -> None:
        """End the streams of open pages, so that the server can stop."""
        self._is_over = True
        for feed in self._feeds.values():
            feed.end()

    def routes(self) -> list[Any]:
        study = "/api/studies/{study}"
        found: list[Any] = [
            Route("/", self._index),
            Route("/api", self._about),
            Route("/api/openapi.json", self._openapi),
            Route("/api/check", self._check, methods=["POST"]),
            Route("/api/studies", self._studies),
            Route("/api/studies", self._create, methods=["POST"]),
            Route("/api/events", self._all_events),
            Route(study, self._quick(lambda room, _: detail(room, room.view()))),
            Route(f"{study}/trials", self._trials),
            Route(f"{study}/result", self._quick(self._result)),
            Route(f"{study}/history", self._quick(self._history)),
            Route(f"{study}/form", self._quick(lambda room, _: actions.question_form(room))),
            Route(f"{study}/events", self._events),
            Route(f"{study}/table", self._table, methods=["POST"]),
            Route(f"{study}/{{kind:str}}.{{ending:str}}", self._download),
        ]
        found += [Route(f"{study}/{kind}", self._picture(kind), methods=["POST"]) for kind in actions.PICTURES]
        found += [
            Route(f"{study}/{word}", self._action(each), methods=["POST"])
            for word, each in actions.STUDY_ACTIONS.items()
        ]
        found += [
            Route(f"{study}/trials/{{number}}/{word}", self._action(each), methods=["POST"])
            for word, each in actions.TRIAL_ACTIONS.items()
        ]
        return [*found, Mount("/static", StaticFiles(directory=STATIC))]

    # -------------------------------------------------------------------------------------------------- pages

    async def _index(self, _: Request) -> Response:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    async def _about(self, _: Request) -> Response:
        return _json({"pied": __version__, "read_only": self._read_only, "you": me(),
                      "pages": "/#/api", "openapi": "/api/openapi.json"})  # fmt: skip

    async def _openapi(self, _: Request) -> Response:
        return _json(described(__version__))

    # ------------------------------------------------------------------------------------------------ reading

    async def _studies(self, _: Request) -> Response:
        return await _answered(lambda: [card(room) for room in self._shelf.rooms()])

    def _quick(self, answer: Callable[[Any, Request], Any]) -> Callable[[Request], Any]:
        async def reading(request: Request) -> Response:
            def do() -> Any:
                return answer(self._shelf.room(request.path_params["study"]), request)

            return await _answered(do)

        return reading

    async def _trials(self, request: Request) -> Response:
        """Answer with the trials; with `wait`, only when there is one, or that many seconds later."""
        words = request.query_params
        state = words.get("state")
        after = trial_number(words["after"]) if "after" in words else 0
        until = time.monotonic() + min(trial_number(words.get("wait", "0")), LONGEST_WAIT)

        def do() -> bytes:
            view = self._shelf.room(request.path_params["study"]).view()
            found = view.kept("trials", lambda: trial_list(view))
            if state is not None or after:
                found = [each for each in found if each["trial"] > after and state in (None, each["state"])]
                return encoded(found)
            content: bytes = view.kept("trials encoded", lambda: encoded(found))  # once for all pages that open
            return content

        while (content := await run_in_threadpool(do)) == b"[]" and time.monotonic() < until and not self._is_over:
            if await request.is_disconnected():
                break
            await asyncio.sleep(EVERY)
        return Response(content, media_type="application/json")

    def _result(self, room: Any, request: Request) -> Any:
        view = room.view()
        if view.snapshot is None:
            raise NotYet("nothing is recorded yet: ask for a proposal, or add old data")
        given = given_of(view.stated.problem, request.query_params.getlist("given"))
        return result_data(view, view.result(request.query_params.get("rule"), given))

    def _history(self, room: Any, request: Request) -> Any:
        number = request.query_params.get("trial")
        chosen = None if number is None else trial_number(number)
        with room.reading() as study:
            return [event_data(each) for each in study.history(chosen)]

    async def _events(self, request: Request) -> Response:
        key = request.path_params["study"]
        room = await run_in_threadpool(self._shelf.room, key)
        await run_in_threadpool(room.view)  # what cannot be read is refused before the stream begins
        return _stream(self._feeds.setdefault(key, Feed(room)).follow())

    async def _all_events(self, _: Request) -> Response:
        return _stream(follow_all(self._shelf.rooms, lambda: self._is_over))

    async def _download(self, request: Request) -> Response:
        room = await run_in_threadpool(self._shelf.room, request.path_params["study"])
        kind, ending = request.path_params["kind"], request.path_params["ending"]
        if (kind, ending) not in _DOWNLOADS:
            raise Refused(404, f"there is no {kind}.{ending}")
        content = await run_in_threadpool(_DOWNLOADS[kind, ending], room)
        name = f"{room.key}-{kind}.{ending}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        if kind == "report":
            headers = {"content-security-policy": REPORT_POLICY}
        return Response(content, media_type=_TYPES[ending], headers=headers)

    # ------------------------------------------------------------------------------------------------ writing

    def _may_write(self) -> None:
        if self._read_only:
            raise Refused(403, "this dashboard was started to be read only: nothing can be asked, told or changed")

    def _action(self, action: actions.Action) -> Callable[[Request], Any]:
        async def acting(request: Request) -> Response:
            if action.writes:
                self._may_write()
            given = await _body(request, action.fields)
            word = request.path_params.get("number")
            number = None if word is None else trial_number(word)

            def do() -> Any:
                room = self._shelf.room(request.path_params["study"])
                with gathered() as notes:
                    found = action.do(room, given) if number is None else action.do(room, number, given)
                return found | {"notes": notes} if notes and isinstance(found, dict) else found

            return await _answered(do)

        return acting

    def _picture(self, kind: str) -> Callable[[Request], Any]:
        async def drawing(request: Request) -> Response:
            given = await _body(request, ("at", "across", "up", "constants", "limits"))
            return await _answered(lambda: actions.picture(self._shelf.room(request.path_params["study"]), kind, given))

        return drawing

    async def _table(self, request: Request) -> Response:
        self._may_write()
        content, given = await request.body(), dict(request.query_params)

        def do() -> Any:
            room = self._shelf.room(request.path_params["study"])
            with gathered() as notes:
                return actions.take_table(room, content, given) | {"notes": notes}

        return await _answered(do)

    async def _check(self, request: Request) -> Response:
        form = await _body(request, None)

        def do() -> Any:
            try:
                text, stated = self._stated(form)
                conflict = hopeless(stated.problem)
            except PiedError as error:
                path = list(getattr(error, "path", ()))
                return {"ok": False, "path": path, "error": getattr(error, "reason", "") or str(error)}
            if conflict is not None:
                names = ", ".join(f"'{name}'" for name in conflict.conflict)
                return {"ok": False, "path": [], "error": f"{names} cannot be met within the ranges of the variables."}
            return {"ok": True, "understood": statement_lines(stated.problem, why=False), "toml": text}

        return await _answered(do)

    def _stated(self, form: dict[str, Any]) -> tuple[str, Stated]:
        """Return the text and the question of a form: of a new study, or of one that is there."""
        if "study" not in form:
            return as_toml(form), checked(form, self._shelf.folder)
        file, text = actions.form_page(self._shelf.room(str(form["study"])), form)
        return text, from_text(file, text)

    async def _create(self, request: Request) -> Response:
        self._may_write()
        form = await _body(request, None)

        def do() -> Any:
            stated = checked(form, self._shelf.folder)
            written(stated.file, form)
            room = self._shelf.add(str(stated.file))
            return {"id": room.key, "file": str(stated.file)}

        return await _answered(do, 201)


async def _body(request: Request, fields: Any) -> dict[str, Any]:
    """Read a JSON object and refuse fields that mean nothing: a misspelled one would be passed over silently."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(415, "send JSON, with the header Content-Type: application/json")
    given = json_object(await request.body())
    for word in given:
        if fields is not None and word not in fields:
            raise Refused(422, f"there is no field '{word}' here: {', '.join(fields)}")
    return given


def _plain(data: Any) -> Any:
    """Return data without numbers that JSON does not have."""
    if isinstance(data, dict):
        return {str(name): _plain(each) for name, each in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(each) for each in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def encoded(data: Any) -> bytes:
    """Return data as JSON; only where it has numbers that JSON does not have is all of it walked through."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace")  # the name of a file may be no text


def _json(data: Any, status: int = 200) -> Response:
    return Response(encoded(data), status, media_type="application/json")


async def _answered(do: Callable[[], Any], status: int = 200) -> Response:
    """Compute and write an answer beside the loop that serves all pages: long ones would hold the others up."""

    def answer() -> Response:
        with read_as(PAGE):
            return _json(do(), status)

    return await run_in_threadpool(answer)


def _stream(events: Any) -> Response:
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address takes other requests"}
    return _json({"error": said.get(error.status_code, error.detail)}, error.status_code)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Unread)
    return _json({"error": str(error)}, error.status)


async def _explained(_: Request, error: Exception) -> Response:
    """Answer with the message of the shell."""
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    text = error.message if isinstance(error, Mistake) else str(error)
    path = list(error.path) if isinstance(error, StatementError) else []
    answer = _json({"error": masked(text), "kind": type(error).__name__, "path": path}, status)
    if status == 503 or type(error) in (NotYet, NoAnswer):
        answer.headers["retry-after"] = str(SOON if status == 503 else LATER)
    return answer


async def _unwritten(_: Request, error: Exception) -> Response:
    """Answer for a file of the server that cannot be written or read, most often because its disk is full."""
    assert isinstance(error, OSError)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return _json({"error": "the disk of the server is full: make room there, then send the request again"}, 507)
    logger.warning("a request failed", exc_info=error)
    file = f"'{Path(str(error.filename)).name}'" if error.filename else "a file"
    return _json({"error": f"the server cannot use {file}: {error.strerror or error}"}, 500)


async def _broken(_: Request, error: Exception) -> Response:
    """Answer for a mistake of our own; the server then prints where it happened."""
    return _json(
        {"error": f"a mistake of pied, please report it: {type(error).__name__}. The server's output says where."}, 500
    )


# ----------------------------------------------------------------------------------------------------------- downloads


def _csv(room: Any) -> bytes:
    with room.desk(None, read_only=True) as desk:
        return to_csv(*export_rows(desk, False)).encode()


def _excel(room: Any) -> bytes:
    with room.desk(None, read_only=True) as desk:
        return to_excel(*export_rows(desk, False))


def _record(room: Any) -> bytes:
    with room.desk(None, read_only=True) as desk:
        return json.dumps(_plain(everything(desk)), indent=2, ensure_ascii=False).encode()


def _report(room: Any) -> bytes:
    from pied.report import page

    with room.desk(None, read_only=True) as desk:
        return page(desk.study).encode()


def _plan(room: Any) -> tuple[Any, Any]:
    return sheet_of(room.stated().problem, actions.open_of(room))


_DOWNLOADS: dict[tuple[str, str], Callable[[Any], bytes]] = {
    ("export", "csv"): _csv,
    ("export", "xlsx"): _excel,
    ("export", "json"): _record,
    ("report", "html"): _report,
    ("plan", "csv"): lambda room: to_csv(*_plan(room)).encode(),
    ("plan", "xlsx"): lambda room: to_excel(*_plan(room)),
}
_TYPES = {
    "csv": "text/csv; charset=utf-8", "json": "application/json", "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}  # fmt: skip
