"""Simulators exported as an FMU evaluate points: names are matched, mistakes are explained, failures are failed trials.

The FMU is compiled from tests/data/fmu by the machine's compiler. Where there is none, or no FMPy, all is skipped.
"""

import math
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pied import Problem, State, Study
from pied.errors import EvaluationError, SettingError
from pied.evaluation import simulation
from shells import pied_

fmpy = pytest.importorskip("fmpy")
SOURCE = Path(__file__).parent / "data" / "fmu"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="the test compiles for Linux"),
]
STATED = """
maximize = "conversion - 0.01*jacket_heat"
[variables]
temperature = { lo = 40, hi = 100 }
stirrer_speed = { lo = 0.5, hi = 3 }
[outputs]
conversion = {}
jacket_heat = {}
"""


@pytest.fixture(scope="module")
def kettle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled FMU."""
    folder = tmp_path_factory.mktemp("fmu")
    library = folder / "kettle.so"
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", library, SOURCE / "kettle.c", "-lm"], check=True)
    with zipfile.ZipFile(folder / "kettle.fmu", "w") as archive:
        archive.write(SOURCE / "modelDescription.xml", "modelDescription.xml")
        archive.write(library, f"binaries/{fmpy.platform}/kettle.so")
    return folder / "kettle.fmu"


def test_a_point_is_simulated_to_the_end_of_the_experiment(kettle: Path) -> None:
    blackbox = simulation(kettle, ["temperature", "stirrer_speed"], ["conversion", "jacket_heat"])
    found = blackbox({"temperature": 75.0, "stirrer_speed": 2.0})
    assert found["conversion"] == pytest.approx(1 - math.exp(-0.04 * math.e * 30), rel=1e-9)  # stirrer.speed was set
    assert found["jacket_heat"] == pytest.approx(22.0)


def test_a_failed_simulation_gives_the_last_words_of_the_log(kettle: Path) -> None:
    blackbox = simulation(kettle, ["temperature"], ["conversion"])
    with pytest.raises(EvaluationError, match=r"(?s)'kettle.fmu' ended with exit code 1.*the kettle boils over"):
        blackbox({"temperature": 99.0})


@pytest.mark.parametrize(
    ("variables", "outputs", "message"),
    [
        (["temprature"], ["conversion"], "no variable 'temprature'.*Did you mean 'temperature'"),
        (["temperature"], ["convertion"], "'convertion', which is an output.*Did you mean 'conversion'"),
        (["conversion"], ["jacket_heat"], "'conversion' of kettle.fmu cannot be set.*temperature, stirrer.speed"),
    ],
)
def test_a_name_that_does_not_fit_is_explained(
    kettle: Path, variables: list[str], outputs: list[str], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        simulation(kettle, variables, outputs)


def test_what_is_no_fmu_or_one_of_another_machine_is_refused(kettle: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="does not exist"):
        simulation(tmp_path / "none.fmu", [], [])
    (tmp_path / "text.fmu").write_text("no archive")
    with pytest.raises(SettingError, match="cannot be read as an FMU"):
        simulation(tmp_path / "text.fmu", [], [])
    with zipfile.ZipFile(tmp_path / "foreign.fmu", "w") as archive:
        archive.write(SOURCE / "modelDescription.xml", "modelDescription.xml")
        archive.writestr("binaries/win64/kettle.dll", b"")
    with pytest.raises(SettingError, match="has binaries for win64, and this machine is"):
        simulation(tmp_path / "foreign.fmu", [], [])


@pytest.mark.slow
def test_several_points_are_simulated_at_once_and_failures_are_failed_trials(kettle: Path) -> None:
    names = ["temperature", "stirrer_speed"], ["conversion", "jacket_heat"]
    problem = Problem(
        variables={"temperature": (40.0, 120.0), "stirrer_speed": (0.5, 3.0)},
        outputs=names[1],
        maximize="conversion",
        blackbox=simulation(kettle, *names),
    )
    with Study(problem, seed=0) as study:
        study.run(6, workers=2)
        told = [each for each in study.trials if each.state is State.TOLD]
        failed = [each for each in study.trials if each.state is State.FAILED]
    assert len(told) + len(failed) == 6
    assert told
    assert all(each.x["temperature"] <= 95 for each in told)
    assert all("boils over" in str(each.reason) for each in failed)


@pytest.mark.slow
def test_the_shell_runs_an_fmu(kettle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kettle.toml").write_text(STATED)
    said = pied_("run", "kettle.toml", "--budget", "3", "--fmu", str(kettle))
    assert "each point is evaluated by: kettle.fmu" in said.output
    assert "3 proposed" in said.output
    assert (
        "one thing evaluates a point"
        in pied_("run", "kettle.toml", "--budget", "1", "--fmu", str(kettle), "--command", "sim", code=2).output
    )


@pytest.mark.slow
def test_a_problem_file_names_its_fmu(kettle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(kettle, tmp_path / "kettle.fmu")
    (tmp_path / "kettle.toml").write_text(f"{STATED}[run]\nfmu = 'kettle.fmu'\n")
    monkeypatch.chdir(tmp_path / "elsewhere")  # the path counts from the file, not from here
    assert "simulator, started by 'pied run' only: kettle.fmu" in pied_("check", "../kettle.toml").output
    said = pied_("run", "../kettle.toml", "--budget", "2")
    assert "each point is evaluated by: kettle.fmu" in said.output
    assert "2 proposed" in said.output


def test_an_fmu_that_is_not_there_or_does_not_fit_is_told_before_a_study_begins(
    kettle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "kettle.toml"
    file.write_text(f"{STATED}[run]\nfmu = 'kettel.fmu'\n")
    for words in (("check", "kettle.toml"), ("run", "kettle.toml", "--budget", "1")):
        said = pied_(*words, code=2).output
        assert "kettle.toml, line 10, run.fmu: there is no file" in said
    file.write_text(STATED.replace("conversion", "convertion") + f"[run]\nfmu = '{kettle}'\n")
    said = pied_("run", "kettle.toml", "--budget", "1", code=2).output
    assert "kettle.toml, line 10, run.fmu: kettle.fmu has no variable 'convertion'" in said
    assert not file.with_suffix(".db").exists()
