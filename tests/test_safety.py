"""Files of strangers are safe to open: nothing in them runs, steers the terminal, or reads other files."""

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pied.shell.speech import printable
from shells import LAB, data, pied_

ESCAPES = [
    "\x1b[2J\x1b[31mred",
    "\x1b]0;owned\x07",
    "\x9b2J",
    "\u202egnp.exe",
    "a\rb",
    "\x7f\x08\x08",
    "\u2028",
    "\x00",
]
CODE = [
    "__import__('os').system('touch ran')",
    "open('ran', 'w')",
    "().__class__.__bases__[0].__subclasses__()",
    "exec(\"open('ran','w')\")",
    "`; touch ran`",
    "$(touch ran)",
    "'; DROP TABLE trials; --",
    "{0.__class__}",
    "%n%n%s",
]
COMMANDS = ("check", "ask", "status", "result", "export", "revise")


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever starts a program fails the test."""

    def refuse(name: str) -> Any:
        def refused(*words: Any, **named: Any) -> Any:
            raise AssertionError(f"{name} was called with {words!r}")

        return refused

    for module, name in ((os, "system"), (subprocess, "Popen"), (os, "popen"), (os, "execv")):
        monkeypatch.setattr(module, name, refuse(name))


def quoted(text: str) -> str:
    """Write any text as a TOML string."""
    return '"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"'


def is_clean(text: str) -> bool:
    """Whether nothing in a text steers a terminal."""
    return all(char.isprintable() or char == "\n" for char in text)


def test_control_characters_become_visible_and_all_else_stays() -> None:
    assert printable("ηµ 温度 é ✓\n\x1b[2J\x9b\u202e\r\x7f") == "ηµ 温度 é ✓\n\\x1b[2J\\x9b\\u202e\\x0d\\x7f"


# ------------------------------------------------------------------------------------------------- hostile statements


# where a stranger's text stands: what is replaced in the statement, by what
FORMULAS = {
    "maximize": ('"price*product - 0.4*time"', "HERE"),
    "limit": ('purity = "impurity <= limit"', "purity = HERE"),
    "command": ("[study]", "[run]\ncommand = HERE\n[study]"),
}
NAMES = {
    "limit": ("purity =", "HERE ="),
    "constant": ("price =", "HERE = 3\nprice ="),
    "file": ("[constants]", "[constants]\nother = { file = HERE, column = 'c' }"),
    "column": ("[constants]", "[constants]\nother = { file = 'simulate.py', column = HERE }"),
    "unit": ('unit = "degC"', "unit = HERE"),
    "study": ("seed = 1", "seed = 1\nname = HERE"),
    "solver": ('solver = "random"', "solver = HERE"),
    "setting": ('solver = "random"', "solver = { HERE = 3 }"),
    "variable": ("time =", "HERE = [0, 1]\ntime ="),
    "output": ("impurity = {", "HERE = { }\nimpurity = {"),
    "heading": ("[study]", "[HERE]\nx = 1\n[study]"),
}


def check_harmless(folder: Path, place: tuple[str, str], text: str) -> None:
    """Open a statement with a stranger's text in one place."""
    (folder / "lab.toml").write_text(LAB.replace(place[0], place[1].replace("HERE", quoted(text))))
    for words in (["check"], ["check", "--json"], ["ask"], ["status"]):
        done = pied_(words[0], "lab.toml", *words[1:], code=(0, 2, 3))
        assert is_clean(done.stdout)
        assert is_clean(done.stderr)
        assert done.exit_code == 0 or len(done.stderr.splitlines()) == 1
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("text", [*ESCAPES, *CODE])
@pytest.mark.parametrize("place", FORMULAS)
def test_a_hostile_formula_runs_nothing_and_prints_nothing_that_acts(lab: Path, place: str, text: str) -> None:
    check_harmless(lab, FORMULAS[place], text)


@pytest.mark.parametrize("text", ["".join(ESCAPES), "".join(CODE), "\x00"])
@pytest.mark.parametrize("place", NAMES)
def test_a_hostile_name_runs_nothing_and_prints_nothing_that_acts(lab: Path, place: str, text: str) -> None:
    check_harmless(lab, NAMES[place], text)


@pytest.mark.slow
def test_a_command_in_a_statement_is_started_by_run_alone(lab: Path) -> None:
    (lab / "lab.toml").write_text(f"{LAB}[run]\ncommand = 'touch ran'\n")
    (lab / "old.csv").write_text("temperature,time,product,impurity\n60,1,0.4,0.03\n70,2,0.5,0.04\n")
    pied_("check", "lab.toml")
    pied_("add", "lab.toml", "old.csv")
    pied_("ask", "lab.toml")
    pied_("tell", "lab.toml", "3", "product=0.5")
    pied_("fail", "lab.toml", str(data("ask", "lab.toml", "--worker", "b")["trial"]), "x")
    for command in ("status", "result", "revise", "export"):
        pied_(command, "lab.toml")
    assert not (lab / "ran").exists()


@pytest.mark.parametrize(
    "path", ["../secret.csv", "/etc/passwd", "link.csv", "folder/../../secret.csv", "~/x.csv", "\\\\host\\x"]
)
def test_a_statement_reads_no_table_outside_of_its_folder(lab: Path, path: str) -> None:
    secret = lab.parent / "secret.csv"
    secret.write_text("c\n-31.4159\n")
    (lab / "folder").mkdir()
    (lab / "link.csv").symlink_to(secret)
    text = f"other = {{ file = {quoted(path)}, column = 'c' }}"
    (lab / "lab.toml").write_text(LAB.replace("[constants]", f"[constants]\n{text}"))
    said = pied_("check", "lab.toml", code=2).stderr
    assert "lies outside of the folder of lab.toml: copy it there" in said or "there is no table" in said
    assert "31.4159" not in said


# ------------------------------------------------------------------------------------------------------- hostile stores


@pytest.fixture
def store(lab: Path) -> Path:
    """A store with told, open and failed trials, and two questions."""
    (lab / "lab.toml").write_text(LAB.replace("price = 20.0", "price = 10.0"))
    (lab / "old.csv").write_text("temperature,time,product,impurity\n60,1,0.4,0.03\n70,2,0.5,0.04\n80,5,0.5,0.04\n")
    pied_("add", "lab.toml", "old.csv")
    pied_("ask", "lab.toml")
    pied_("fail", "lab.toml", "4", "leak")
    (lab / "lab.toml").write_text(LAB)
    pied_("ask", "lab.toml")
    return lab / "lab.db"


def write(store: Path, statement: str, *values: Any) -> None:
    """Change a store behind our back."""
    with sqlite3.connect(store) as base:
        base.execute(statement, values)
    base.close()


@pytest.mark.parametrize("text", ["".join(ESCAPES), " ".join(CODE)])
@pytest.mark.parametrize("column", ["reason", "summary", "worker"])
def test_texts_of_a_hostile_store_are_shown_and_do_nothing(store: Path, column: str, text: str) -> None:
    write(store, f"UPDATE trials SET {column} = ?", text)
    for command in ("status", "ask", "export"):
        for words in ([], ["--json"]):
            shown = pied_(command, "lab.toml", *words)
            assert is_clean(shown.stdout)
            assert is_clean(shown.stderr)
    assert not Path("ran").exists()


DAMAGE: list[tuple[str, Any]] = [
    ("UPDATE trials SET state = ?", "pwned"),
    ("UPDATE trials SET x = ?", "{}"),
    ("UPDATE trials SET x = ?", "not json"),
    ("UPDATE trials SET x = ?", '{"temperature": "hot", "time": 1}'),
    ("UPDATE trials SET x = ?", "[" * 100_000),
    ("UPDATE trials SET why = ?", '{"aim": "explore", "lower": 3}'),
    ("UPDATE trials SET why = ?", "[]"),
    ('UPDATE "values" SET exact = ?', "__import__('os')"),
    ("UPDATE studies SET solver = ?", '{"name": "os:system", "settings": {}}'),
    ("UPDATE studies SET solver = ?", '{"name": "random", "settings": {"is": "os.system", "x": 1}}'),
    ("UPDATE studies SET solver = ?", "3"),
    ("UPDATE studies SET seed = ?", "exec"),
    ("UPDATE studies SET statement = ?", "3"),
    ("UPDATE studies SET statement = ?", '{"variables": 3, "outputs": 4}'),
    ("UPDATE studies SET statement = ?", '{"variables": {"temperature": 3}, "outputs": []}'),
    ("UPDATE studies SET statement = ?", "[" * 100_000),
    ("UPDATE revisions SET statement = ?", '{"objective": {"formula": "__import__(1)"}, "subject_to": []}'),
    ("UPDATE revisions SET statement = ?", "{}"),
    ("UPDATE schema SET version = ?", 99),
    ("DROP TABLE trials", None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "value"), DAMAGE)
def test_a_damaged_or_forged_store_is_refused_in_one_line_or_harmless(store: Path, statement: str, value: Any) -> None:
    write(store, statement, *([] if value is None else [value]))
    for command in COMMANDS:
        done = pied_(command, "lab.toml", code=(0, 2, 3))
        assert done.exit_code == 0 or len(done.stderr.splitlines()) == 1, done.stderr
        assert is_clean(done.output)
    assert not Path("ran").exists()


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00 nonsense", b"#!/bin/sh\ntouch ran\n", b"\x80" * 5000])
def test_what_is_no_store_is_left_alone(lab: Path, content: bytes) -> None:
    (lab / "lab.db").write_bytes(content)
    shown = pied_("status", "lab.toml", code=2)
    assert len(shown.stderr.splitlines()) == 1
    assert (lab / "lab.db").read_bytes() == content


def test_someone_elses_database_is_not_written_to(lab: Path) -> None:
    base = sqlite3.connect(lab / "lab.db")
    base.execute("CREATE TABLE precious (a)")
    base.commit()
    base.close()
    assert "is a database, but not a store of pied" in pied_("ask", "lab.toml", code=2).stderr


def test_a_view_in_place_of_a_table_calls_nothing(store: Path) -> None:
    write(store, "ALTER TABLE trials RENAME TO hidden")
    write(store, "CREATE VIEW trials AS SELECT *, writefile('ran', 'x') FROM hidden")
    assert len(pied_("status", "lab.toml", code=2).stderr.splitlines()) == 1
    assert not Path("ran").exists()


@pytest.mark.slow
def test_code_kept_as_text_in_a_store_is_never_run(store: Path) -> None:
    with sqlite3.connect(store) as base:
        kept = json.loads(base.execute("SELECT statement FROM studies").fetchone()[0])
    kept["objective"] = {"name": "profit", "source": "open('ran', 'w').close()", "hash": "0"}
    kept["blackbox"] = {"name": "plant", "source": "open('ran', 'w').close()", "hash": "0"}
    write(store, "UPDATE studies SET statement = ?", json.dumps(kept))
    write(store, "UPDATE revisions SET statement = ?", json.dumps(kept))
    for command in COMMANDS:
        pied_(command, "lab.toml")
    assert not Path("ran").exists()
