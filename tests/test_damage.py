"""Stores that were cut, edited or forged: read as far as they go, never written to, and always a sentence."""

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pied import PiedError, State, StoreError, Study
from pied.records import sqlite
from pied.records.schema import tables
from pied.records.sql import Store
from tiny import few, parabola

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import attacks
from attacks import spoil


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Four told trials, a failed one and an open one."""
    made = tmp_path / "lab.db"
    with Study(parabola(), name="a", store=made, seed=0, solver="random", worker="w") as study:
        study.run(4)
        study.fail(study.ask(), "pump")
        study.ask()
    return made


# ------------------------------------------------------------------------------------------------- values that are gone


@pytest.mark.parametrize(
    "cut",
    [
        'DELETE FROM "values" WHERE number IN (2, 3)',
        'UPDATE "values" SET counts = 0 WHERE number IN (2, 3)',
        "UPDATE \"values\" SET output = 'z' WHERE number IN (2, 3)",
        "DELETE FROM trials WHERE number IN (2, 3)",
    ],
)
def test_told_trials_without_values_make_a_store_that_is_only_read(file: Path, cut: str) -> None:
    spoil(file, (cut, ()))
    with Study(parabola(), name="a", store=file, worker="w") as study:
        told = [trial for trial in study.trials if trial.state is State.TOLD]
        assert [trial.number for trial in told] == [1, 4]
        assert all(trial.y is not None for trial in told)
        assert study.result().x is not None
        changes: list[Callable[[], Any]] = [
            study.ask, lambda: study.tell(6, 1.0), lambda: study.fail(6, "no"), lambda: study.add([0.5], 1.0),
            lambda: study.run(1), lambda: study.revise(maximize="y"),
        ]  # fmt: skip
        before = file.read_bytes()
        for change in changes:
            with pytest.raises(StoreError, match=r"is damaged: trials 2, 3 were told, but the values are gone"):
                change()
        assert file.read_bytes() == before


def test_damage_that_appears_while_a_study_is_open_stops_its_writing(file: Path) -> None:
    with Study(parabola(), name="a", store=file, worker="w") as study:
        assert study.trials
        change = ("UPDATE trials SET change = 1000 WHERE number = 2", ())
        spoil(file, ('DELETE FROM "values" WHERE number = 2', ()), change, ("UPDATE studies SET change = 1000", ()))
        assert study.trials[1].state is State.ASKED
        with pytest.raises(StoreError, match="trial 2 was told, but the values are gone"):
            study.tell(6, 1.0)


def test_a_file_that_was_truncated_is_refused_or_read_and_never_written(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        cut = tmp_path / f"{share}.db"
        cut.write_bytes(whole[: int(len(whole) * share)])
        try:
            with Study(parabola(), name="a", store=cut, worker="w") as study:
                assert all(trial.y is not None for trial in study.trials if trial.state is State.TOLD)
                study.result()
        except PiedError:
            pass


def test_a_schema_that_is_no_text_any_more_is_told_as_damage(file: Path, tmp_path: Path) -> None:
    """SQLite quotes it, and Python cannot decode the quotation."""
    file.write_bytes(file.read_bytes().replace(b'CREATE TABLE "trials"', b'CREATE TABL\xff "trials"'))
    with pytest.raises(StoreError, match=r"malformed.*pied backup"):
        Study(parabola(), name="a", store=file)
    with pytest.raises(StoreError, match="malformed"):
        sqlite.backup(file, tmp_path / "copy.db", replace=False)


# ------------------------------------------------------------------------------------------------------- hostile cells


@pytest.mark.slow
@pytest.mark.parametrize("table", few(sorted(tables, key="trials values".find, reverse=True), 2))
def test_a_hostile_cell_is_harmless_or_refused_with_a_sentence(tmp_path: Path, table: str) -> None:
    found = attacks.hostile(tmp_path, attacks.NASTY_FEW, [table])
    assert found["raw errors"] == 0, found["which"]
    assert found["refused"] > 0


@pytest.mark.parametrize("column", ["x", "why", "reason", "summary", "worker", "leased", "asked", "offers", "is_added"])
def test_the_trial_is_named(file: Path, column: str) -> None:
    spoil(file, (f"UPDATE trials SET {column} = ? WHERE number = 3", (b"\xff",)))
    with Study(parabola(), name="a", store=file) as study, pytest.raises(StoreError, match="trial 3"):
        _ = study.trials


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET data = '{}'", "UPDATE events SET kind = 'unheard of'",
        "UPDATE events SET data = '{\"after\": 1}'", "UPDATE events SET data = '{\"before\": {\"y\": [1]}}'",
        "ALTER TABLE events RENAME COLUMN data TO gone", "DROP TABLE events", "DROP TABLE \"values\"",
        "ALTER TABLE trials RENAME COLUMN corrected TO gone", "UPDATE trials SET state = 'odd'",
    ],
)  # fmt: skip
def test_whatever_was_changed_the_answer_is_a_sentence_with_a_remedy(file: Path, change: str) -> None:
    with Study(parabola(), name="a", store=file, worker="w") as study:
        study.correct(2, {"y": 0.5}, why="typo")
        study.fail(6, "no")
    spoil(file, (change, ()))
    said = ""
    try:
        with Study(parabola(), name="a", store=file) as study:
            assert study.trials
            assert all(each.what for each in study.history())
    except StoreError as error:
        said = str(error)
    assert not said or "pied backup" in said or "name another" in said


@pytest.mark.parametrize("value", ['{"x": 1e999}', '{"x": {"float": "nan"}}'])
def test_a_point_that_is_not_finite_is_refused(file: Path, value: str) -> None:
    spoil(file, ("UPDATE trials SET x = ? WHERE number = 3", (value,)))
    with Study(parabola(), name="a", store=file) as study, pytest.raises(StoreError, match="trial 3"):
        _ = study.trials


# --------------------------------------------------------------------------------------------------- triggers and views


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ('CREATE TRIGGER evil AFTER INSERT ON "values" BEGIN DELETE FROM trials; END', "the trigger 'evil'"),
        ("CREATE VIEW harmless AS SELECT * FROM trials", "the view 'harmless'"),
        ("CREATE VIRTUAL TABLE words USING fts5(text)", "the virtual table 'words'"),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_that_would_act_by_itself_is_refused(file: Path, made: str, says: str, read_only: bool) -> None:
    try:
        spoil(file, (made, ()))
    except sqlite3.OperationalError as error:
        pytest.skip(str(error))
    before = file.read_bytes()
    with pytest.raises(StoreError, match=f"{says}.*, which pied did not make"):
        Store.connect(file, read_only=read_only)
    assert file.read_bytes() == before


def test_tables_of_others_beside_ours_are_fine(file: Path) -> None:
    spoil(file, ("CREATE TABLE bench_runs (name TEXT)", ()))
    Store.connect(file).close()
