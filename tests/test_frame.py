"""Change the frame of a study and keep its data: bounds, steps, units, limits, outputs."""

from pathlib import Path

import numpy as np
import pytest

from pied import Problem, Study, Variable
from pied.errors import StoreError, StudyMismatch
from pied.records import State
from shells import LAB, data, pied_


def plant(**words):
    """A problem with an exact black box of two outputs, of which the first is used at first."""
    words = {"variables": {"a": (0, 4), "b": (0, 1)}, "outputs": ["y"], "maximize": "y", "noise": 0} | words
    return Problem(blackbox=lambda x: {"y": -((x["a"] - 3) ** 2) - x["b"] ** 2}, **words)


@pytest.fixture(params=["memory", "stored"])
def study(request: pytest.FixtureRequest, tmp_path: Path):
    place = {} if request.param == "memory" else {"store": tmp_path / "lab.db", "name": "lab"}
    with Study(plant(), seed=3, **place) as made:
        made.run(5)
        yield made


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text(LAB)
    (tmp_path / "old.csv").write_text(
        "temperature,time,product,impurity\n65,1,0.5,0.02\n75,2,0.6,0.03\n95,3,0.7,0.05\n70,5,0.65,0.04\n"
    )
    pied_("add", "lab.toml", "old.csv")
    return tmp_path


def test_narrower_bounds_keep_data_outside_and_recommend_inside(study):
    before = [dict(trial.x) for trial in study.trials]
    found = study.revise(variables={"a": (0, 2), "b": (0, 1)})
    assert [dict(trial.x) for trial in study.trials] == before
    assert 0 <= found.result.x["a"] <= 2
    assert np.isclose(study.data.U[:, 0], [x["a"] / 2 for x in before]).all()
    study.run(3)
    assert all(trial.x["a"] <= 2 for trial in study.trials[5:])
    assert study.result().x["a"] <= 2
    assert study.result().value == pytest.approx(-1, abs=0.1)


@pytest.mark.slow
def test_wider_bounds_and_a_step_are_searched(study):
    study.revise(variables={"a": Variable(-2, 6, step=0.5), "b": (0, 2)})
    study.run(3)
    assert all(trial.x["a"] % 0.5 == 0 for trial in study.trials[5:])
    assert study.result().value == pytest.approx(0, abs=0.3)


def test_new_output_makes_old_trials_partial_and_is_asked_for(study):
    new = {"outputs": ["y", "z"], "subject_to": {"cold": "z <= 5"}, "blackbox": lambda x: {"y": -x["a"], "z": x["b"]}}
    study.revise(**new)
    assert {trial.state for trial in study.trials} == {State.PARTIAL}
    told = study.tell(1, {"z": 1.0})
    assert told.state is State.TOLD
    study.run(2)
    assert study.trials[-1].y["z"] == study.trials[-1].x["b"]


def test_a_reopened_study_has_the_new_frame(tmp_path: Path):
    words = {"store": tmp_path / "lab.db", "name": "lab"}
    with Study(plant(), seed=3, **words) as study:
        study.run(6)
        study.revise(variables={"a": (0, 2), "b": (0, 1)}, outputs=["y", "z"])
    with pytest.raises(StudyMismatch, match="pied revise"), Study(plant(), **words):
        pass
    with Study(plant(variables={"a": (0, 2), "b": (0, 1)}, outputs=["y", "z"]), **words) as again:
        assert len(again.trials) == 6
        assert {trial.state for trial in again.trials} == {State.PARTIAL}
        assert again.ask().x["a"] <= 2


@pytest.mark.slow
def test_units_and_limits_may_change(study):
    found = study.revise(
        variables={"a": Variable(0, 4, unit="m"), "b": Variable(0, 1, unit="s")}, subject_to={"small": "a <= 1"}
    )
    assert found.result.x["a"] <= 1 + 1e-6
    study.revise(variables={"a": Variable(0, 4, unit="metre"), "b": Variable(0, 1, unit="s")}, subject_to=None)
    assert study.result().x["a"] > 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"variables": {"a": (0, 4)}}, "variable 'b' cannot be removed"),
        ({"variables": {"a": (0, 4), "b": (0, 1), "c": (0, 1)}}, "variable 'c' cannot be added"),
        ({"outputs": ["z"], "maximize": "z"}, "output 'y' cannot be removed"),
        ({"candidates": [{"a": 0, "b": 0}, {"a": 1, "b": 1}]}, "candidates cannot be changed"),
    ],
)
def test_impossible_changes_are_refused_and_nothing_changes(study, words, reason):
    with pytest.raises(StudyMismatch, match=reason):
        study.revise(**words)
    assert len(study.questions) == 1
    assert study.ask().number == 6


def test_log_scale_needs_positive_data():
    study = Study(plant(), seed=1)
    study.add({"a": 0, "b": 0.5}, {"y": 1})
    with pytest.raises(StudyMismatch, match="0 or below"):
        study.revise(variables={"a": Variable(0.1, 4, log=True), "b": (0, 1)})


def test_shell_revises_the_frame_and_says_what_changes(lab: Path):
    text = LAB.replace("hi = 100", "hi = 90, step = 5").replace(
        "[subject_to]", "colour = {}\n[subject_to]\nslow = 'time >= 1'"
    )
    (lab / "lab.toml").write_text(text)
    assert "pied revise" in pied_("ask", "lab.toml", code=2).output
    shown = pied_("revise", "lab.toml", code=(0, 3)).stderr
    for part in (
        "temperature: 60 to 100 degC becomes 60 to 90 degC, step 5",
        "new output colour",
        "limit 'slow' is new",
    ):
        assert part in shown
    assert data("ask", "lab.toml")["x"]["temperature"] in range(60, 91, 5)
    assert {each["state"] for each in data("export", "lab.toml")["trials"]} == {"partial", "asked"}
    (lab / "lab.toml").write_text(LAB.replace("time = [0.5, 6]", "speed = [0.5, 6]").replace("0.4*time", "0.4*speed"))
    shown = pied_("revise", "lab.toml", code=2).stderr
    assert "variable 'time' cannot be removed" in shown


# ------------------------------------------------------------------------------------------------------------- names

RENAMED = LAB.replace("temperature", "T").replace("product", "product_total")
"""The problem file of the laboratory with other names of a variable and an output."""


def test_renamed_variable_and_output_keep_their_data_and_formulas_follow(study):
    study.note(1, "first")
    study.correct(2, {"y": -3.0}, why="typo")
    before = [(*trial.x.values(), *trial.y.values()) for trial in study.trials]
    found = study.revise(
        renamed={"a": "long name", "y": "z"}, blackbox=lambda x: {"z": -((x["long name"] - 3) ** 2) - x["b"] ** 2}
    )
    assert [(*trial.x.values(), *trial.y.values()) for trial in study.trials] == before
    assert list(study.problem.variables) == ["long name", "b"]
    assert study.problem.outputs == ("z",)
    assert list(found.result.x) == ["long name", "b"]
    assert found.before.value == pytest.approx(found.old.value)
    study.run(2)
    assert study.trials[-1].state is State.TOLD
    what = [each.what for each in study.history(2)]
    assert any(each.startswith("told: y = ") for each in what)
    assert "corrected: y = -3 instead of" in " ".join(what)
    assert "'y' is called 'z' from now on" in " ".join(what)
    assert sum(each.startswith("told") for each in what) == 1
    assert any(each.what.startswith("told: z = ") for each in study.history(6))


def test_names_can_be_exchanged_and_changed_back():
    study = Study(plant(), seed=1)
    study.add({"a": 3, "b": 0.5}, {"y": 1})
    study.revise(renamed={"a": "b", "b": "a"}, blackbox=None)
    assert dict(study.trials[0].x) == {"b": 3, "a": 0.5}
    study.revise(renamed={"a": "b", "b": "a"})
    assert dict(study.trials[0].x) == {"a": 3, "b": 0.5}
    assert study.compare().before is not None


def test_vectors_of_outputs_are_renamed_as_a_whole():
    study = Study(Problem({"a": (0, 4)}, ["c[1]", "c[2]"], maximize="sum(c) - c[2]", noise=0), seed=1)
    study.add({"a": 1}, {"c[1]": 1, "c[2]": 2})
    study.revise(renamed={"c": "level"})
    assert dict(study.trials[0].y) == {"level[1]": 1, "level[2]": 2}
    assert study.problem.objective == "sum(level) - level[2]"


@pytest.mark.parametrize(
    ("names", "words", "reason"),
    [
        ({"aa": "t"}, {}, "'aa' cannot be renamed, because there is none. Did you mean 'a'"),
        ({"a": "t"}, {"variables": {"s": (0, 4), "b": (0, 1)}}, "no variable of this name"),
        ({"a": "b"}, {"variables": {"b": (0, 4)}}, "called so already"),
        ({}, {"variables": {"s": (0, 4), "b": (0, 1)}}, r"renamed=\{'a': 's'\}"),
        ({}, {"outputs": ["z"], "maximize": "z"}, r"renamed=\{'y': 'z'\}"),
    ],
)
def test_renaming_that_cannot_be_is_refused_with_the_remedy(study, names, words, reason):
    with pytest.raises(StudyMismatch, match=reason):
        study.revise(renamed=names, **words)
    assert len(study.questions) == 1
    assert len(study.history()) == len([each for each in study.history() if each.kind != "renamed"])


def test_a_worker_who_opened_the_study_before_loses_no_result(tmp_path: Path):
    place = {"store": tmp_path / "lab.db", "name": "lab"}
    with Study(plant(), seed=3, **place) as early, Study(plant(), **place) as other:
        early.ask()
        other.revise(renamed={"y": "z"}, blackbox=None)
        with pytest.raises(StoreError, match="renamed since this study was opened"):
            early.tell(1, {"y": 1.5})
        assert other.trials[0].y["z"] == 1.5


def test_a_new_output_of_another_process_makes_trials_partial(tmp_path: Path):
    place = {"store": tmp_path / "lab.db", "name": "lab"}
    with Study(plant(), seed=3, **place) as early, Study(plant(), **place) as other:
        early.ask()
        other.revise(outputs=["y", "z"])
        early.tell(1, {"y": 1.5})
        assert other.trials[0].state is State.PARTIAL


def test_shell_renames_and_reads_tables_with_the_former_names(lab: Path):
    pied_("export", "lab.toml", "--output", "export.csv")
    pied_("ask", "lab.toml", "--csv", "plan.csv")
    plan = (lab / "plan.csv").read_text().splitlines()
    (lab / "plan.csv").write_text("\n".join([plan[0], plan[1].removesuffix(",,") + ",0.7,0.05"]))
    (lab / "lab.toml").write_text(RENAMED)
    refused = pied_("revise", "lab.toml", code=2).stderr
    assert "--rename temperature=T" in refused
    assert "--rename product=product_total" in refused
    words = ("--rename", "temperature=T", "--rename", "product=product_total")
    shown = pied_("revise", "lab.toml", *words, code=(0, 3)).stderr
    assert "temperature is called T now" in shown
    pied_("revise", "lab.toml", *words, code=(0, 3))
    told = pied_("tell", "lab.toml", "--from", "plan.csv")
    assert "the column 'temperature' is read as 'T'" in told.stderr
    assert "complete" in told.stdout
    again = pied_("add", "lab.toml", "export.csv")
    assert "0 rows added; 4 were already there" in again.stdout
    assert "the column 'product' is read as 'product_total'" in again.stderr
    shown = pied_("history", "lab.toml").stdout
    assert "told: product = 0.5" in shown
    assert "'temperature' is called 'T' from now on" in shown
    assert "told: product_total = 0.7" in shown
    assert data("export", "lab.toml")["trials"][0]["x"] == {"T": 65, "time": 1}
    assert "should be OLD=NEW" in pied_("revise", "lab.toml", "--rename", "T", code=2).stderr


def test_shell_says_that_a_limit_has_another_name(lab: Path):
    (lab / "lab.toml").write_text(LAB.replace("\npurity", "\nclean"))
    assert "limit 'purity' is called 'clean' now" in pied_("revise", "lab.toml", code=(0, 3)).stderr
    (lab / "lab.toml").write_text(LAB.replace("\npurity", "\npure"))
    shown = pied_("revise", "lab.toml", "--rename", "clean=pure", code=(0, 3)).stderr
    assert "clean is called pure now" in shown
