"""The dashboard's interface: what the shell does, as JSON, with the shell's own messages."""

import asyncio
import contextlib
import errno
import io
import itertools
import json
import math
import os
import sqlite3
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shells import data, pied_

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.testclient import TestClient

from pied.web import live
from pied.web.app import made
from pied.web.data import trial_list
from pied.web.live import Feed
from pied.web.room import Room
from pied.web.shelf import Shelf

ROOT = Path(__file__).parents[1]
TOKEN = "a-token-of-the-tests"


def client(folder: Path, *files: str, store: str | None = None, read_only: bool = False) -> TestClient:
    app = made(
        Shelf(files, store=store, folder=folder), token=TOKEN, hosts=frozenset({"127.0.0.1"}), port=1,
        read_only=read_only,
    )  # fmt: skip
    return TestClient(app, base_url="http://127.0.0.1:1", headers={"X-Pied-Token": TOKEN})


@pytest.fixture
def web(lab: Path) -> TestClient:
    """The dashboard of a laboratory with three measured trials and one open."""
    (lab / "old.csv").write_text(
        "temperature,time,product,impurity\n70,1,0.4,0.02\n80,2,0.6,0.05\n90,4,0.7,0.09\n95,5,0.71,0.1\n"
    )
    pied_("add", "lab.toml", "old.csv")
    return client(lab, "lab.toml")


def post(web: TestClient, path: str, status: int = 200, **body: Any) -> Any:
    answer = web.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


# ------------------------------------------------------------------------------------------------------------- reading


def test_what_is_quick_does_not_wait_for_what_takes_long(web: TestClient) -> None:
    view = Room("lab", file="lab.toml", store=None).view()
    began, is_read = threading.Event(), threading.Event()

    def long() -> bool:
        began.set()
        return is_read.wait(10)

    thread = threading.Thread(target=lambda: view.kept("long", long))
    thread.start()
    began.wait(10)
    assert len(trial_list(view)) == 4
    is_read.set()
    thread.join()
    assert view.kept("long", lambda: None) is True  # nobody waited in vain


def test_a_change_that_cannot_be_shown_ends_no_stream_and_comes_with_the_next_look(
    web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, summarized, is_broken = Feed(Room("lab", file="lab.toml", store=None)), live.summary, False

    def summary(room: Any, view: Any) -> Any:
        if is_broken:
            raise RuntimeError("a picture that cannot be drawn")
        return summarized(room, view)

    async def follow() -> list[Any]:
        nonlocal is_broken
        found = []
        async for event in feed.follow():
            kind, _, rest = event.decode().partition("\n")
            if kind == "event: study":
                is_broken = True
                pied_("note", "lab.toml", "1", "late")
                await asyncio.sleep(0.1)
                is_broken = False
            elif kind == "event: change":
                found = json.loads(rest.removeprefix("data: "))["trials_changed"]
                feed.end()
        return found

    monkeypatch.setattr(live, "summary", summary)
    monkeypatch.setattr(live, "EVERY", 0.02)
    assert [each["trial"] for each in asyncio.run(follow())] == [1]


def test_a_page_that_is_loaded_again_gets_the_recommendation_at_once(
    web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, recommended = Feed(Room("lab", file="lab.toml", store=None)), []

    def recommend(_: Any) -> Any:
        recommended.append(True)
        time.sleep(0.3)  # after which the reader rests as long
        return {"x": None}

    async def opened() -> None:
        async with contextlib.aclosing(feed.follow()) as events:
            async for event in events:
                if event.startswith(b"event: result"):
                    return

    async def loaded_twice() -> None:
        for _ in range(2):
            await asyncio.wait_for(opened(), 20)

    monkeypatch.setattr(live, "_recommended", recommend)
    asyncio.run(loaded_twice())
    assert len(recommended) == 1


def test_the_list_says_where_each_study_stands(web: TestClient) -> None:
    (study,) = web.get("/api/studies").json()
    assert (study["id"], study["question"], study["trials"]) == ("lab", "maximize price*product - 0.4*time", 4)
    assert study["best"]["trial"] == 2


def test_a_study_that_cannot_be_read_says_why_and_hides_no_other(lab: Path) -> None:
    (lab / "bad.toml").write_text("maximize = 'nothing'\n[variables]\na = [0, 1]\n[outputs]\ny = {}\n")
    first, second = client(lab, "bad.toml", "lab.toml").get("/api/studies").json()
    assert "nothing" in first["error"]
    assert second["status"] == "NEW"


def test_a_front_comes_with_what_its_picture_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "front.toml").write_text(
        "maximize = { gain = 'y' }\nminimize = { cost = 'a' }\n[variables]\na = [0, 1]\n[outputs]\ny = { noise = 0 }\n"
        "[subject_to]\nmost = 'a <= 0.9'\n"
    )
    (tmp_path / "old.csv").write_text("a,y\n0,0\n0.25,0.5\n0.4,0.2\n0.5,0.7\n0.8,0.8\n1,1\n")
    pied_("add", "front.toml", "old.csv")
    page = client(tmp_path, "front.toml")
    about = page.get("/api/studies/front").json()
    assert (about["question"], about["objectives"]) == ("maximize gain, minimize cost", ["gain", "cost"])
    result = page.get("/api/studies/front/result").json()
    front = result["front"]
    assert [point["trial"] for point in front["points"]] == [5, 4, 2, 1]
    assert [(other["trial"], other["met"]) for other in front["others"]] == [(3, True), (6, False)]
    assert front["balanced"] in (2, 4)
    assert front["points"][0]["text"] == "gain 0.8, cost 0.8"
    assert front["points"][0]["settings"] == [{"name": "a", "text": "0.8"}]
    assert "limit 0.9: met" in front["points"][0]["limits"][0]["text"]
    steps = front["steps"]  # the edge turns at right angles, at each point of the front
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(steps))
    assert all([point["values"]["gain"], point["values"]["cost"]] in steps for point in front["points"])
    assert result["value_text"].startswith("gain ")


def test_trials_are_those_of_the_export(web: TestClient) -> None:
    trials = web.get("/api/studies/lab/trials").json()
    assert [each["trial"] for each in trials] == [1, 2, 3, 4]
    assert trials[1]["value"] == pytest.approx(20 * 0.6 - 0.4 * 2)
    assert [each["feasible"] for each in trials] == [True, True, False, False]
    assert web.get("/api/studies/lab/export.csv").text == pied_("export", "lab.toml").stdout


def test_the_result_is_that_of_the_shell(web: TestClient) -> None:
    shown = web.get("/api/studies/lab/result").json()
    said = pied_("result", "lab.toml", code=(0, 3)).stdout
    assert shown["text"].splitlines()[1:] == said.splitlines()[1:]
    assert {each["name"] for each in shown["settings"]} == {"temperature", "time"}
    (limit,) = shown["limits"]
    bar, (low, high) = limit["bar"], shown["bounds"]["purity"]
    assert bar["value"] == pytest.approx(bar["limits"][0]["value"] - shown["slack"]["purity"])
    assert bar["ends"] == pytest.approx([bar["limits"][0]["value"] - high, bar["limits"][0]["value"] - low])
    assert 0.02 <= bar["usual"][0] < bar["usual"][1] <= 0.1  # of what was measured


def test_what_is_not_there_is_a_404_that_helps(web: TestClient) -> None:
    assert "Did you mean 'lab'?" in web.get("/api/studies/lap").json()["error"]
    assert web.get("/api/studies/lap").status_code == 404
    assert web.get("/api/nothing").status_code == 404
    assert "trials 1 to 4" in post(web, "/api/studies/lab/trials/99/tell", 404, values={"product": 1})["error"]


# ---------------------------------------------------------------------------------------------------------- experiments


def test_asking_again_returns_the_same_trial_and_a_batch_adds_to_it(web: TestClient) -> None:
    (first,) = post(web, "/api/studies/lab/ask", worker="robot")["trials"]
    assert post(web, "/api/studies/lab/ask", worker="robot")["trials"][0]["x"] == first["x"]
    batch = post(web, "/api/studies/lab/ask", worker="robot", count=3)["trials"]
    assert [each["trial"] for each in batch] == [5, 6, 7]
    plan = web.get("/api/studies/lab/plan.csv").text.splitlines()
    assert plan[0] == "trial,temperature,time,product,impurity"
    assert len(plan) == 4


def test_given_settings_are_kept_by_proposals_and_results(web: TestClient) -> None:
    (made_,) = post(web, "/api/studies/lab/ask", worker="robot", given={"temperature": "70:71", "time": 2})["trials"]
    assert 70 <= made_["x"]["temperature"] <= 71
    assert made_["x"]["time"] == 2
    assert "outside" in post(web, "/api/studies/lab/ask", 422, given={"temperature": 800})["error"]
    assert web.get("/api/studies/lab/result?given=temperature=77.5").json()["x"]["temperature"] == 77.5


def test_a_withdrawal_that_is_repeated_changes_nothing_and_says_so(web: TestClient) -> None:
    first = post(web, "/api/studies/lab/trials/2/withdraw", why="dirty")
    before = data("export", "lab.toml")
    again = post(web, "/api/studies/lab/trials/2/withdraw", why="dirty")
    assert again.pop("notes") == ["trial 2: that was done before; nothing has changed"]
    assert again == first
    assert data("export", "lab.toml") == before
    assert "'dirty'" in post(web, "/api/studies/lab/trials/2/withdraw", 422, why="wet")["error"]


def test_a_tell_that_is_repeated_changes_nothing(web: TestClient) -> None:
    post(web, "/api/studies/lab/ask")
    told = post(web, "/api/studies/lab/trials/5/tell", values={"product": 0.5, "impurity": "0.03"})
    assert told["state"] == "told"
    before = data("export", "lab.toml")
    again = post(web, "/api/studies/lab/trials/5/tell", values={"product": 0.5, "impurity": 0.03})
    assert again == told | {"said": "trial 5: already told, nothing changed"}
    assert data("export", "lab.toml") == before


def test_a_part_now_and_the_rest_later_at_other_settings(web: TestClient) -> None:
    post(web, "/api/studies/lab/ask")
    assert post(web, "/api/studies/lab/trials/5/tell", values={"product": 0.5})["missing"] == ["impurity"]
    told = post(web, "/api/studies/lab/trials/5/tell", values={"impurity": 0.03}, at={"time": 2.5})
    assert told["x"]["time"] == 2.5
    assert told["asked"]["time"] != 2.5
    told = post(web, "/api/studies/lab/trials/5/tell", at={"time": 2.5})
    refused = post(web, "/api/studies/lab/trials/4/tell", 409, at={"time": 2.5})["error"]  # complete: needs a reason
    assert "counts as run at time = 5, not at 2.5" in refused
    assert "If the earlier one is wrong, correct it." in refused


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["produkt=0.5"], {"values": {"produkt": 0.5}}),
        (["product=5 %"], {"values": {"product": "5 %"}}),
    ],
)
def test_what_the_shell_refuses_is_refused_in_the_same_words(web: TestClient, words: list[str], body: Any) -> None:
    post(web, "/api/studies/lab/ask", worker="anna")
    said = pied_("tell", "lab.toml", "5", *words, code=2).stderr.strip().removeprefix("pied: ")
    assert " ".join(post(web, "/api/studies/lab/trials/5/tell", 422, **body)["error"].split()) == said


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["product=1.5"], {"values": {"product": 1.5}}),
        (["product=0.5", "--at", "time=900"], {"values": {"product": 0.5}, "at": {"time": 900}}),
    ],
)
def test_what_is_doubted_is_said_in_the_words_of_its_reader(web: TestClient, words: list[str], body: Any) -> None:
    post(web, "/api/studies/lab/ask", worker="anna")
    said = pied_("tell", "lab.toml", "5", *words, code=2).stderr.strip().removeprefix("pied: ")
    assert said.endswith(": --anyway")
    here = post(web, "/api/studies/lab/trials/5/tell", 422, **body)["error"]
    assert "--anyway" not in here
    assert here.startswith(said.removesuffix("--anyway"))
    assert here.endswith("tick 'these values are right' (a program sends \"anyway\": true)")
    page = (ROOT / "src/pied/web/static/js/work.js").read_text()
    assert page.count("these values are right, also outside of their ranges") == 3  # tell, correct, add a table
    bare = post(web, "/api/studies/lab/trials/4/correct", 422, values={"product": 0.5}, why=" ")["error"]
    assert "--why" not in bare
    assert "fill in the reason" in bare
    assert post(web, "/api/studies/lab/trials/5/tell", **body, anyway=True)["state"] == "partial"


def test_another_value_is_a_conflict_until_it_is_corrected(web: TestClient) -> None:
    assert "cannot become 0.7" in post(web, "/api/studies/lab/trials/1/tell", 409, values={"product": 0.7})["error"]
    assert post(web, "/api/studies/lab/trials/1/correct", 422, values={"product": 0.7})["error"]  # without a reason
    post(web, "/api/studies/lab/trials/1/correct", values={"product": 0.7}, why="a slip")
    row = web.get("/api/studies/lab/trials").json()[0]
    assert row["y"]["product"] == 0.7
    assert "0.7 instead of 0.4 (a slip)" in row["amended"][0]


def test_fail_withdraw_restore_and_note(web: TestClient) -> None:
    post(web, "/api/studies/lab/ask")
    assert post(web, "/api/studies/lab/trials/5/fail", 422)["error"].startswith("say why")
    assert post(web, "/api/studies/lab/trials/5/fail", reason="pump")["state"] == "failed"
    assert not web.get("/api/studies/lab/trials").json()[4]["not_the_settings"]
    assert post(web, "/api/studies/lab/trials/5/fail", reason="pump", not_the_settings=True)["not_the_settings"]
    assert web.get("/api/studies/lab/trials").json()[4]["not_the_settings"]
    assert "true or false" in post(web, "/api/studies/lab/trials/5/fail", 422, reason="x", not_the_settings=1)["error"]
    assert post(web, "/api/studies/lab/trials/2/withdraw", why="dirty")["state"] == "withdrawn"
    assert post(web, "/api/studies/lab/trials/2/restore")["state"] == "told"
    for _ in range(2):
        post(web, "/api/studies/lab/trials/2/note", text="blue")
    assert web.get("/api/studies/lab/trials").json()[1]["notes"] == ["blue"]
    assert [each["kind"] for each in web.get("/api/studies/lab/history?trial=2").json()].count("noted") == 1


def test_a_table_is_added_once_and_a_plan_is_told(web: TestClient) -> None:
    table = "temperature,time,product,impurity\n65,3,0.45,0.01\n"
    for expected in ("1 row added", "0 rows added; 1 was already there"):
        answer = web.post("/api/studies/lab/table?name=more.csv", content=table)
        assert answer.json()["said"] == expected
    post(web, "/api/studies/lab/ask", count=2)
    lines = web.get("/api/studies/lab/plan.csv").text.splitlines()
    filled = "\n".join([lines[0], lines[1].removesuffix(",,") + ",0.4,0.02", lines[2]])
    assert web.post("/api/studies/lab/table?name=plan.csv", content=filled).json()["told"] == [6]
    old = web.post("/api/studies/lab/table?name=old.csv&campaign=2025", content=table.replace("65", "66")).json()
    assert old["added"] == [8]
    assert web.get("/api/studies/lab/trials").json()[7]["campaign"] == "2025"
    assert any(each.startswith("2025: ") for each in web.get("/api/studies/lab/result").json()["remarks"])
    refused = web.post("/api/studies/lab/table?name=odd.csv", content="a,b\n1,2\n")
    assert refused.status_code == 422
    assert "odd.csv has no column 'temperature'" in refused.json()["error"]


def test_a_table_with_other_headings_is_asked_about_before_it_is_added(web: TestClient) -> None:
    table = "Temp. (K);Time;Product;Impurity\n343,15;1,5;0,45;0,01\n"
    asked = web.post("/api/studies/lab/table?name=odd.csv", content=table).json()
    assert "'Temp. (K)' is temperature, converted from K to degC" in asked["question"]
    assert len(web.get("/api/studies/lab/trials").json()) == 4
    answer = web.post("/api/studies/lab/table?name=odd.csv&yes=true", content=table).json()
    assert answer["said"] == "1 row added"
    assert web.get("/api/studies/lab/trials").json()[4]["x"]["temperature"] == pytest.approx(70)


def test_an_excel_file_goes_out_and_comes_in(web: TestClient) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    content = web.get("/api/studies/lab/export.xlsx").content
    assert openpyxl.load_workbook(io.BytesIO(content)).active.max_row == 5
    answer = web.post("/api/studies/lab/table?name=again.xlsx", content=content)
    assert answer.json()["said"] == "0 rows added; 4 were already there"


def test_the_gap_is_that_of_the_answer_on_every_card(lab: Path) -> None:
    (lab / "lab.toml").write_text((lab / "lab.toml").read_text().replace('solver = "random"', 'solver = "cuqb"'))
    web = client(lab, "lab.toml")
    for number in range(1, 7):
        assert post(web, "/api/studies/lab/ask")["trials"][0]["trial"] == number
        post(web, f"/api/studies/lab/trials/{number}/tell", values={"product": 0.5, "impurity": 0.03 + 0.001 * number})
    about = web.get("/api/studies/lab").json()
    assert (about["gap"], about["gap_text"]) == (None, ""), "it is not guessed before the answer is computed"
    answer = web.get("/api/studies/lab/result").json()
    about, last = web.get("/api/studies/lab").json(), web.get("/api/studies/lab/trials").json()[-1]
    assert answer["gap_text"]
    assert about["gap_text"] == answer["gap_text"]
    assert about["gap"] == last["gap"] == answer["gap"]
    same = post(web, "/api/studies/lab/what-if")
    assert (same["gap"], same["gap_text"]) == (pytest.approx(answer["gap"]), answer["gap_text"])


# ------------------------------------------------------------------------------------------------------------- what if


def test_a_looser_limit_and_a_higher_price_are_answered_and_nothing_is_written(web: TestClient) -> None:
    before = data("export", "lab.toml")
    base = post(web, "/api/studies/lab/what-if")
    dear = post(web, "/api/studies/lab/what-if", constants={"price": 40.0}, map={})
    assert dear["value"] > base["value"]
    assert dear["recorded"] is False
    assert len(dear["map"]["certain"]) == len(dear["map"]["objective"])
    loose = post(web, "/api/studies/lab/what-if", constants={"limit": 0.2})
    assert loose["value"] >= base["value"] - 1e-6
    assert loose["prices"][0]["price"] <= base["prices"][0]["price"] + 1e-9
    assert data("export", "lab.toml") == before
    assert "Did you mean 'price'" in post(web, "/api/studies/lab/what-if", 422, constants={"prize": 1.0})["error"]


def test_asking_the_question_writes_the_file_and_the_record_with_a_note(web: TestClient, lab: Path) -> None:
    assert "say why" in post(web, "/api/studies/lab/revise", 422, constants={"price": 25.0})["error"]
    made_ = post(web, "/api/studies/lab/revise", constants={"price": 25.0}, note="new contract")
    assert made_["question"] == 2
    assert "price = 25.0" in (lab / "lab.toml").read_text()
    assert web.get("/api/studies/lab").json()["notes"] == ["new contract"]
    assert data("status", "lab.toml")["question"] == 2
    assert "note: new contract" in pied_("history", "lab.toml").stdout


def test_a_question_that_cannot_be_recorded_leaves_the_file_and_can_be_asked_again(
    web: TestClient, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (lab / "lab.toml").read_text()
    monkeypatch.setattr("pied.records.sqlite.LOCK_WAIT", 0.05)
    with closing(sqlite3.connect(lab / "lab.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        post(web, "/api/studies/lab/revise", 503, constants={"price": 25.0}, note="new contract")
    assert (lab / "lab.toml").read_text() == before
    for _ in range(2):  # also when only the answer was lost
        assert post(web, "/api/studies/lab/revise", constants={"price": 25.0}, note="new contract")["question"] == 2
    assert (
        "nothing is different"
        in post(web, "/api/studies/lab/revise", 422, constants={"price": 25.0}, note="x")["error"]
    )
    assert "price = 25.0" in (lab / "lab.toml").read_text()
    assert web.get("/api/studies/lab").json()["notes"] == ["new contract"]


def test_a_store_that_is_gone_is_not_begun_anew(web: TestClient, lab: Path) -> None:
    before = (lab / "lab.toml").read_text()
    web.get("/api/studies/lab")
    (lab / "lab.db").rename(lab / "away.db")
    for path, body in (("ask", {}), ("revise", {"constants": {"price": 25.0}, "note": "new contract"})):
        assert "lab.db is gone: bring it back" in post(web, f"/api/studies/lab/{path}", 503, **body)["error"]
    answer = web.post("/api/studies/lab/table?name=x.csv", content="temperature,time,product,impurity\n70,2,0.4,0.02\n")
    assert answer.status_code == 503
    assert not (lab / "lab.db").exists()
    assert (lab / "lab.toml").read_text() == before
    (lab / "away.db").rename(lab / "lab.db")
    assert post(web, "/api/studies/lab/ask")["trials"]


def test_questions_asked_at_once_are_all_recorded_each_with_its_number(web: TestClient, lab: Path) -> None:
    def ask(price: float) -> Any:
        return post(web, "/api/studies/lab/revise", constants={"price": price}, note=f"contract {price}")["question"]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, (21.0, 22.0, 23.0, 24.0)))
    assert sorted(found) == [2, 3, 4, 5]
    record = data("export", "lab.toml")
    prices = [each["statement"]["constants"]["price"] for each in record["questions"]]
    assert prices[1:] == [price for _, price in sorted(zip(found, (21.0, 22.0, 23.0, 24.0), strict=True))]
    assert f"price = {prices[-1]}" in (lab / "lab.toml").read_text()


@pytest.mark.parametrize("kind", ["a new study", "another question"])
def test_a_full_disk_leaves_no_part_of_a_problem_file(
    web: TestClient, lab: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before = {file.name: file.read_bytes() for file in lab.iterdir() if not file.name.startswith("lab.db")}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        if kind == "a new study":
            assert "disk of the server is full" in post(web, "/api/studies", 507, **FORM)["error"]
        else:
            post(web, "/api/studies/lab/revise", 507, constants={"price": 25.0}, note="new contract")
    assert {file.name: file.read_bytes() for file in lab.iterdir() if not file.name.startswith("lab.db")} == before
    if kind == "a new study":
        post(web, "/api/studies", 201, **FORM)
        assert "exists already" in post(web, "/api/studies", 422, **FORM)["error"]
    else:
        assert post(web, "/api/studies/lab/revise", constants={"price": 25.0}, note="new contract")["question"] == 2


def test_half_a_character_is_refused_and_leaves_nothing(web: TestClient, lab: Path) -> None:
    before = sorted(lab.iterdir())
    for path, body in [
        ("/api/studies", {**FORM, "called": "\ud800"}),
        ("/api/studies/lab/ask", {"worker": "\ud800"}),
        ("/api/studies/lab/trials/1/note", {"text": "\udcff"}),
    ]:
        answer = web.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert (answer.status_code, "half of a character" in answer.json()["error"]) == (400, True)
    assert sorted(lab.iterdir()) == before


def test_a_limit_that_is_a_number_moves_in_a_store_without_files(lab: Path) -> None:
    text = (lab / "lab.toml").read_text().replace("impurity <= limit", "impurity <= 0.08")
    (lab / "lab.toml").write_text(text)
    (lab / "old.csv").write_text("temperature,time,product,impurity\n70,1,0.4,0.02\n80,2,0.6,0.05\n90,4,0.7,0.09\n")
    pied_("add", "lab.toml", "old.csv")
    (lab / "lab.toml").unlink()
    web = client(lab, store="lab.db")
    (limit,) = web.get("/api/studies/lab").json()["limits"]
    assert limit["movable"]
    assert post(web, "/api/studies/lab/what-if", limits={"purity": 0.2})["constraints"] == ["purity"]
    post(web, "/api/studies/lab/revise", limits={"purity": 0.2}, note="the client agreed")
    assert web.get("/api/studies/lab").json()["limits"][0]["value"] == 0.2


def test_a_file_written_in_an_unusual_way_is_left_alone(lab: Path) -> None:
    text = (lab / "lab.toml").read_text()
    odd = text.replace("[constants]\nprice = 20.0\nlimit = 0.08\n", "")
    (lab / "lab.toml").write_text("constants.price = 20.0\nconstants.limit = 0.08\n" + odd)
    web = client(lab, "lab.toml")
    before = (lab / "lab.toml").read_text()
    error = post(web, "/api/studies/lab/revise", 422, constants={"price": 1.0}, note="x")["error"]
    assert "yourself" in error
    assert (lab / "lab.toml").read_text() == before


@pytest.mark.parametrize("kind", ["slices", "map", "predictions", "importance"])
def test_each_picture_has_finite_data_within_its_bounds(web: TestClient, kind: str) -> None:
    shown = post(
        web, f"/api/studies/lab/{kind}", **({"at": {"temperature": 70, "time": 2}} if kind == "slices" else {})
    )
    if kind == "slices":
        for each in shown["slices"]:
            for group in (each["functions"], each["outputs"]):
                for low, middle, high in zip(group["low"], group["middle"], group["high"], strict=True):
                    assert all(a <= b + 1e-9 <= c + 2e-9 for a, b, c in zip(low, middle, high, strict=True))
        assert shown["slices"][0]["at"] == pytest.approx(70)
    elif kind == "importance":
        assert all(0 <= each <= 1 for row in shown["outputs"].values() for each in row)
    elif kind == "map":
        flat = [(c, p) for cs, ps in zip(shown["certain"], shown["possible"], strict=True)
                for c, p in zip(cs, ps, strict=True)]  # fmt: skip
        assert all(certain <= possible for certain, possible in flat)
        (limit,) = shown["limits"]
        met = [value <= 0.08 for row in limit["values"] for value in row]
        assert all(is_met or not certain for is_met, (certain, _) in zip(met, flat, strict=True))
    else:
        assert shown["trials"] == [1, 2, 3, 4]


# ----------------------------------------------------------------------------------------------------------- new study

FORM: dict[str, Any] = {
    "name": "brew",
    "goals": [{"sense": "maximize", "formula": "price*strength - cost*time", "name": "profit", "unit": "EUR"}],
    "variables": [{"name": "time", "lo": "1", "hi": "10", "unit": "min"},
                  {"name": "grind", "kind": "integer", "lo": "1", "hi": "5"},
                  {"name": "bean", "kind": "choice", "labels": "arabica, robusta"}],
    "outputs": [{"name": "strength", "lo": "0", "hi": "", "noise": "0.01"}],
    "limits": [{"name": "mild", "formula": "strength <= 2"}],
    "constants": [{"name": "price", "value": "3"}, {"name": "cost", "value": "0.1"}], "seed": "7",
}  # fmt: skip


def test_a_form_becomes_a_file_that_the_shell_reads_and_the_first_proposal(lab: Path) -> None:
    web = client(lab)
    checked = post(web, "/api/check", **FORM)
    assert checked["ok"]
    assert "maximize profit = price*strength - cost*time   in EUR" in checked["understood"]
    assert post(web, "/api/studies", 201, **FORM)["id"] == "brew"
    assert "It can be used" in pied_("check", "brew.toml").stdout
    (trial,) = post(web, "/api/studies/brew/ask")["trials"]
    assert trial["x"]["bean"] in ("arabica", "robusta")
    assert "exists already" in post(web, "/api/studies", 422, **FORM)["error"]


EVERYTHING: dict[str, Any] = {
    "name": "all",
    "goals": [{"sense": "maximize", "formula": "strength", "name": "taste", "unit": "points"},
              {"sense": "minimize", "formula": "bean.price + time", "name": "cost", "unit": "EUR"}],
    "variables": [{"name": "time", "lo": "1", "hi": "10", "step": "0.5", "unit": "min"},
                  {"name": "heat", "lo": "80", "hi": "99", "round": "0"},
                  {"name": "size", "kind": "levels", "levels": "10, 15; 22".replace(";", ",")},
                  {"name": "bean", "kind": "choice", "labels": "arabica; robusta", "properties": "price: 3, 2.5"},
                  {"name": "water", "kind": "mixture", "parts": "soft, hard, salt 0..0.2", "total": "1"},
                  {"name": "dose", "kind": "file", "text": "{ lo = 0.1, hi = 10, log = true }"}],
    "outputs": [{"name": "strength", "lo": "0", "noise": "0.01", "resolution": "0.1"}, {"name": "acid", "lod": "0.02"}],
    "limits": [{"name": "mild", "formula": "strength <= 2"},
               {"name": "even", "formula": "acid = 0.5", "tolerance": "0.05"}],
    "constants": [{"name": "price", "value": "3"}],
}  # fmt: skip
"""Everything that a form has a field for."""


def test_everything_a_form_says_is_in_the_file_and_comes_back_from_it(lab: Path) -> None:
    web = client(lab)
    found = post(web, "/api/check", **EVERYTHING)
    assert found["ok"], found["error"]
    data = tomllib.loads(found["toml"])
    assert data["variables"]["bean"] == {
        "choices": ["arabica", "robusta"], "properties": {"price": {"arabica": 3, "robusta": 2.5}}
    }  # fmt: skip
    assert data["mixtures"]["water"] == {"parts": ["soft", "hard", "salt"], "total": 1, "bounds": {"salt": [0, 0.2]}}
    post(web, "/api/studies", 201, **EVERYTHING)
    form = web.get("/api/studies/all/form").json()["form"]
    assert tomllib.loads(post(web, "/api/check", **form)["toml"]) == data


def test_a_question_is_changed_by_its_form_and_its_comments_stay(web: TestClient, lab: Path) -> None:
    file = lab / "lab.toml"
    text = file.read_text().replace("[variables]", "[variables] # what is set\n# the jacket") + "# the end\n"
    file.write_text("noise = 0.002 # of all others\n" + text.replace("impurity = { noise = 0.001 }", "impurity = {}"))
    form = web.get("/api/studies/lab/form").json()["form"]
    assert [each["noise"] for each in form["outputs"]] == ["0.005", "0.002"]
    form["variables"][0]["hi"] = "120"
    form["limits"].append({"name": "enough", "formula": "product >= 0.3"})
    assert "hi = 120" in post(web, "/api/check", **form, study="lab")["toml"]
    before = set(file.read_text().splitlines())
    assert post(web, "/api/studies/lab/revise", form=form, note="a hotter jacket")["question"] == 2
    gone = before - set(file.read_text().splitlines())
    assert len(gone) == 1
    assert "temperature" in gone.pop()
    about = web.get("/api/studies/lab").json()
    assert about["variables"][0]["hi"] == 120
    assert [each["name"] for each in about["limits"]] == ["purity", "enough"]
    assert about["notes"] == ["a hotter jacket"]
    form["outputs"], form["limits"] = form["outputs"][:1], form["limits"][1:]  # what was measured would be lost
    post(web, "/api/studies/lab/revise", 409, form=form, note="one less")
    assert "impurity" in file.read_text()


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"goals": [{"formula": "price*strenght"}]}, ["maximize"], "Did you mean 'strength'"),
        ({"goals": [{"formula": "__import__('os')"}]}, ["maximize"], ""),
        ({"limits": [{"name": "mild", "formula": "strength"}]}, ["subject_to", "mild"], "comparison"),
        ({"variables": [{"name": "time", "lo": "x", "hi": "2"}]}, ["variables", "time", "lo"], "not a number"),
        ({"name": "../evil"}, ["name"], "letters"),
        ({"name": ""}, ["name"], "letters"),
    ],
)
def test_a_mistake_in_a_form_is_shown_at_its_field(lab: Path, change: Any, path: list[str], said: str) -> None:
    found = post(client(lab), "/api/check", **{**FORM, **change})
    assert not found["ok"]
    assert found["path"] == path
    assert said in found["error"]
    assert not list(lab.glob("**/evil*"))


# ----------------------------------------------------------------------------------------------------------- interface


def test_every_address_of_the_description_answers(web: TestClient) -> None:
    described = web.get("/api/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    for path, methods in described["paths"].items():
        place = path.replace("{study}", "lab").replace("{number}", "1")
        if place.endswith("/events"):
            continue
        for method in methods:
            answer = web.get(place) if method == "get" else web.post(place, json={})
            assert answer.status_code not in (404, 405, 500), f"{method} {path}: {answer.text}"


def test_a_misspelled_field_and_what_is_not_json_are_refused(web: TestClient) -> None:
    assert "no field 'value'" in post(web, "/api/studies/lab/trials/1/tell", 422, value={"product": 1})["error"]
    sent = {"content-type": "application/json"}
    for content in ("{", "[1]", '{"values": {"product": NaN}}'):
        assert web.post("/api/studies/lab/trials/1/tell", content=content, headers=sent).status_code == 400
    plain = web.post("/api/studies/lab/ask", content="{}", headers={"content-type": "text/plain"})
    assert plain.status_code == 415


def test_numbers_that_json_has_not_are_left_out(web: TestClient) -> None:
    text = web.get("/api/studies/lab/result").text
    assert not any(isinstance(each, float) and not math.isfinite(each) for each in _leaves(json.loads(text)))
    assert "NaN" not in text


def _leaves(found: Any) -> Any:
    if isinstance(found, dict | list):
        for each in found.values() if isinstance(found, dict) else found:
            yield from _leaves(each)
    else:
        yield found
