"""What stands before every request: token, origin, size, time; and what every answer says to the browser."""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from pied.web.limits import LARGEST_JSON, LARGEST_TABLE, SLOWEST_BODY, SLOWEST_RATE

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer, unless it has its own."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Unread(Exception):
    """A request's body that is too large, or did not arrive."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """Lets a request through that has the token and comes from our own pages, or from a program.

    Args:
        app: What answers.
        token: The secret.
        hosts: Names by which the server may be called; empty: any. A page of another name that resolves to this
            machine is refused.
        cookie: Name of the cookie; one for each port, because browsers send cookies to all ports of a host.
        on_end: Called when the server begins to stop.
        close: Called when it has stopped.
    """

    def __init__(
        self,
        app: App,
        *,
        token: str,
        hosts: frozenset[str],
        cookie: str,
        on_end: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        self.app, self.token, self.hosts, self.cookie = app, token, hosts, cookie
        self.on_end, self.close = on_end, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        refusal = self._refusal(scope, headers, query)
        if refusal is not None:
            await refuse(send, *refusal)
            return
        is_table = scope["path"].endswith("/table")
        largest = LARGEST_TABLE if is_table else LARGEST_JSON
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > largest:
            await refuse(send, 413, f"the request is larger than {largest:,} bytes")
            return
        extra = dict(HEADERS)
        if scope["path"] == "/" and "token" in query:  # the address that was printed: from here on the cookie counts
            extra["set-cookie"] = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", [])}
                new = [(name.encode(), value.encode()) for name, value in extra.items() if name.encode() not in own]
                message = {**message, "headers": [*message.get("headers", []), *new]}
            await send(message)

        await self.app(scope, _limited(receive, largest, scope["method"]), sending)

    def _refusal(self, scope: Scope, headers: dict[str, str], query: dict[str, list[str]]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self.hosts and _split(f"//{host}").hostname not in self.hosts:
            return 403, "this server is not called by that name: use the address that was printed when it started"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and scope["method"] not in (
            "GET",
            "HEAD",
        ):
            return 403, "requests of other pages are refused"
        origin = headers.get("origin")
        if origin is not None and _split(origin).netloc != host:
            return 403, "requests of other pages are refused"
        if not self._has_token(scope, headers, query):
            return 401, "the token is missing or wrong: open the address that was printed when the server started"
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str], query: dict[str, list[str]]) -> bool:
        given = [headers.get("x-pied-token", ""), headers.get("authorization", "").removeprefix("Bearer ")]
        if scope["path"] == "/" and scope["method"] == "GET":
            given += query.get("token", [])
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            found = None
        given += [found.value] if found is not None else []
        return any(secrets.compare_digest(each.encode(), self.token.encode()) for each in given)


def _split(address: str) -> SplitResult:
    """Return the parts of an address; those of what is none are empty."""
    try:
        return urlsplit(address)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _limited(receive: Receive, largest: int, method: str) -> Receive:
    """Return a receiver that stops when a body is too large or does not arrive in time."""
    size, began = 0, time.monotonic()
    is_over = method in ("GET", "HEAD")  # then the next message is the end of the connection, which may come late

    async def receiving() -> MutableMapping[str, Any]:
        nonlocal size, is_over
        left = None if is_over else began + SLOWEST_BODY + size / SLOWEST_RATE - time.monotonic()
        try:
            message = await asyncio.wait_for(receive(), left)
        except TimeoutError:
            raise Unread(408, "the request did not arrive in time: send it again") from None
        if message["type"] == "http.disconnect" and not is_over:
            raise Unread(400, "the request broke off: send it again")
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            is_over = not message.get("more_body", False)
            if size > largest:
                raise Unread(413, f"the request is larger than {largest:,} bytes")
        return message

    return receiving


async def refuse(send: Send, status: int, reason: str, **others: str) -> None:
    """Answer without asking the application.

    Args:
        send: Sends it.
        status: Of the answer.
        reason: A sentence.
        **others: Headers.
    """
    body = json.dumps({"error": reason}).encode()
    headers = {**HEADERS, "content-type": "application/json", "content-length": str(len(body)), **others}
    start = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
