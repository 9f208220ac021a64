"""The dashboard as a server: streams of changes, a store in PostgreSQL, and the scripts of the guide."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shells import LAB, pied_

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from pied.errors import SettingError
from pied.web import guard, server
from pied.web.command import prepared
from pied.web.demo import prepare
from pied.web.server import listening, serving

GUIDE = Path(__file__).parents[1] / "docs" / "guide-dashboard.md"
TOKEN = "a-long-secret-of-the-robot"
MEASURE = """
from pied.suite.applied import williams_otto

def measure(**x):
    y = williams_otto(**x)
    return {name: y[name] for name in ("X_A", "X_G", "X_P", "X_E")}
"""
"""What the guide's robot measures."""


@contextlib.contextmanager
def dashboard(*files: str, store: str | None = None) -> Iterator[int]:
    """Serve studies; give the port."""
    place = listening("127.0.0.1", 0)
    port = place.getsockname()[1]
    app, _ = prepared(files, store, "127.0.0.1", port, False)
    with serving(app, place):
        yield port


def send(port: int, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    head = {"X-Pied-Token": TOKEN, "Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), head)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    assert answer.status in (200, 201), found
    return found


def events(port: int, path: str) -> Iterator[tuple[str, Any]]:
    """Yield kind and data of each event, until the server ends the stream."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"X-Pied-Token": TOKEN})
    answer, kind = connection.getresponse(), ""
    while line := answer.readline().decode():
        if line.startswith("event: "):
            kind = line[7:].strip()
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, and the token of the guide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIED_STORE", raising=False)
    monkeypatch.setenv("PIED_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_open_pages_get_the_end_of_their_stream_when_the_server_stops(lab: Path) -> None:
    with dashboard("lab.toml") as port:
        streams = [events(port, "/api/studies/lab/events"), events(port, "/api/events")]
        assert [next(each)[0] for each in streams] == ["study", "studies"]
    for each in streams:
        assert list(each) == []  # a stream that is cut off raises


def test_two_servers_never_share_a_port_not_even_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_KEEPALIVE, raising=False)  # there: not SO_REUSEADDR
    with contextlib.closing(listening("127.0.0.1", 0)) as place:
        assert not place.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        with pytest.raises(SettingError, match="name another one, --port"):
            listening("127.0.0.1", place.getsockname()[1])


def begun(port: int, text: str, count: int = 1) -> list[socket.socket]:
    """Return connections on which a request was begun."""
    made = []
    for _ in range(count):
        made.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        made[-1].sendall(text.replace("\n", "\r\n").encode())
    return made


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection; what it says until then is passed over."""
    try:
        while connection.recv(10_000):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


HOST = "Host: 127.0.0.1\n"
OWN = f"X-Pied-Token: {TOKEN}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"GET /api HTTP/1.1\n{HOST}X-", "",  # heads
        f"POST /api/check HTTP/1.1\n{HOST}Content-Length: 9\n\n{{",  # a body that was refused unread
        f"GET /api HTTP/1.1\n{HOST}{OWN}\nGET /api",  # a second head
    ],
)  # fmt: skip
def test_a_request_that_does_not_come_is_given_up_however_it_trickles(
    lab: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(server, "SLOWEST_HEAD", 0.5)
    with dashboard("lab.toml") as port:
        (connection,) = begun(port, text)
        is_over = threading.Event()

        def trickle() -> None:
            with contextlib.suppress(OSError):
                while not is_over.wait(0.1):
                    connection.sendall(b"a" if text else b"")

        thread = threading.Thread(target=trickle)
        thread.start()
        assert is_closed(connection)
        is_over.set()
        thread.join()
        assert send(port, "/api")["pied"]


def test_a_body_that_trickles_is_given_up(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SLOWEST_BODY", 0.5)
    with dashboard("lab.toml") as port:
        head = f"POST /api/check HTTP/1.1\n{HOST}{OWN}Content-Type: application/json\nContent-Length: 99\n\n"
        (connection,) = begun(port, head)
        for _ in range(20):
            connection.sendall(b" ")
            time.sleep(0.05)
        assert b" 408 " in connection.recv(1000)


def test_a_request_that_breaks_off_is_no_mistake_of_ours(lab: Path, caplog: pytest.LogCaptureFixture) -> None:
    with dashboard("lab.toml") as port:
        head = f"POST /api/check HTTP/1.1\n{HOST}{OWN}Content-Type: application/json\n"
        for more in ("Content-Length: 99\n\n{", "Transfer-Encoding: chunked\n\nzz\n"):
            for connection in begun(port, head + more, 3):
                connection.shutdown(socket.SHUT_WR)
                assert is_closed(connection)
        assert send(port, "/api")["pied"]
    assert not [each for each in caplog.records if each.exc_info]


def test_one_client_cannot_use_up_all_connections(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_OF_CLIENT", 20)
    with dashboard("lab.toml") as port:
        half = begun(port, f"GET /api HTTP/1.1\n{HOST}", 50)
        assert send(port, "/api")["pied"]  # in the place of one that waited
        assert is_closed(half[0])
        for each in half:
            each.close()
        busy = begun(port, f"GET /api/events HTTP/1.1\n{HOST}{OWN}\n", 20)
        for each in busy:
            assert b" 200 " in each.recv(1000)
        (refused,) = begun(port, f"GET /api HTTP/1.1\n{HOST}{OWN}\n")
        answer = b"".join(iter(lambda: refused.recv(1000), b""))
        assert b" 503 " in answer
        assert b"20 connections" in answer
        for each in busy:
            each.close()


@pytest.mark.slow
def test_a_store_in_postgresql_is_asked_told_and_followed(place: Path, server: str) -> None:
    name = f"lab{uuid.uuid4().hex[:8]}"
    (place / f"{name}.toml").write_text(LAB)
    pied_("ask", f"{name}.toml", "--store", server)
    with dashboard(store=server) as port:  # without the file: the store knows the question
        cards = {each["name"]: each for each in send(port, "/api/studies")}
        assert cards[name]["trials"] == 1
        base = f"/api/studies/{cards[name]['id']}"
        stream = events(port, f"{base}/events")
        assert next(stream)[1]["trials"] == 1
        told = {"worker": "robot", "values": {"product": 0.6, "impurity": 0.05}}
        for _ in range(2):  # the second time changes nothing
            assert send(port, f"{base}/trials/1/tell", told)["trial"] == 1
        change = next(data for kind, data in stream if kind == "change")
        assert [each["y"] for each in change["trials_changed"]] == [told["values"]]
        pied_("ask", f"{name}.toml", "--store", server)  # a shell beside
        change = next(data for kind, data in stream if kind == "change")
        assert [each["state"] for each in change["trials_changed"]] == ["asked"]
        assert send(port, f"{base}/ask", {"worker": "robot", "count": 1})["trials"][0]["trial"] == 3


# ------------------------------------------------------------------------------------------------- scripts of the guide


def blocks(kind: str) -> list[str]:
    """Return the blocks of the guide's part for instruments."""
    part = GUIDE.read_text().partition("## For instruments")[2].partition("\n## ")[0]
    return re.findall(rf"```{kind}\n(.*?)```", part, re.DOTALL)


@pytest.mark.slow
def test_the_robot_of_the_guide_asks_measures_and_tells(place: Path) -> None:
    prepare(place)
    (script,) = blocks("python")
    with dashboard("reactor.toml") as port:
        script = script.replace("127.0.0.1:8766", f"127.0.0.1:{port}").replace("range(20)", "range(2)")
        done = subprocess.run([sys.executable, "-c", MEASURE + script], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        trials = send(port, "/api/studies/reactor/trials")
    assert [(each["trial"], each["state"], each["worker"]) for each in trials] == [
        (1, "told", "robot-1"),
        (2, "told", "robot-1"),
    ]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl") or os.name == "nt", reason="there is no curl")
def test_the_curl_commands_of_the_guide_ask_and_tell(place: Path) -> None:
    prepare(place)
    (text,) = blocks("console")
    commands = [
        each.replace("\\\n", " ") for each in re.findall(r"^\$ (curl .*?[^\\])$", text, re.DOTALL | re.MULTILINE)
    ]
    assert len(commands) == 2
    with dashboard("reactor.toml") as port:
        answers = []
        for command in commands:
            line = command.replace("127.0.0.1:8766", f"127.0.0.1:{port}").replace("trials/15/", "trials/1/")
            done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            answers.append(json.loads(done.stdout))
    assert sorted(answers[0]["trials"][0]["x"]) == ["F_B", "T_r"]
    assert answers[1]["trial"] == 1
    assert answers[1]["state"] == "told"
