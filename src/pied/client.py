"""A client for instruments, in standard Python: the file may be copied to where `pied` is not installed.

robot = Client("http://127.0.0.1:8766/api/studies/reactor", "the token", worker="robot-1")
for trial in robot.ask():
    robot.tell(trial["trial"], measure(**trial["x"]))
"""

import json
import time
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class Refused(Exception):
    """The server refuses a request: `status` is its number; `again` the seconds after which there may be an answer."""

    def __init__(self, status: int, reason: str, again: int | None) -> None:
        super().__init__(reason)
        self.status, self.again = status, again


class Client:
    """One study of a dashboard.

    Args:
        address: Of the study: http://HOST:PORT/api/studies/NAME.
        token: The server's secret, `PIED_TOKEN`.
        worker: Who acts; a worker that asks again gets its open trials back.
        patience: Seconds for which a request is repeated when its answer is lost or the store is away.
    """

    def __init__(self, address: str, token: str, *, worker: str = "robot", patience: float = 600) -> None:
        self.address, self.worker, self.patience = address.rstrip("/"), worker, patience
        self._head = {"X-Pied-Token": token, "Content-Type": "application/json"}

    def ask(self, count: int = 1, **words: Any) -> list[dict[str, Any]]:
        """Return open trials of this worker, as many as wanted, each with its number `trial` and its settings `x`."""
        return self.send("/ask", {"count": count, **words})["trials"]

    def wait(self, after: int = 0) -> list[dict[str, Any]]:
        """Wait until somebody has asked for trials with numbers above `after`, and return those that are open."""
        while not (found := self.send(f"/trials?state=asked&after={after}&wait=60")):
            pass
        return found

    def tell(self, trial: int, values: dict[str, Any], **words: Any) -> dict[str, Any]:
        """Tell what was measured; to tell the same again changes nothing."""
        return self.send(f"/trials/{trial}/tell", {"values": values, **words})

    def tell_all(self, values: dict[int, dict[str, Any]]) -> dict[str, Any]:
        """Tell several trials at once; `refused` of the answer has those that cannot be taken."""
        return self.send("/tell", {"trials": [{"trial": each, "values": y} for each, y in values.items()]})

    def fail(self, trial: int, reason: str, **words: Any) -> dict[str, Any]:
        """Say that a trial could not be done."""
        return self.send(f"/trials/{trial}/fail", {"reason": reason, **words})

    def result(self) -> dict[str, Any]:
        """Return the recommended settings and all that is known about them."""
        return self.send("/result")

    def send(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request, with a body one that may write, and return the answer."""
        data = None if body is None else json.dumps({"worker": self.worker, **body}).encode()
        until = time.monotonic() + self.patience
        while True:
            try:
                with urlopen(Request(self.address + path, data, self._head), timeout=900) as answer:
                    return json.load(answer)
            except HTTPError as error:
                again = error.headers.get("Retry-After")
                if error.code != 503 or time.monotonic() > until:
                    reason = json.load(error).get("error", "")
                    raise Refused(error.code, reason, None if again is None else int(again)) from None
            except OSError:  # the answer was lost, or the server restarts
                if time.monotonic() > until:
                    raise
            time.sleep(min(5, self.patience))
