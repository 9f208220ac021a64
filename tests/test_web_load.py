"""Many pages on a large study while workers write. Takes minutes: pytest -m long -s tests/test_web_load.py"""

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from pied.shell.opening import opened

PAGES, TRIALS, WORKERS, WRITES = 50, 2000, 4, 10
STATEMENT = """
maximize = "2*y - z"
noise = 0
outputs = ["y", "z"]
solver = "random"
[variables]
a = [0, 1]
b = [0, 2]
[subject_to]
limit = "y + z <= 2.5"
"""
SERVER = "from pied.shell.main import main; main(['dashboard', 'big.toml', '--port', '0', '--json'])"
WORKER = f"""
import sys
from pied.shell.opening import opened
for _ in range({WRITES}):
    with opened("big.toml", None, worker=sys.argv[1]) as desk:
        trial = desk.study.ask()
        desk.study.tell(trial, {{"y": 0.5, "z": 0.2}})
"""


class Page:
    """What an open page does, without drawing it: load the study, then follow its changes."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self.port, self.headers = port, headers
        self.told: set[int] = set()
        self.seconds: list[float] = []
        """That each load took."""
        self.lags: list[float] = []
        """Between a tell and its sight."""
        self.error: Exception | None = None

    def get(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", path, headers=self.headers)
        answer = connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())

    def load(self) -> int:
        """Load all trials; return the number of the change that they show at least."""
        began = time.monotonic()
        about, trials = self.get("/api/studies/big"), self.get("/api/studies/big/trials")
        self.seconds.append(time.monotonic() - began)
        self.told |= {each["trial"] for each in trials if each["y"]}
        return int(about["change"])

    def look(self) -> None:
        try:
            self._follow()
        except (OSError, ValueError, AssertionError, http.client.HTTPException) as error:
            self.error = error

    def _follow(self) -> None:
        known = self.load()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", "/api/studies/big/events", headers=self.headers)
        answer, kind = connection.getresponse(), ""
        while line := answer.readline().decode():  # empty when the server ends the stream
            kind = line.removeprefix("event: ").strip() if line.startswith("event: ") else kind
            if not line.startswith("data: "):
                continue
            data = json.loads(line[6:])
            if kind == "reload" or (kind == "study" and data["change"] != known):
                known = self.load()
            elif kind == "change":
                rows = [each for each in data["trials_changed"] if each["y"] and each["trial"] not in self.told]
                self.lags += [time.time() - each["settled_at"] for each in rows]
                self.told |= {each["trial"] for each in rows}


def middle(values: list[float]) -> str:
    ordered = sorted(values)
    return f"median {ordered[len(ordered) // 2]:.2f} s, largest {ordered[-1]:.2f} s ({len(ordered)})"


@pytest.mark.long
@pytest.mark.slow
def test_fifty_pages_on_two_thousand_trials_while_four_workers_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIED_STORE", raising=False)
    (tmp_path / "big.toml").write_text(STATEMENT)
    with opened("big.toml", None, worker="old") as desk:
        points = [((k % 97) / 97, 2 * (k % 89) / 89) for k in range(TRIALS)]
        desk.study.add_all([({"a": a, "b": b}, {"y": a * b, "z": a + 0.1 * b}) for a, b in points])
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        assert server.stdout is not None
        address = json.loads("".join(server.stdout.readline() for _ in range(3)))["address"]
        port, token = int(address.split(":")[2].partition("/")[0]), address.partition("token=")[2]
        pages = [Page(port, {"X-Pied-Token": token}) for _ in range(PAGES)]
        threads = [threading.Thread(target=each.look, daemon=True) for each in pages]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 120
        while not all(each.seconds or each.error for each in pages) and time.monotonic() < end:
            time.sleep(0.1)
        workers = [subprocess.Popen([sys.executable, "-c", WORKER, f"w{k}"]) for k in range(WORKERS)]
        late = Page(port, {"X-Pied-Token": token})  # who comes while others look and write
        while any(each.poll() is None for each in workers):
            late.load()
            time.sleep(0.2)
        assert [each.returncode for each in workers] == [0] * WORKERS
        wanted = set(range(1, TRIALS + WORKERS * WRITES + 1))
        end = time.monotonic() + 60
        while any(wanted - each.told for each in pages) and time.monotonic() < end:
            time.sleep(0.2)
    finally:
        server.terminate()
        _, said = server.communicate(timeout=30)
    for thread in threads:
        thread.join(30)
    assert [each.error for each in pages if each.error] == []
    assert [len(wanted - each.told) for each in pages if wanted - each.told] == []  # nothing is lost
    assert said == ""  # open pages are no reason for complaints when the server ends
    print(f"\na page opened beside {PAGES} others: {middle(late.seconds)}")
    print(f"{PAGES} pages opened at once: {middle([each.seconds[0] for each in pages])}")
    print(f"from a tell to a page: {middle([lag for each in pages for lag in each.lags])}")
