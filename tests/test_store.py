"""Studies that outlive their process: reopened, shared, questioned anew, and what is refused."""

import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from pied import CUQB, Choice, Problem, SettingError, Status, Study, TellError, solve
from pied.errors import StoreError, StudyMismatch
from pied.records.schema import VERSION
from pied.records.sql import Store
from pied.records.trial import State
from pied.solvers import make, registry
from pied.study import same_rows
from pied.study.opening import solver_from_data, solver_to_data, stated
from tiny import fast, hill, parabola, points, waves

OLD = sorted((Path(__file__).parent / "data" / "stores").glob("version-*.sqlite"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lab.db"


def files(url: str) -> list[str]:
    return sorted(path.name for path in Path(url.removeprefix("sqlite:///")).parent.iterdir())


# ----------------------------------------------------------------------------------------------------------- reopening


@pytest.mark.slow
@pytest.mark.parametrize("make_problem", [hill, waves])
def test_a_reopened_study_goes_on_as_if_it_had_never_been_closed(url: str, make_problem: Callable[[], Problem]) -> None:
    for budget in (3, 3, 1):
        with Study(make_problem(), name="a", store=url, seed=3, solver=fast()) as study:
            study.run(budget)
    with Study(make_problem(), name="a", store=url) as reopened:
        whole = Study(make_problem(), seed=3, solver=fast())
        whole.run(7)
        one, two = reopened.ask(), whole.ask()
        assert points(reopened.trials) == points(whole.trials)
        assert (one.why.upper, one.why.aim) == (two.why.upper, two.why.aim)
        assert json.dumps(one.why.memory) == json.dumps(two.why.memory)
        assert reopened.result().to_dict()["bounds"] == whole.result().to_dict()["bounds"]
        assert reopened.gap() == whole.gap()


def test_everything_said_comes_back(url: str) -> None:
    with Study(waves(), name="a", store=url, seed=0, solver="random", worker="lab") as study:
        study.add({"s": 0.1, "t": 1 / 3}, {"p": 0.1, "q": -0.0, "r": 1e-300})
        study.ask()
        study.tell(2, {"p": 0.5})
        study.fail(study.ask(), "pump tripped")
        written = [str(trial) for trial in study.trials]
    with Study(waves(), name="a", store=url) as again:
        assert [str(trial) for trial in again.trials] == written
        assert [trial.state for trial in again.trials] == [State.TOLD, State.PARTIAL, State.FAILED]
        assert math.copysign(1.0, again.trials[0].y.q) == -1.0
        assert again.trials[2].reason == "pump tripped"
        assert again.trials[1].worker == "lab"
        assert again.used == 2
        assert again.tell(2, {"q": 0.1, "r": 0.2}).state is State.TOLD


def test_two_open_studies_see_each_other_and_share_the_numbers(url: str) -> None:
    one = Study(parabola(), name="a", store=url, seed=0, solver="random")
    two = Study(parabola(), name="a", store=url)
    assert [one.ask().number, two.ask().number, one.ask().number] == [1, 2, 3]
    two.tell(1, 0.5)
    assert one.trials[0].y.y == 0.5
    with pytest.raises(TellError, match=r"'y' was told as 0\.5 and cannot become 0\.75"):
        one.tell(1, 0.75)
    assert [(value.value, value.counts) for value in one.values] == [(0.5, True), (0.75, False)]


def test_a_table_that_two_add_at_once_is_there_once_and_is_one_change(url: str) -> None:
    rows = [({"x": k / 40}, {"y": 1.0 + k / 7}) for k in range(30)]
    ready = Barrier(4)

    def add(_: int) -> int:
        with Study(parabola(), name="a", store=url) as study:
            ready.wait()
            return len(study.add_all(rows))

    with Study(parabola(), name="a", store=url, seed=0) as study, ThreadPoolExecutor(4) as threads:
        before, _ = study._record.changes(0)
        assert sorted(threads.map(add, range(4)))[:3] == [0, 0, 0]
        assert len(study.trials) == 30
        assert study._record.changes(0)[0] - before <= 4
        assert len(study.add_all(rows, again=True)) == 30


def test_rows_that_are_there_are_those_that_agree_in_all_settings_and_values() -> None:
    problem = Problem(
        variables={"a": (0.0, 1.0), "c": Choice("red", "blue"), "b": (10.0, 20.0)}, outputs=["y", "z"], maximize="y"
    )
    draw = np.random.default_rng(0)

    def row(nudge: float = 0.0) -> tuple[dict[str, object], dict[str, float]]:
        a, b, y, z = draw.integers(0, 3, 4).tolist()
        return {"a": a / 2 + nudge, "c": ("red", "blue")[a % 2], "b": 10.0 + 5 * b}, {"y": float(y), "z": float(z)}

    rows = [row(draw.choice([0.0, 1e-10, 0.1])) for _ in range(60)]
    rows += [(x, {"y": y["y"]}) for x, y in rows[:20]]
    with Study(problem, seed=0) as study:
        study.add_all([row() for _ in range(60)])
        trials = study.trials
        found = same_rows(problem, trials, rows)
    left, wanted = list(trials), {}
    for place, (x, y) in enumerate(rows):  # one after the other, with all that are left
        same = [
            each for each in left if each.y is not None and all(each.y[name] == y[name] for name in y)
            if x["c"] == each.x["c"] and abs(x["a"] - each.x["a"]) < 1e-9 and x["b"] == each.x["b"]
        ]  # fmt: skip
        if same:
            wanted[place] = same[0]
            left.remove(same[0])
    assert {place: each.number for place, each in found.items()} == {p: each.number for p, each in wanted.items()}
    assert 10 < len(wanted) < len(rows)


def test_a_named_worker_gets_its_pending_trial_back_and_others_get_new_ones(url: str) -> None:
    first = Study(parabola(), name="a", store=url, seed=0, worker="anna")
    assert [first.ask().number, first.ask().number] == [1, 1]
    assert Study(parabola(), name="a", store=url, worker="anna").ask().number == 1
    unnamed = Study(parabola(), name="a", store=url)
    assert [unnamed.ask().number, unnamed.ask().number] == [2, 3]
    first.tell(1, 0.5)
    assert first.ask().number == 4


@pytest.mark.parametrize("count", [None, 1, 3])
def test_who_asks_often_at_once_gets_the_same_trials(url: str, count: int | None) -> None:
    Study(parabola(), name="a", store=url, seed=0, solver="random").close()
    ready = Barrier(6)

    def ask(_: int) -> list[int]:
        with Study(parabola(), name="a", store=url, worker="anna") as study:
            ready.wait()
            return [each.number for each in ([study.ask()] if count is None else study.open_trials(count))]

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, range(6))) == [list(range(1, (count or 1) + 1))] * 6
    assert len(Study(parabola(), name="a", store=url, read_only=True).trials) == (count or 1)


def test_a_trial_whose_lease_has_run_out_is_offered_again(tmp_path: Path) -> None:
    now = [1e9]
    store = Store.connect(tmp_path / "a.db", clock=lambda: now[0])
    study = Study(parabola(), name="a", store=store, seed=0, lease=60.0)
    other = Study(parabola(), name="a", store=store, lease=60.0)
    first = study.ask()
    assert other.ask().number == 2
    now[0] += 61.0
    again = other.ask()
    assert (again.number, points([again])) == (1, points([first]))
    assert again.worker == other.worker
    assert study.tell(1, 0.5).state is State.TOLD


def test_people_who_measure_have_longer_leases_than_programs(url: str) -> None:
    assert Study(parabola(), name="a", store=url).lease == 3600.0
    assert Study(parabola(blackbox=None), name="a", store=url).lease == 7 * 24 * 3600.0
    assert Study(parabola(), name="a", store=url, lease=math.inf).lease == math.inf


@pytest.mark.slow
def test_a_run_that_died_goes_on_with_its_pending_trial(url: str) -> None:
    with Study(hill(), name="a", store=url, seed=0, solver=fast(), worker="w") as study:
        study.run(6)
        study.ask()
    with Study(hill(), name="a", store=url, worker="w") as study:
        result = study.run(2)
    assert points(result.trials) == points(solve(hill(), 9, seed=0, solver=fast()).trials)


# ------------------------------------------------------------------------------------------------------ what must agree


def test_other_variables_or_outputs_are_refused_with_the_difference(url: str) -> None:
    Study(hill(), name="a", store=url, seed=0).close()
    box = {"a": (0.0, 4.0), "b": (0.0, 4.0)}
    for words, says in [
        ({"variables": {**box, "b": (0.0, 5.0)}}, r"variable 'b': 0 to 4 is stored, 0 to 5 is given"),
        ({"variables": {**box, "c": (0.0, 1.0)}}, r"variable 'c': nothing is stored, 0 to 1 is given"),
        ({"variables": {"b": (0.0, 4.0), "a": (0.0, 4.0)}}, r"the order \['a', 'b'\] is stored"),
        ({"outputs": ["y", "z"], "blackbox": None}, r"outputs: \['y'\] is stored, \['y', 'z'\] is given"),
    ]:
        with pytest.raises(StudyMismatch, match=says):
            Study(hill(**words), name="a", store=url)


def test_seed_solver_and_design_of_a_kept_study_are_used_and_cannot_be_changed(url: str) -> None:
    Study(hill(), name="a", store=url, seed=5, settings={"level": 0.9}, initial=4).close()
    with Study(hill(), name="a", store=url) as study:
        assert (study.seed, study.solver, study.initial) == (5, CUQB(level=0.9), 4)
    Study(hill(), name="a", store=url, seed=5, solver=CUQB(level=0.9), initial=4).close()
    with pytest.raises(SettingError, match="study 'a' has the seed 5, not 6"):
        Study(hill(), name="a", store=url, seed=6)
    with pytest.raises(SettingError, match="is solved by 'cuqb', not by 'random'"):
        Study(hill(), name="a", store=url, solver="random")
    with pytest.raises(SettingError, match=r"with other settings; level is 0\.9, 0\.95 is given"):
        Study(hill(), name="a", store=url, solver="cuqb")
    with pytest.raises(SettingError, match="an initial design of 4 points, not 5"):
        Study(hill(), name="a", store=url, initial=5)


@pytest.mark.parametrize("name", registry)
def test_every_solver_comes_back_from_its_data(name: str) -> None:
    solver = make(name)
    assert solver_from_data(json.loads(json.dumps(solver_to_data(solver)))) == solver


@pytest.mark.parametrize("made", [CUQB.paper(), CUQB(), CUQB(level=0.9)])
def test_settings_newer_than_a_record_are_those_of_the_method_that_it_names(made: CUQB) -> None:
    data = json.loads(json.dumps(solver_to_data(made)))
    for newer in ("moves", "compare"):
        del data["settings"][newer]
    del data["settings"]["believer"]["model"]["waves"]
    assert solver_from_data(data) == made


@pytest.mark.parametrize(
    ("setting", "left"), [("widen", ("widen", "tell")), ("probe", ("probe",)), ("regimes", ("regime", "simple"))]
)
def test_a_former_setting_warns_and_leaves_out_its_moves_also_from_a_record(
    setting: str, left: tuple[str, ...]
) -> None:
    data = solver_to_data(CUQB())
    del data["settings"]["moves"]
    assert solver_from_data({**data, "settings": {**data["settings"], setting: True}}) == CUQB()
    for made in (
        lambda: CUQB(**{setting: False}),
        lambda: solver_from_data({**data, "settings": {**data["settings"], setting: False}}),
    ):
        with pytest.warns(DeprecationWarning, match=f"{setting}=False goes in version 0.4"):
            assert made() == CUQB().without(*left)


def test_settings_newer_than_a_record_are_those_of_its_solver() -> None:
    data = json.loads(json.dumps(solver_to_data(make("eic"))))
    del data["settings"]["believer"]["model"]["plateaus"]
    assert solver_from_data(data) == make("eic")


@pytest.mark.parametrize("settings", ["damaged", ["nonsense"]])
def test_settings_that_are_none_are_refused(url: str, tmp_path: Path, settings: object) -> None:
    Study(parabola(), name="a", store=url, seed=0).close()
    base = sqlite3.connect(tmp_path / "lab.db")
    base.execute("UPDATE studies SET solver = ?", (json.dumps({"name": "cuqb", "settings": settings}),))
    base.commit()
    base.close()
    with pytest.raises(StoreError, match="the solver of study 'a' cannot be read"):
        _ = Study(parabola(), name="a", store=url).solver


def test_a_setting_that_is_no_longer_known_is_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    data = solver_to_data(CUQB())
    data["settings"]["courage"] = 3
    assert solver_from_data(data) == CUQB()
    assert "the setting 'courage' of CUQB is no longer known" in caplog.text


def test_a_study_in_a_store_needs_a_name_and_reading_needs_a_store(url: str) -> None:
    with pytest.raises(SettingError, match="needs a name"):
        Study(parabola(), store=url)
    with pytest.raises(SettingError, match="give store="):
        Study(parabola(), name="a", read_only=True)
    with pytest.raises(SettingError, match="lease is a number of seconds above 0"):
        Study(parabola(), name="a", store=url, lease=0.0)


# ------------------------------------------------------------------------------------------------- change the question


@pytest.mark.slow
def test_a_new_question_on_the_same_data_is_answered_at_once_beside_the_old_optimum(url: str) -> None:
    with Study(hill(), name="a", store=url, seed=0, solver=fast()) as study:
        old = study.run(9)
        revision = study.revise(minimize="y", subject_to={"line": "a + b <= 2.5"})
        assert study.used == 9
        assert revision.old.value == old.value
        assert dict(revision.before.x) == pytest.approx(dict(old.x))
        assert revision.before.slack["line"] == pytest.approx(2.5 - old.x.a - old.x.b)
        assert not revision.before.is_feasible
        assert revision.result.x.a + revision.result.x.b <= 2.5 + 1e-9
        assert revision.result.value == pytest.approx(3.125, abs=0.15)  # by belief
        assert "The previous best settings, under the new question:" in str(revision)
        assert [question.number for question in study.questions] == [1, 2]
        assert study.ask().revision == 2


@pytest.mark.slow
def test_reopening_with_another_question_compares_with_the_one_before(url: str) -> None:
    problem = hill(subject_to={"line": "a + b <= limit", "chain": "0 <= a <= 4"}, constants={"limit": 3.0})
    with Study(problem, name="a", store=url, seed=0, solver=fast()) as study:
        old = study.run(8)
    with Study(problem.revised(constants={"limit": 2.5}), name="a", store=url) as study:
        found = study.compare()
        assert found.old.value == old.value
        assert not found.before.is_feasible
        assert len(study.questions) == 2
    with Study(problem, name="a", store=url) as study:
        assert len(study.questions) == 2
        assert study.result().value == old.value


@pytest.mark.slow
def test_a_verdict_belongs_to_its_question() -> None:
    study = Study(parabola(subject_to={"high": "y >= 9"}), seed=0, solver=fast())
    assert study.run(12).status is Status.INFEASIBLE
    revision = study.revise(subject_to={"high": "y >= 0.5"})
    assert revision.result.status is Status.RUNNING
    assert study.gap() == (None, None)
    assert study.run(3).is_feasible


def test_another_question_cannot_change_what_was_measured() -> None:
    study = Study(parabola(), seed=0)
    study.run(2)
    with pytest.raises(StudyMismatch, match="variable 'w' cannot be added"):
        study.revise(variables={"x": (0.0, 3.0), "w": (0.0, 1.0)})
    assert list(study.problem.variables) == ["x"]


def test_a_kept_question_is_stated_again_from_formulas_and_never_from_code() -> None:
    problem = waves(subject_to=["0.1 <= p <= 0.9", "q + r >= c"], constants={"c": 0.2}, tolerance={"q + r >= c": 0.5})
    again = stated(json.loads(json.dumps(problem.statement())))
    assert again.statement() == {**problem.statement(), "blackbox": None}
    assert stated(waves(maximize=lambda x, y: y.p).statement()) is None


# ------------------------------------------------------------------------------------------------ readers and old files


@pytest.mark.slow
def test_a_reader_sees_everything_and_changes_nothing(url: str) -> None:
    with Study(parabola(), name="a", store=url, seed=0, solver=fast()) as study:
        study.run(4)
        with Study(parabola(), name="a", store=url, read_only=True) as reader:
            assert len(reader.trials) == 4
            study.run(1)
            assert len(reader.trials) == 5
            assert reader.result().value == study.result().value
            for change in (reader.ask, lambda: reader.fail(1, "no"), lambda: reader.add([0.5], 1.0)):
                with pytest.raises(StoreError, match="opened to be read only"):
                    change()
    with Study(parabola(maximize="y"), name="a", store=url, read_only=True) as reader:
        assert reader.result().x is not None
        assert len(reader.questions) == 1


def test_a_reader_makes_neither_file_nor_tables_nor_studies(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        Store.connect(url, read_only=True)
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(StoreError, match="is empty: nothing was stored there yet"):
        Store.connect(tmp_path / "empty.db", read_only=True)
    assert files(url) == ["empty.db"]
    Study(parabola(), name="reactor", store=url).close()
    with pytest.raises(StoreError, match=r"has no study 'reactr'\. Did you mean 'reactor'"):
        Study(parabola(), name="reactr", store=url, read_only=True)


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_an_old_file_is_brought_up_to_date_and_loses_nothing(old: Path, tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    shutil.copy(old, file)
    before = file.read_bytes()
    for read_only in (True, False, False):
        assert file.read_bytes() == before or not read_only
        with Store.connect(file, read_only=read_only) as store:
            record = store.record("reactor")
            assert record.events() == []
            rows = record.changes(0)[1]
            assert [row.state for row in rows] == ["told", "told", "failed", "partial", "asked"]
            assert [row.offers for row in rows] == [1] * 5
            assert rows[0].y["q"].hex() == (-0.0).hex()
            assert rows[1].y == {"p": 1 / 3, "q": 1e308}
            assert [value.counts for value in record.values()] == [True, True, True, True, False, True]
    problem = Problem({"x": (0.0, 3.0)}, ["p", "q"], maximize="p - 0.1*x", subject_to=["q <= 5"], noise=0)
    with Study(problem, name="reactor", store=file, worker="lab") as study:
        assert (study.seed, study.solver.name) == (7, "random")
        assert study.ask().number == 5
        assert study.tell(5, [1.0, 2.0]).state is State.TOLD
        assert study.ask().number == 6
    base = sqlite3.connect(file)
    assert base.execute("SELECT version FROM schema").fetchone() == (VERSION,)
    base.close()


def test_every_schema_that_ever_was_is_kept_as_a_file() -> None:
    assert [int(path.stem.split("-")[1]) for path in OLD] == list(range(1, VERSION))


def test_a_file_of_a_newer_version_is_refused(url: str, tmp_path: Path) -> None:
    Store.connect(url).close()
    base = sqlite3.connect(tmp_path / "lab.db")
    base.execute("UPDATE schema SET version = 99")
    base.commit()
    base.close()
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"written by a newer pied \(schema 99"):
            Store.connect(url, read_only=read_only)


# -------------------------------------------------------------------------------------------------- files of strangers


def test_what_is_no_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    text, base = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("this is a letter, not a database, and long enough to be looked at" * 20)
    other = sqlite3.connect(base)
    other.execute("CREATE TABLE clients (name TEXT)")
    other.commit()
    other.close()
    before = text.read_bytes(), base.read_bytes()
    with pytest.raises(StoreError, match="is not a store of pied, or is damaged"):
        Store.connect(text)
    for read_only in (True, False):
        with pytest.raises(StoreError, match="is a database, but not a store of pied"):
            Store.connect(base, read_only=read_only)
    assert text.read_bytes() == before[0]
    assert sqlite3.connect(base).execute("SELECT name FROM sqlite_master").fetchall() == [("clients",)]
    with pytest.raises(StoreError, match="there is no folder"):
        Store.connect(tmp_path / "nowhere" / "a.db")
    with pytest.raises(StoreError, match="'mysql' is not a supported store"):
        Store.connect("mysql://host/base")
    with pytest.raises(StoreError, match="leave store= out to work in memory"):
        Store.connect("sqlite://")


def test_code_in_a_store_is_text_and_never_runs(url: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    with Study(parabola(maximize=lambda x, y: y.y - 0.1 * x.x), name="a", store=url, solver="random", seed=0) as study:
        study.run(2)
    base = sqlite3.connect(tmp_path / "lab.db")
    (text,) = base.execute("SELECT statement FROM studies").fetchone()
    evil = {**json.loads(text), "objective": {"name": code, "source": code, "hash": code}}
    base.execute("UPDATE studies SET statement = ?, solver = ?", [json.dumps(evil), json.dumps({"name": code})])
    base.execute("UPDATE trials SET why = ?, summary = ?", [json.dumps({"aim": code, "memory": {"x": code}}), code])
    base.commit()
    base.close()
    with pytest.raises(SettingError, match="unknown solver"):
        Study(parabola(), name="a", store=url)
    with Store.connect(url) as store:
        assert store.studies()[0].statement["objective"]["source"] == code
        assert store.record("a").changes(0)[1][0].summary == code
    assert not marker.exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE trials SET x = '{'", "damaged"),
        ("UPDATE trials SET x = '{}'", "trial 1 of the store cannot be read"),
        ("UPDATE trials SET state = 'eaten'", "trial 1 of the store cannot be read"),
        ("UPDATE \"values\" SET exact = 'one'", "'one' is not a number"),
    ],
)
def test_a_damaged_record_is_said_to_be_damaged(url: str, tmp_path: Path, change: str, says: str) -> None:
    with Study(parabola(), name="a", store=url, solver="random", seed=0) as study:
        study.run(1)
    base = sqlite3.connect(tmp_path / "lab.db")
    base.execute(change)
    base.commit()
    base.close()
    with pytest.raises(StoreError, match=says):
        Study(parabola(), name="a", store=url).result()


def test_the_file_has_a_write_ahead_log_and_full_sync(url: str, tmp_path: Path) -> None:
    with Store.connect(url) as store, store._begin(write=False) as tx:
        found = [vars(tx.read(f"PRAGMA {name}")[0])[name] for name in ("journal_mode", "synchronous")]
    assert found == ["wal", 2]


@pytest.mark.parametrize("odd", ["Ren\udce9", "\ud800", "a\0b", "a\n b", "x" * 9999])
def test_names_that_a_database_cannot_keep_are_kept_in_another_form(url: str, odd: str, tmp_path: Path) -> None:
    for store in (url, tmp_path / "\udce9.db"):
        with Study(parabola(), name=odd, store=store, seed=0, worker=odd) as study:
            trial = study.ask()
        with Study(parabola(), name=odd, store=store, worker=odd) as study:
            assert study.ask().number == trial.number  # found again by both names
            study.note(1, odd)
            assert study.history()[-1].worker == study.worker
        assert study.worker.isprintable()
        assert len(study.worker) <= 200


def test_a_blank_worker_is_refused(url: str) -> None:
    with pytest.raises(SettingError, match="the name of the worker is blank"):
        Study(parabola(), name="a", store=url, worker=" \n")


def test_a_path_is_a_store_and_a_password_is_not_shown(tmp_path: Path) -> None:
    with Store.connect(tmp_path / "lab.db") as store:
        assert store.url.endswith("lab.db")
    with pytest.raises(StoreError, match="cannot be used") as raised:
        Store.connect("postgresql://user:secret@127.0.0.1:1/base")
    assert "secret" not in str(raised.value)
