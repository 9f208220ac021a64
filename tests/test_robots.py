"""Instruments and assistants: what is not there yet, several trials at once, waiting for a trial, and tools."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from shells import LAB, pied_

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")
from pied.client import Client, Refused
from pied.web.assistant import tools
from pied.web.shelf import Shelf
from test_web import client, post
from test_web_server import TOKEN, dashboard

GOOD = {"product": 0.5, "impurity": 0.02}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of the server."""
    monkeypatch.setenv("PIED_TOKEN", TOKEN)


def test_what_is_not_there_yet_says_when_to_ask_again(lab: Path) -> None:
    web = client(lab, "lab.toml")
    for _ in range(2):  # without a record, and with an open trial alone
        answer = web.post("/api/studies/lab/what-if", json={"constants": {"price": 3.0}})
        assert (answer.status_code, answer.json()["kind"], answer.headers["retry-after"]) == (409, "NotYet", "60")
        post(web, "/api/studies/lab/ask")
    wrong = web.post("/api/studies/lab/trials/1/tell", json={"values": {"product": "wet"}})
    assert (wrong.status_code, wrong.headers.get("retry-after")) == (422, None)


def test_what_is_wrong_with_one_trial_keeps_none_of_the_others_back(lab: Path) -> None:
    web = client(lab, "lab.toml")
    post(web, "/api/studies/lab/ask", count=3)
    rows: list[Any] = [
        {"trial": 1, "values": GOOD},
        {"trial": 2, "values": {"prodct": 1}},
        {"trial": 9},
        {"trial": "1"},
        {"trial": 3, "values": GOOD, "at": {"time": 2.0}},
        {"trial": 1, "value": GOOD},
    ]
    for _ in range(2):  # the second time changes nothing
        answer = post(web, "/api/studies/lab/tell", trials=rows)
        assert [each["trial"] for each in answer["told"]] == [1, 3]
        assert [each["trial"] for each in answer["refused"]] == [2, 9, "1", 1]
    assert "Did you mean 'product'" in answer["refused"][0]["error"]
    states = {each["trial"]: each["state"] for each in web.get("/api/studies/lab/trials").json()}
    assert states == {1: "told", 2: "asked", 3: "told"}
    assert "is a list" in post(web, "/api/studies/lab/tell", 422, trials={"1": GOOD})["error"]


def test_a_robot_waits_until_somebody_asks_for_a_trial(lab: Path) -> None:
    with dashboard("lab.toml") as port:
        address = f"http://127.0.0.1:{port}/api/studies/lab"
        robot, person = Client(address, TOKEN, worker="robot-1"), Client(address, TOKEN, worker="Ada")
        with pytest.raises(Refused, match="nothing is recorded yet") as refused:
            robot.result()
        assert (refused.value.status, refused.value.again) == (409, 60)
        assert robot.send("/trials?state=asked&wait=0") == []
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(robot.wait()))
        thread.start()
        time.sleep(0.2)
        first = person.ask(2)
        thread.join(10)
        assert {each["trial"] for each in found} <= {each["trial"] for each in first}
        assert [each["trial"] for each in robot.send("/trials?state=asked&after=1")] == [2]
        robot.tell(1, GOOD)
        assert robot.tell_all({1: GOOD, 2: GOOD})["refused"] == []
        robot.ask()
        assert robot.fail(3, "the pump tripped")["state"] == "failed"
        assert {each["worker"] for each in robot.send("/trials")} <= {"Ada", "robot-1"}


def test_a_robot_tries_again_while_the_server_is_away(lab: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"refused|Errno"):
        Client("http://127.0.0.1:9/api/studies/lab", TOKEN, patience=0.2).ask()
    assert time.monotonic() - begun > 0.2


# ---------------------------------------------------------------------------------------------------------- assistants


def test_the_tools_of_an_assistant_answer_in_the_words_of_the_page(lab: Path) -> None:
    shelf = Shelf(["lab.toml"], store=None, folder=lab)
    by_name = {each.__name__: each for each in tools(shelf, ValueError, write=True, worker="helper of Ada")}
    assert by_name["ask"]("lab")["trials"][0]["trial"] == 1
    with pytest.raises(ValueError, match="tell at least two complete evaluations first"):
        by_name["what_if"]("lab", {"price": 3.0})
    assert by_name["tell"]("lab", 1, GOOD)["state"] == "told"
    assert by_name["trials"]("lab", "told")["trials"][0]["worker"] == "helper of Ada"
    with pytest.raises(ValueError, match="Did you mean 'lab'"):
        by_name["result"]("lb")
    assert len(tools(shelf, ValueError, write=False, worker="")) == len(by_name) - 3
    shelf.close()


class Assistant:
    """Speaks the Model Context Protocol with `pied mcp`: one line of JSON per message."""

    def __init__(self, *words: str) -> None:
        code = "from pied.shell.main import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, "mcp", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.about = self.send("initialize", about)
        self.write({"method": "notifications/initialized"})

    def write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def send(self, method: str, given: dict[str, Any]) -> Any:
        assert self._process.stdout is not None
        self.write({"id": 1, "method": method, "params": given})
        return json.loads(self._process.stdout.readline())["result"]

    def call(self, tool: str, **given: Any) -> tuple[bool, str]:
        answer = self.send("tools/call", {"name": tool, "arguments": given})
        return bool(answer["isError"]), answer["content"][0]["text"]

    def end(self) -> int:
        self._process.communicate()
        return self._process.returncode


@pytest.mark.slow
def test_an_assistant_reads_and_writes_only_where_it_may(lab: Path) -> None:
    pytest.importorskip("mcp")
    (lab / "lab.toml").write_text(LAB)
    pied_("ask", "lab.toml")
    reader = Assistant("lab.toml")
    names = {each["name"] for each in reader.send("tools/list", {})["tools"]}
    assert names == {"studies", "question", "trials", "result", "what_if", "explain"}
    assert reader.call("tell", study="lab", trial=1, values=GOOD)[0]
    is_error, said = reader.call("result", study="lb")
    assert is_error
    assert "Did you mean 'lab'" in said
    assert reader.end() == 0
    writer = Assistant("lab.toml", "--write", "--worker", "helper of Ada")
    assert not writer.call("tell", study="lab", trial=1, values=GOOD)[0]
    assert json.loads(writer.call("ask", study="lab")[1])["trials"][0]["trial"] == 2
    assert json.loads(writer.call("trials", study="lab", state="told")[1])["trials"][0]["y"] == GOOD
    assert writer.end() == 0
    assert "helper of Ada" in pied_("history", "lab.toml").stdout
