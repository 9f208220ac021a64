"""Pictures by the shell, and the report: one page that holds everything and runs nothing."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import pied
from pied import Problem, SettingError, Study, plots
from shells import LAB, data, pied_

VOID = {"meta", "img", "br"}


def reactor(**words: object) -> Problem:
    given: dict[str, object] = {
        "variables": {"T": pied.Variable(60.0, 100.0, unit="degC")},
        "outputs": {"impurity": {"unit": "mol/L"}, "rate": {}},
        "maximize": "20*rate",
        "subject_to": {"purity": "impurity <= 0.06"},
        "name": "profit",
        "unit": "EUR/h",
    }
    return Problem(**(given | words))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def study() -> Study:
    made = Study(reactor(), seed=0)
    for T in (60.0, 68.0, 75.0, 83.0, 91.0, 100.0):
        made.add({"T": T}, {"impurity": 0.01 + 0.00002 * (T - 60) ** 2, "rate": 0.2 + 0.01 * (T - 60)})
    made.fail(made.ask(), "<b>pump</b> tripped")
    return made


class Balance(HTMLParser):
    """Checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(study: Study, tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("matplotlib")
    return study.report(tmp_path_factory.mktemp("report") / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_report_is_one_page_that_needs_nothing_else(page: str) -> None:
    reader = Balance()
    reader.feed(page)
    assert reader.open == []
    assert len(reader.sources) >= 4
    assert all(each.startswith("data:image/svg+xml;base64,") for each in reader.sources)
    assert "<script" not in page
    assert "@media print" in page


def test_the_report_says_question_answer_limits_trials_history_and_versions(page: str) -> None:
    text = re.sub(r"<[^>]+>", " ", re.sub(r"base64,[^']*", "", page))
    for heading in (
        "question",
        "answer",
        "Pictures",
        "Predicted against measured",
        "All trials",
        "History",
        "versions",
    ):
        assert re.search(rf"<h2>[^<]*{heading}", page)
    assert "with the highest profit =  20*rate  (EUR/h)" in text
    assert "60 to 100" in text
    assert re.search(r"impurity\s+0\.\d+ mol/L\s+&lt;= 0.06 mol/L", text)
    assert "1 proposed (1 failed), 6 older" in text
    assert "&lt;b&gt;pump&lt;/b&gt; tripped" in text
    assert "(learned)" in text
    assert re.search(r"NumPy, SciPy\s+\d", text)


def test_the_report_lists_corrections_withdrawals_and_notes(tmp_path: Path) -> None:
    made = Study(reactor(), seed=0)
    made.add({"T": 70.0}, {"impurity": 0.2, "rate": 0.3})
    made.correct(1, {"impurity": 0.02}, why="a <typo>")
    made.note(1, "new catalyst batch")
    made.withdraw(1, why="contaminated")
    text = made.report(tmp_path / "report.html").read_text(encoding="utf-8")
    for part in ("a &lt;typo&gt;", "impurity = 0.02 instead of 0.2", "new catalyst batch", "contaminated"):
        assert part in text, part


def test_a_report_of_an_empty_study_says_that_nothing_was_evaluated(tmp_path: Path) -> None:
    text = Study(reactor(), seed=0).report(tmp_path / "empty.html").read_text()
    assert "Nothing has been evaluated yet." in text
    with pytest.raises(SettingError, match="the report cannot be written to"):
        Study(reactor(), seed=0).report(tmp_path / "no" / "where.html")


def test_without_matplotlib_the_report_says_so(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    text = study.report(tmp_path / "plain.html").read_text()
    assert "matplotlib: pip install " in text
    assert "All trials" in text


def test_predictions_leave_the_measurement_out(study: Study) -> None:
    shown = plots.predictions(study)
    assert shown.numbers.tolist() == [1, 2, 3, 4, 5, 6]
    assert np.isfinite(shown.middle).all()
    assert (shown.lower <= shown.middle).all()
    assert (shown.middle <= shown.upper).all()
    assert shown.error(1) < 0.05  # a straight line is predicted from the others
    held, count = shown.inside(1)
    assert 4 <= held <= count == 6


def test_cuts_show_the_limited_quantity_through_the_recommended_point(study: Study) -> None:
    cut = plots.cuts(study, size=5)[0]
    assert cut.name == "T"
    assert cut.along.tolist() == pytest.approx([60, 70, 80, 90, 100])
    assert cut.median[0, 1] == pytest.approx(0.01, abs=0.01)  # impurity, not the value of the constraint
    assert (cut.lower <= cut.upper).all()
    with pytest.raises(SettingError, match="tell at least two complete evaluations"):
        plots.cuts(Study(reactor(), seed=0))


@pytest.mark.slow
def test_the_report_shows_withdrawn_trials_notes_names_and_steps(tmp_path: Path) -> None:
    made = Study(reactor(variables={"T": pied.Variable(60.0, 100.0, unit="degC", step=5.0)}, noise=0.01), seed=0)
    for T in (60.0, 75.0, 90.0):
        made.add({"T": T}, {"impurity": 0.02, "rate": 0.2 + 0.0123456 * (T - 60)})
    made.withdraw(2, why="contaminated")
    made.note(3, "new catalyst batch")
    made.tell(made.ask(), {"impurity": 0.03, "rate": 0.5}, at={"T": 61.123456789})
    made.revise(renamed={"rate": "speed"})
    text = re.sub(r"<[^>]+>", " ", made.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    for part in (
        "older; withdrawn: contaminated",
        "all limits met; new catalyst batch",
        "'rate' is called 'speed' from now on".replace("'", "&#x27;"),
        "60 to 100, 9 values: 60, 65, ... 100",
        " 61.12 ",
        " 11.41 ",
    ):
        assert part in text
    assert "measured in part" not in text


@pytest.mark.parametrize("kind", [None, "history", "gap", "slices", "outputs", "residuals"])
def test_every_picture_is_drawn_by_its_name(study: Study, tmp_path: Path, kind: str | None) -> None:
    pytest.importorskip("matplotlib")
    plots.draw(study, kind, file=tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_a_mistake_in_a_picture_is_said(study: Study, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"there is no picture 'slice'\. Did you mean 'slices'"):
        plots.draw(study, "slice", file=tmp_path / "a.png")
    with pytest.raises(SettingError, match="the picture cannot be written"):
        plots.draw(study, "history", file=tmp_path / "a.xyz")


def test_the_shell_draws_and_reports(lab: Path) -> None:
    pytest.importorskip("matplotlib")
    assert "nothing is recorded yet" in pied_("report", "lab.toml", code=3).stderr
    (lab / "lab.toml").write_text(LAB)
    (lab / "old.csv").write_text("temperature,time,product,impurity\n60,1,0.4,0.03\n70,2,0.5,0.04\n80,3,0.6,0.06\n")
    pied_("add", "lab.toml", "old.csv")
    assert "lab-history.png is written." in pied_("plot", "lab.toml", "--kind", "history").output
    assert (lab / "lab-history.png").read_bytes()[:4] == b"\x89PNG"
    assert data("plot", "lab.toml", "--kind", "outputs", "--output", "o.svg") == {"picture": "o.svg"}
    assert "there is no folder" in pied_("plot", "lab.toml", "--output", "no/a.png", code=2).stderr


@pytest.mark.slow
def test_the_shell_writes_a_report_and_replaces_only_a_report(lab: Path) -> None:
    (lab / "old.csv").write_text("temperature,time,product,impurity\n60,1,0.4,0.03\n70,2,0.5,0.04\n80,3,0.6,0.06\n")
    pied_("add", "lab.toml", "old.csv")
    (lab / "lab.html").write_text("<!DOCTYPE html>\n<html><head><title>Report: an older one</title></head></html>")
    assert data("report", "lab.toml") == {"report": "lab.html"}
    assert "Predicted against measured" in (lab / "lab.html").read_text()
    (lab / "lab.html").write_text("precious")
    assert "exists already and is not a report" in pied_("report", "lab.toml", code=2).stderr
