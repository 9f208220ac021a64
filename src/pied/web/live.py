"""Changes of a study as they happen, for open pages: one reader of the store for all pages that look at it."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from pied.errors import PiedError
from pied.web.answers import result_data
from pied.web.data import card, summary, trial_list
from pied.web.room import Room, View

logger = logging.getLogger(__name__)

EVERY = 0.4
"""Seconds between two looks at a store: a told value is on the screen within a second."""
BEAT = 15.0
"""Seconds between two signs of life, so that a connection that is gone is noticed."""
LONGEST_REST = 30.0
"""Seconds between two recommendations of a study that changes all the time, at most."""
WAITING = 64
"""Messages that wait for a slow page; then it is told to load anew."""


def message(kind: str, data: Any) -> bytes:
    """Return a server-sent event."""
    return f"event: {kind}\ndata: {json.dumps(data, allow_nan=False)}\n\n".encode()


class Feed:
    """The changes of one study, for all pages that look at it."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._last: View | None = None
        self._answer = b""
        self._answer_of: View | None = None

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield the events of a page: first where the study stands, then every change."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING)
        self._queues.add(queue)
        try:
            view = await asyncio.to_thread(self._room.view)
            self._last = self._last or view
            if self._task is None and self._answer_of is not view:
                self._answer = b""  # nobody looked for a while, and something has changed
            yield message("study", await asyncio.to_thread(summary, self._room, view))
            if self._answer:
                yield self._answer
            if self._task is None:
                self._task = asyncio.create_task(self._watch())
                self._begin_answer(view)
            while not self._is_over:
                try:
                    event = await asyncio.wait_for(queue.get(), BEAT)
                except TimeoutError:
                    event = b": still there\n\n"
                if event is not None:
                    yield event
        finally:
            self._queues.discard(queue)
            if not self._queues and self._task is not None:
                self._task.cancel()
                self._task, self._last = None, None

    def end(self) -> None:
        """End the streams of all pages."""
        self._is_over = True
        self._send(None)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                view = await asyncio.to_thread(self._room.view)
                if view is self._last:
                    continue
                self._send(await asyncio.to_thread(self._difference, self._last, view))
                self._last = view  # not before: a change that could not be sent is sent with the next look
                self._begin_answer(view)
            except PiedError:
                continue  # a store that is away, or a question that is being written
            except Exception:  # one change that cannot be shown must not end the changes of all pages
                logger.exception("a change of study '%s' cannot be shown", self._room.key)

    def _difference(self, before: View | None, view: View) -> bytes:
        """Return what has changed: the study's line and the changed trials, all of them after a new question."""
        is_other = before is None or before.questions != view.questions or before.stated is not view.stated
        only = None
        if not is_other and before is not None:
            only = {n for n, row in view.rows.items() if before.rows.get(n) != row}
            only |= {n for n, each in view.events.items() if len(before.events.get(n, [])) != len(each)}
        data = summary(self._room, view) | {"trials_changed": trial_list(view, only), "reload": is_other}
        return message("change", data)

    def _begin_answer(self, view: View) -> None:
        """Compute the recommendation beside, unless that is under way; then it is computed once more at its end."""
        if view.snapshot is not None and (self._answering is None or self._answering.done()):
            self._answering = asyncio.create_task(self._answered(view))

    async def _answered(self, view: View) -> None:
        while True:
            began = time.monotonic()
            try:
                data = await asyncio.to_thread(_recommended, view)
            except PiedError as error:
                data = {"error": str(error)}
            self._answer, self._answer_of = message("result", data | {"change": view.change}), view
            self._send(self._answer)
            await asyncio.sleep(min(time.monotonic() - began, LONGEST_REST))  # half of the time is left to requests
            if self._last is None or self._last is view or self._last.snapshot is None:
                return
            view = self._last

    def _send(self, event: bytes | None) -> None:
        for queue in list(self._queues):
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(message("reload", {}))


def _recommended(view: View) -> dict[str, Any]:
    return result_data(view, view.result())


async def follow_all(rooms: Callable[[], list[Room]], is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the list of all studies whenever one of them changes, until it is over."""
    last, quiet = None, 0.0
    while not is_over():
        cards = await asyncio.to_thread(lambda: [card(room) for room in rooms()])
        if cards != last:
            last, quiet = cards, 0.0
            yield message("studies", cards)
        elif quiet >= BEAT:
            quiet = 0.0
            yield b": still there\n\n"
        await asyncio.sleep(2 * EVERY)
        quiet += 2 * EVERY
