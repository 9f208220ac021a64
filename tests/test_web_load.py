"""Many pages on a large study while workers write. Takes minutes: pytest -m long tests/test_web_load.py"""

import http.client
import json
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from pied.shell.opening import opened
from pied.web.command import prepared
from pied.web.server import listening, serving

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


@pytest.mark.long
@pytest.mark.slow
def test_fifty_pages_on_two_thousand_trials_while_four_workers_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big.toml").write_text(STATEMENT)
    with opened("big.toml", None, worker="old") as desk:
        for k in range(TRIALS):
            a, b = (k % 97) / 97, 2 * (k % 89) / 89
            desk.study._record.add({"a": a, "b": b}, {"y": a * b, "z": a + 0.1 * b}, worker="old")
    place = listening("127.0.0.1", 0)
    port = place.getsockname()[1]
    app, address = prepared(("big.toml",), None, "127.0.0.1", port, False)
    headers = {"X-Pied-Token": address.partition("token=")[2]}
    seen: list[set[int]] = [set() for _ in range(PAGES)]
    is_over = threading.Event()

    def look(mine: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/studies/big/events", headers=headers)
        answer = connection.getresponse()
        while not is_over.is_set():
            line = answer.readline()
            if line.startswith(b"data: ") and b"trials_changed" in line:
                seen[mine] |= {each["trial"] for each in json.loads(line[6:])["trials_changed"] if each["y"]}
        connection.close()

    def write(mine: int) -> None:
        for _ in range(WRITES):
            with opened("big.toml", None, worker=f"w{mine}") as desk:
                trial = desk.study.ask()
                desk.study.tell(trial, {"y": 0.5, "z": 0.2})

    with serving(app, place):
        pages = [threading.Thread(target=look, args=(k,), daemon=True) for k in range(PAGES)]
        writers = [threading.Thread(target=write, args=(k,), daemon=True) for k in range(WORKERS)]
        for each in [*pages, *writers]:
            each.start()
        seconds = []
        while any(each.is_alive() for each in writers):
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/api/studies/big/trials", headers=headers)
            assert len(json.loads(connection.getresponse().read())) >= TRIALS
            seconds.append(time.monotonic() - began)
            time.sleep(0.5)
        wanted = set(range(TRIALS + 1, TRIALS + WORKERS * WRITES + 1))
        end = time.monotonic() + 60
        while any(wanted - each for each in seen) and time.monotonic() < end:
            time.sleep(0.2)
        is_over.set()
    assert all(wanted <= each for each in seen)  # nothing is lost
    print(f"a page of {TRIALS} trials took {sorted(seconds)[len(seconds) // 2]:.2f} s in the median")
