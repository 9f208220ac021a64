"""The shell: what it prints, as text and as JSON; its exit codes; that help stays light."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import pied
from pied import suite
from pied.shell import demo
from pied.shell.main import main
from pied.solvers import registry


def pied_(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    picture = tmp_path_factory.mktemp("demo") / "picture.png"
    return pied_("demo", "--budget", "7", "--seed", "0", "--plot", str(picture)), picture


def test_help_answers_without_importing_any_heavy_library() -> None:
    code = (
        "import sys; from pied.shell.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'pandas', 'botorch'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout


@pytest.mark.parametrize("command", ["demo", "suite", "solvers"])
def test_every_command_has_help_and_json(command: str) -> None:
    shown = pied_(command, "--help")
    assert shown.exit_code == 0
    assert "--json" in shown.output


def test_version_is_the_packages() -> None:
    assert pied_("--version").output.strip() == f"pied, version {pied.__version__}"


def test_suite_lists_every_problem_with_its_sizes_optimum_and_source() -> None:
    shown = pied_("suite")
    assert shown.exit_code == 0
    heading, *lines = shown.output.splitlines()
    assert heading.split() == ["name", "d", "m", "n", "optimum", "feasible", "structure", "source"]
    assert [line.split()[0] for line in lines] == list(suite)
    row = next(line for line in lines if line.startswith("g09"))
    assert row.split()[1:5] == ["7", "2", "4", "680.6301"]


def test_suite_as_json_is_the_table() -> None:
    assert json.loads(pied_("suite", "--json").output) == suite.table()


def test_one_problem_is_shown_in_full_with_what_paper_and_code_say() -> None:
    shown = pied_("suite", "g09").output
    assert "the paper printed: 2 x1 x2 in the first constraint" in shown
    assert "the authors' code has: The literature's functions." in shown
    assert "we read: 2 x1^2" in shown
    assert "optimum 680.6300574 at x1 = 2.33" in shown
    assert "7 variables, 2 outputs, 4 constraints" in shown


@pytest.mark.parametrize("name", ["williams-otto", "environmental", "illustrative-constraint", "ex314"])
def test_one_problem_as_json_has_statement_structure_optimum_and_reading(name: str) -> None:
    data = json.loads(pied_("suite", name, "--json").output)
    benchmark = suite.get(name)
    assert data["statement"]["outputs"] == list(benchmark.problem.outputs)
    assert list(data["structure"]) == list(benchmark.problem.functions)
    assert (data["optimum"] is None) == (benchmark.known is None)
    assert data["reading"]["ours"] == benchmark.printed.ours
    assert pied_("suite", name).exit_code == 0


def test_an_unknown_problem_is_one_line_on_stderr_and_exit_code_2() -> None:
    shown = pied_("suite", "boot")
    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert shown.stderr == "pied: The suite has no problem 'boot'. Did you mean 'booth'?\n"


def test_solvers_are_listed_and_shown_with_their_settings() -> None:
    lines = pied_("solvers").output.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(registry)
    shown = pied_("solvers", "cuqb").output
    assert "level = 0.95" in shown
    assert "declustering = 0.03" in shown
    assert json.loads(pied_("solvers", "cuqb", "--json").output)["settings"]["level"] == 0.95
    assert [row["name"] for row in json.loads(pied_("solvers", "--json").output)] == list(registry)


def test_an_unknown_solver_is_one_line_on_stderr_and_exit_code_2() -> None:
    shown = pied_("solvers", "cuqd")
    assert shown.exit_code == 2
    assert shown.stderr == "pied: unknown solver 'cuqd'. Did you mean 'cuqb'?\n"


@pytest.mark.slow
def test_demo_prints_a_line_per_evaluation_and_the_recommended_beside_the_known_optimum(
    played: tuple[Result, Path],
) -> None:
    shown, picture = played
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.output.splitlines() if line[:4].strip().isdigit()]
    assert [int(line[:4]) for line in lines] == list(range(1, 8))
    assert all(" feasible " in line or " infeasible " in line for line in lines)
    gap = lines[-1].split()[-1]  # so far, if it can be told
    assert gap == "-" or float(gap) > 0
    assert "known optimum" in shown.output
    assert "75.8199532" in shown.output
    assert "X_A <= 0.12" in shown.output
    assert f"The picture is in {picture}." in shown.output
    assert "\r" not in shown.output  # no bar where there is no terminal


def test_demo_writes_its_picture(played: tuple[Result, Path]) -> None:
    assert played[1].read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_demo_as_json_holds_the_result_the_known_optimum_and_the_record(tmp_path: Path) -> None:
    shown = pied_("demo", "--budget", "3", "--json", "--plot", str(tmp_path / "picture.svg"))
    data = json.loads(shown.output)
    assert data["known"] == {"value": demo.KNOWN, "x": demo.OPTIMUM}
    assert data["evaluations"] == 3
    assert len(data["trials"]) == 3
    assert data["picture"] == str(tmp_path / "picture.svg")


def test_demo_says_which_extra_draws_when_matplotlib_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ["matplotlib", *(each for each in sys.modules if each.startswith("matplotlib."))]:
        monkeypatch.setitem(sys.modules, name, None)
    shown = pied_("demo", "--budget", "2", "--plot", str(tmp_path / "picture.png"))
    assert shown.exit_code == 0
    assert "No picture: a plot needs matplotlib: pip install " in shown.output
    assert not (tmp_path / "picture.png").exists()


def test_demo_refuses_a_folder_that_is_not_there_before_it_runs() -> None:
    shown = pied_("demo", "--plot", "no/such/folder/picture.png")
    assert shown.exit_code == 2
    assert shown.stderr == "pied: there is no folder 'no/such/folder' to write 'picture.png' to\n"
    assert shown.stdout == ""


def test_demo_says_that_a_picture_cannot_have_this_ending(tmp_path: Path) -> None:
    shown = pied_("demo", "--budget", "1", "--plot", str(tmp_path / "picture.xyz"))
    assert shown.exit_code == 2
    assert len(shown.stderr.splitlines()) == 1
    assert "cannot be written" in shown.stderr


def test_demo_with_no_budget_says_so() -> None:
    shown = pied_("demo", "--budget", "0")
    assert shown.exit_code == 0
    assert "Nothing has been evaluated yet." in shown.output


def test_the_known_optimum_of_the_demo_is_the_suites() -> None:
    known = suite.get("williams-otto").known
    assert known is not None
    assert pytest.approx(known.value, abs=1e-7) == demo.KNOWN
    assert pytest.approx(dict(known.x), abs=1e-6) == demo.OPTIMUM


@pytest.mark.slow
def test_an_interrupted_demo_keeps_what_was_told_and_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = []

    def interrupted(F_B: float, T_r: float) -> dict[str, float]:
        calls.append(F_B)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"X_A": 0.1, "X_G": 0.05, "X_P": 0.1 + 0.01 * F_B, "X_E": 0.2, "X_B": 0.3, "X_C": 0.02}

    monkeypatch.setattr(demo, "williams_otto", interrupted)
    shown = pied_("demo", "--plot", str(tmp_path / "picture.png"))
    assert shown.exit_code == 130
    assert "The run was interrupted" in shown.output
