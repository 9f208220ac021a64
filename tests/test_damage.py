"""Stores that were cut, edited or forged: read as far as they go, never written to, and always a sentence."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pied import PiedError, State, StoreError, Study, TellError
from pied.store import Store, tables
from tiny import parabola

DEEP = "[" * 3000 + "]" * 3000
NASTY: list[Any] = [
    None, "", "text", b"\xff\x00blob", -1, 0, 7, 2**62, 2**63 - 1, -(2**63), 1e300, -1.5, float("inf"), "NaN", "[]", "{}", "3",
    '{"a": 1}', DEEP, '{"x": ' + "[" * 200 + "]" * 200 + "}", '{"x": "one"}', '{"x": null}', '{"x": 1e999}', '{"x": {"float": "abc"}}',
    '{"aim": 3, "lower": ["a"], "upper": 3}', '{"aim": "explore", "lower": [1], "margin": "x", "memory": 3}',
    '{"name": "cuqb", "settings": {"level": "x"}}', '{"name": "random", "settings": 3}', '{"name": 3}',
    '{"variables": {"x": {"lo": null}}, "outputs": ["y"]}', '{"variables": [], "outputs": {"y": 1}}', "0x1p+5000", "-0x1.8p+1",
    "told", "partial", "failed", "asked", "\ud7ff\x00", "x" * 100_000,
]  # fmt: skip


def spoil(file: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Change a store behind our back."""
    base = sqlite3.connect(file)
    for text, values in statements:
        base.execute(text, values)
    base.commit()
    base.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Four told trials, a failed one and an open one."""
    made = tmp_path / "lab.db"
    with Study(parabola(), name="a", store=made, seed=0, solver="random", worker="w") as study:
        study.run(4)
        study.fail(study.ask(), "pump")
        study.ask()
    return made


# -------------------------------------------------------------------------------------------------- values that are gone


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


# ------------------------------------------------------------------------------------------------------- hostile cells


def live(file: Path, *, judged: bool) -> None:
    """Everything one does with a study; what it says about the best point takes long."""
    with Study(parabola(), name="a", store=file, worker="w") as study:
        _ = study.trials, study.status, study.values, study.questions
        study.gap()
        if judged:
            study.result()
        trial = study.ask()
        try:
            study.tell(trial, 0.5)
        except TellError:
            pass
        study.add([0.5], 1.0)
        study.fail(study.ask(), "no")


def cells() -> list[tuple[str, str]]:
    return [(table.name, column.name) for table in tables.tables.values() for column in table.columns]


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), cells())
def test_a_hostile_cell_is_harmless_or_refused_with_a_sentence(
    file: Path, tmp_path: Path, table: str, column: str
) -> None:
    whole = file.read_bytes()
    for place, nasty in enumerate(NASTY):
        copy = tmp_path / f"{place}.db"
        copy.write_bytes(whole)
        spoil(
            copy,
            (f'CREATE TABLE copied AS SELECT * FROM "{table}"', ()),  # without constraints
            (f'DROP TABLE "{table}"', ()),
            (f'ALTER TABLE copied RENAME TO "{table}"', ()),
            (f'UPDATE "{table}" SET "{column}" = ?', (nasty,)),
        )
        try:
            live(copy, judged=column in ("why", "exact", "solver"))
        except PiedError as error:
            assert len(str(error)) < 2000, (nasty, error)
        except Exception as error:
            raise AssertionError(f"{table}.{column} = {str(nasty)[:80]!r}: {type(error).__name__}: {error}") from error
        for path in tmp_path.glob(f"{place}.db*"):
            path.unlink()


@pytest.mark.parametrize("column", ["x", "why", "reason", "summary", "worker", "leased", "asked", "offers", "is_added"])
def test_the_trial_is_named(file: Path, column: str) -> None:
    spoil(file, (f"UPDATE trials SET {column} = ? WHERE number = 3", (b"\xff",)))
    with Study(parabola(), name="a", store=file) as study, pytest.raises(StoreError, match="trial 3"):
        _ = study.trials


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
