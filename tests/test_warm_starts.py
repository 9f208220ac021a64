"""Warm starts: a black box that takes `near` gets the nearest told point, and a folder for its state."""

import gc
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import Choice, Problem, Study
from pied.evaluation import Command, Near
from shells import LAB, data, pied_

BOX = {"u": (0.0, 1.0), "v": (0.0, 2.0)}


def problem(blackbox: Any, variables: Any = None) -> Problem:
    return Problem(variables or BOX, ["y"], blackbox=blackbox, maximize="y", noise=0)


def number_of_nearest(u: float, v: float, near: Near | None = None, state: Path | None = None) -> float:
    """Leave a file, and return the number of the nearest point; at the top, so that other processes can load it."""
    assert state is not None
    (state / "solution.txt").write_text(f"{u} {v}")
    if near is None:
        return 0.0
    assert near.state is not None
    assert (near.state / "solution.txt").read_text() == f"{near.x['u']} {near.x['v']}"
    return float(near.trial)


def nearest(study: Study, number: int) -> int:
    """The earlier trial nearest in the box, by hand."""
    X = np.array([list(trial.x.values()) for trial in study.trials]) / [1.0, 2.0]
    return 1 + int(np.linalg.norm(X[: number - 1] - X[number - 1], axis=1).argmin())


@pytest.mark.parametrize(
    "blackbox",
    [
        lambda u, v, near=None, state=None: number_of_nearest(u, v, near, state),
        lambda x, near, state: number_of_nearest(x.u, x.v, near, state),
        lambda x, *, state=None, near=None: number_of_nearest(x.u, x.v, near, state),
    ],
)
def test_a_serial_run_offers_the_nearest_told_point_and_nothing_to_the_first(blackbox: Any) -> None:
    with Study(problem(blackbox), solver="random", seed=1) as study:
        study.run(4)
        study.run(2)  # states live as long as the study
        assert study.trials[0].y["y"] == 0.0
        assert [int(trial.y["y"]) for trial in study.trials[1:]] == [nearest(study, n) for n in range(2, 7)]


def test_processes_read_the_states_of_others_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    with Study(problem(number_of_nearest), solver="random", seed=1) as study:
        study.run(3, executor="processes", workers=1, states=tmp_path / "states")
        assert [int(trial.y["y"]) for trial in study.trials[1:]] == [nearest(study, n) for n in (2, 3)]
    assert sorted(folder.name for folder in (tmp_path / "states").iterdir()) == ["trial-1", "trial-2", "trial-3"]


def test_temporary_states_are_gone_with_the_study() -> None:
    seen: list[Path] = []

    def keeping(u: Any, near: Any = None, state: Any = None) -> float:
        seen.append(state)
        return float(u)

    study = Study(problem(keeping, {"u": (0.0, 1.0)}), solver="random", seed=0)
    study.run(2)
    assert all(folder.is_dir() for folder in seen)
    del study
    gc.collect()
    assert not any(folder.exists() for folder in seen)


def test_only_told_points_are_offered_and_a_failed_one_is_not() -> None:
    offered: list[int | None] = []

    def failing(x: Any, near: Near | None) -> float:
        offered.append(None if near is None else near.trial)
        if len(offered) == 1:
            raise RuntimeError("no convergence")
        return x.u

    with Study(problem(failing), solver="random", seed=0) as study:
        study.add({"u": 0.5, "v": 1.0}, {"y": 0.5})
        study.run(3)
    assert 2 not in offered
    assert offered[0] == 1


def test_points_with_states_come_before_nearer_ones_without() -> None:
    offered: list[Near | None] = []

    def keeping(x: Any, near: Near | None = None, state: Path | None = None) -> float:
        offered.append(near)
        assert state is not None
        (state / "kept").touch()
        return x.u

    with Study(problem(keeping), solver="random", seed=0) as study:
        study.run(1)
        first = dict(study.trials[0].x)
        study.add({"u": 0.9 - 0.8 * (first["u"] > 0.5), "v": 1.0}, {"y": 0.5})
        study.run(1)
    assert offered[1] is not None
    assert offered[1].trial == 1


def test_a_variable_called_near_is_a_variable_and_others_are_not_offered_anything() -> None:
    assert problem(lambda near, v: near + v, {"near": (0.0, 1.0), "v": (0.0, 1.0)}).evaluate([0.5, 1.0]).tolist() == [
        1.5
    ]
    plain = problem(lambda x, state="solid": float(state == "solid"))
    with Study(plain, solver="random", seed=0) as study:
        study.run(2)
        assert [trial.y["y"] for trial in study.trials] == [1.0, 1.0]
    assert problem(lambda near: near.u).evaluate([0.25, 1.0]).tolist() == [0.25]  # the point, by another name


def test_the_statement_of_a_black_box_is_its_own_source() -> None:
    assert problem(number_of_nearest).statement()["blackbox"]["name"] == "number_of_nearest"
    assert problem(number_of_nearest).revised(maximize="2*y").blackbox == problem(number_of_nearest).blackbox


def test_labels_count_in_the_distance() -> None:
    offered: list[Near | None] = []

    def labelled(u: float, solvent: str, near: Near | None = None) -> float:
        offered.append(near)
        return u

    variables = {"u": (0.0, 1.0), "solvent": Choice("water", "ethanol")}
    with Study(problem(labelled, variables), solver="random", seed=0) as study:
        for solvent in ("water", "ethanol"):
            for u in (0.0, 0.25, 0.5, 0.75, 1.0):
                study.add({"u": u, "solvent": solvent}, {"y": u})
        study.run(1)
        assert offered[0] is not None
        assert offered[0].x["solvent"] == study.trials[-1].x["solvent"]


def test_a_program_finds_the_nearest_point_in_its_environment(tmp_path: Path) -> None:
    (tmp_path / "simulator.py").write_text(
        "import json, os, pathlib, sys\n"
        "near = json.loads(os.environ.get('PIED_NEAR', 'null'))\n"
        "pathlib.Path(os.environ['PIED_STATE'], 'solution').write_text('4')\n"
        "kept = int(pathlib.Path(near['state'], 'solution').read_text()) if near else 0\n"
        "print(json.dumps({'y': near['trial'] + kept if near else 0}))"
    )
    command = Command((sys.executable, str(tmp_path / "simulator.py")), ("u", "v"))
    with Study(problem(command), solver="random", seed=0) as study:
        study.run(2)
        assert [trial.y["y"] for trial in study.trials] == [0.0, 5.0]


def test_what_was_not_told_is_not_in_the_environment() -> None:
    from pied.evaluation.near import environment

    found = environment(Near(3, {"u": 1.0}, {"y": 2.0, "z": float("nan")}, None), Path("/states/trial-4"))
    assert json.loads(found["PIED_NEAR"]) == {"trial": 3, "x": {"u": 1.0}, "y": {"y": 2.0}, "state": None}
    assert environment(None, None) == {}


def newton(u: float, v: float, start: np.ndarray) -> tuple[np.ndarray, int]:
    """Solve a mildly stiff pair of equations; return the solution and the iterations."""
    z = start.copy()
    for iteration in range(1, 101):
        e = np.exp(np.clip(z[0], -50.0, 50.0))
        residual = np.array([e + z[1] - 3.0 - 4.0 * u, z[0] * z[1] + z[1] ** 3 - 1.0 - v])
        step = np.linalg.solve(np.array([[e, 1.0], [z[1], z[0] + 3.0 * z[1] ** 2]]), residual)
        z = z - step
        if np.abs(step).max() < 1e-10:
            return z, iteration
    raise RuntimeError("no convergence")


@pytest.mark.slow
def test_warm_starts_take_fewer_iterations_and_change_nothing_else() -> None:
    def run(is_warm: bool) -> tuple[list[int], list[float]]:
        counts: list[int] = []

        def simulator(x: Any, near: Near | None = None, state: Path | None = None) -> float:
            warm = is_warm and near is not None and near.state is not None
            z, count = newton(x.u, x.v, np.load(near.state / "z.npy") if warm else np.array([5.0, 5.0]))
            counts.append(count)
            assert state is not None
            np.save(state / "z.npy", z)
            return float(round(z[0] * (2.0 - z[1]), 8))

        with Study(problem(simulator), seed=0) as study:
            study.run(10)
            return counts, [trial.y["y"] for trial in study.trials]

    (cold, values), (warm, same) = run(False), run(True)
    assert values == pytest.approx(same, abs=1e-6)
    assert sum(warm[1:]) < 0.75 * sum(cold[1:])


STARTING = """
import json, os, pathlib, sys
x = json.load(sys.stdin)
near = json.loads(os.environ.get("PIED_NEAR", "null"))
pathlib.Path(os.environ["PIED_STATE"], "number").write_text("1")
depth = 1 + int(pathlib.Path(near["state"], "number").read_text()) if near else 0
print(json.dumps({"product": depth, "impurity": 0.0}))
"""


@pytest.mark.slow
def test_the_shell_keeps_states_in_a_folder_and_a_later_run_starts_from_them(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(LAB.replace("range = [0, 1], ", ""))
    (tmp_path / "simulator.py").write_text(STARTING)
    words = ["run", str(tmp_path / "lab.toml"), "--command", f'"{sys.executable}" "{tmp_path / "simulator.py"}"']
    folder = tmp_path / "states"
    pied_(*words, "--budget", "2", "--states", str(folder))
    found = data(*words, "--budget", "1", "--states", str(folder))  # another run finds what the first one left
    assert sorted(each.name for each in folder.iterdir()) == ["trial-1", "trial-2", "trial-3"]
    assert [trial["y"]["product"] for trial in found["trials"]] == [0.0, 2.0, 2.0]


@pytest.mark.slow
def test_without_a_folder_the_shell_leaves_no_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "temporary"
    kept.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(kept))
    (tmp_path / "lab.toml").write_text(LAB.replace("range = [0, 1], ", ""))
    (tmp_path / "simulator.py").write_text(STARTING)
    words = ["run", str(tmp_path / "lab.toml"), "--command", f'"{sys.executable}" "{tmp_path / "simulator.py"}"']
    pied_(*words, "--budget", "1")
    assert not list(kept.glob("pied-states-*"))
