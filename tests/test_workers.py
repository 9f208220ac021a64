"""Many evaluations at once: threads, processes, Dask, independent processes; deaths, delays and interruptions."""

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from boxes import curve, dies_left_of_one, raises_left_of_one, slow_left_of_one
from pied import Named, Problem, SettingError, State, Status, Study
from pied.evaluation import Crew, Processes, Serial
from pied.evaluation.executors import Threads, dask
from pied.records.sql import Store
from tiny import distance, fast, hill, parabola

TIMEOUT = 3.0
"""Seconds; the start of a process does not count. A busy machine answers within them."""


def study(blackbox: Any = curve, **words: Any) -> Study:
    return Study(parabola(blackbox=blackbox), **({"seed": 0, "solver": "random"} | words))


def expected(trial: Any) -> State:
    return State.FAILED if trial.x.x < 1.0 else State.TOLD


# ------------------------------------------------------------------------------------------------- threads, processes


def test_so_many_trials_are_kept_pending_and_told_in_order_of_completion() -> None:
    release = [threading.Event() for _ in range(4)]
    running, most, order = [], [], []

    def blackbox(x: Named) -> float:
        place = len(running)
        running.append(x)
        most.append(len(running) - len(order))
        release[place].wait(60.0)
        return curve(x)

    def on_tell(_: Study, trial: Any) -> None:
        order.append(trial.number)
        if len(order) < 4:
            release[{1: 0, 2: 1, 3: 3}[len(order)]].set()

    found = study(blackbox)
    threading.Timer(0.2, release[2].set).start()
    result = found.run(4, workers=3, on_tell=on_tell)
    assert order == [3, 1, 2, 4]
    assert max(most) == 3
    assert all(trial.state is State.TOLD for trial in result.trials)


@pytest.mark.slow
def test_a_belief_imagines_what_is_pending() -> None:
    found = Study(hill(), seed=0, solver=fast())
    result = found.run(7, workers=3)
    assert result.evaluations == 7
    assert distance(result.trials, found.problem) > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_what_a_black_box_raises_comes_back_from_its_worker(executor: str) -> None:
    result = study(raises_left_of_one).run(5, executor=executor, workers=2)
    assert {trial.state for trial in result.trials} == {State.TOLD, State.FAILED}
    for trial in result.trials:
        assert trial.state is expected(trial)
        assert trial.reason == ("The black box raised ValueError: no convergence" if trial.x.x < 1.0 else "")


@pytest.mark.slow
def test_the_death_of_a_process_fails_its_trial_alone() -> None:
    result = study(dies_left_of_one).run(6, executor="processes", workers=2)
    assert result.status is Status.FINISHED
    assert [trial.state for trial in result.trials] == [expected(trial) for trial in result.trials]
    reasons = {trial.reason for trial in result.trials if trial.state is State.FAILED}
    assert reasons == {"The evaluation ended without an answer: the worker process died (exit code -9)."}


@pytest.mark.slow
def test_a_pool_that_breaks_is_replaced_and_only_the_guilty_fail() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        result = study(dies_left_of_one).run(6, executor=pool, workers=2)
    assert result.evaluations == 6
    assert [trial.state for trial in result.trials] == [expected(trial) for trial in result.trials]


@pytest.mark.slow
@pytest.mark.parametrize("executor", [None, "processes", "pool"])
def test_an_evaluation_that_takes_too_long_has_failed(executor: str | None) -> None:
    given = ThreadPoolExecutor(2) if executor == "pool" else executor
    box = slow_left_of_one if executor != "pool" else lambda x: time.sleep(2 * TIMEOUT) if x.x < 1.0 else curve(x)
    result = study(box).run(5, executor=given, workers=2 if executor else None, timeout=TIMEOUT)
    failed = [
        trial for trial in result.trials if trial.state is State.FAILED
    ]  # on a busy machine others may be late, too
    assert {trial.reason for trial in failed} == {f"The evaluation took longer than {TIMEOUT:g} s."}
    assert {trial.number for trial in failed} >= {each.number for each in result.trials if each.x.x < 1.0}


def test_a_black_box_that_no_process_can_receive_is_refused_at_once() -> None:
    with pytest.raises(SettingError, match=r"cannot be sent to other processes .*or use executor='threads'"):
        study(lambda x: 1.0).run(2, executor="processes", workers=2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"workers": 0}, "workers counts from 1, got 0"),
        ({"timeout": 0.0}, "timeout is a number of seconds above 0"),
        ({"executor": "thread"}, r"unknown executor 'thread'\. Did you mean 'threads'"),
        ({"executor": "serial", "workers": 2}, "'serial' has one worker"),
    ],
)
def test_senseless_words_are_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        study().run(2, **words)


def test_ctrl_c_leaves_pending_trials_that_the_next_run_evaluates_first() -> None:
    calls = []

    def blackbox(x: Named) -> float:
        calls.append(x)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return curve(x)

    found = study(blackbox)
    first = found.run(6, workers=2)
    assert first.status is Status.INTERRUPTED
    left = [trial.number for trial in first.trials if trial.state is State.ASKED]
    assert left
    seen: list[int] = []
    second = found.run(6 - found.used, workers=2, on_tell=lambda _, trial: seen.append(trial.number))
    assert set(left) <= set(seen)
    assert [trial.state for trial in second.trials] == [State.TOLD] * 6


@pytest.mark.parametrize("make", [Serial, Threads])
def test_an_executor_of_ours_is_one_of_the_standard_library(make: Any) -> None:
    with make() as executor:
        assert executor.submit(pow, 2, 3).result(5.0) == 8
        assert isinstance(executor.submit(int, "x").exception(5.0), ValueError)


@pytest.mark.slow
def test_a_process_of_ours_answers_and_ends() -> None:
    with Processes() as executor:
        future = executor.submit(pow, 2, 3)
        assert future.result(30.0) == 8
        stuck = executor.submit(time.sleep, 60.0)
    assert stuck.exception(30.0) is not None


def test_a_crew_without_work_has_no_outcome() -> None:
    with Crew(curve) as crew:
        assert crew.wait() is None


# --------------------------------------------------------------------------------------------------------------- Dask


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A scheduler and two workers, each a process of its own."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


@pytest.mark.slow
def test_a_dask_cluster_evaluates(client: Client) -> None:
    assert len(client.scheduler_info()["workers"]) == 2

    def blackbox(x: Any) -> dict[str, float]:
        return {"y": 1.0 - (x["x"] - 1.3) ** 2, "where": float(os.getpid())}

    problem = Problem({"x": (0.0, 3.0)}, ["y", "where"], maximize="y", blackbox=blackbox, noise=0)
    result = Study(problem, seed=0, solver="random").run(8, executor=dask(client), workers=2)
    assert [trial.state for trial in result.trials] == [State.TOLD] * 8
    workers = {trial.y.where for trial in result.trials}
    assert len(workers) == 2
    assert os.getpid() not in workers


@pytest.mark.slow
def test_workers_of_a_dask_cluster_start_from_states_in_a_common_folder(client: Client, tmp_path: Path) -> None:
    def blackbox(x: Any, near: Any = None, state: Any = None) -> float:
        (state / "trial").write_text("left")
        return 0.0 if near is None else float((near.state / "trial").read_text() == "left")

    result = study(blackbox).run(4, executor=dask(client), workers=1, states=tmp_path / "states")
    assert [trial.y.y for trial in result.trials] == [0.0, 1.0, 1.0, 1.0]
    assert len(list((tmp_path / "states").iterdir())) == 4


@pytest.mark.slow
def test_two_evaluations_at_the_same_point_stay_two_on_dask(client: Client) -> None:
    executor = dask(client)
    assert len({executor.submit(os.urandom, 8).result(30.0) for _ in range(3)}) == 3


# --------------------------------------------------------------------------------------------- independent processes

WORKER = """
from pied import Problem, Study
problem = Problem({{"x": (0, 3)}}, ["y"], maximize="y - 0.1*x", noise=0, blackbox=lambda x: 1.0 - (x.x - 1.3) ** 2)
Study(problem, name="a", store={url!r}).run(6)
"""


@pytest.mark.slow
def test_independent_processes_share_a_study_without_any_engine(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    Study(parabola(), name="a", store=url, seed=0, solver="random").close()
    code = WORKER.format(url=url)
    workers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [worker.wait(500) for worker in workers] == [0, 0]
    with Study(parabola(), name="a", store=url) as found:
        assert [trial.number for trial in found.trials] == list(range(1, 13))
        assert {trial.state for trial in found.trials} == {State.TOLD}
        assert len({trial.worker for trial in found.trials}) == 2
        assert len(found.values) == 12


def test_a_lease_is_renewed_while_its_evaluation_is_under_way(tmp_path: Path) -> None:
    store = Store.connect(tmp_path / "a.db")
    other = study(name="a", store=store, lease=1.0)
    offered = []

    def blackbox(x: Named) -> float:
        time.sleep(1.8)
        offered.append(other.ask().number)
        return curve(x)

    found = study(blackbox, name="a", store=store, seed=None, solver=None, lease=1.0)
    found.run(1)
    assert offered == [2]
    assert math.isfinite(found.trials[0].y.y)


def test_a_trial_that_someone_else_has_told_meanwhile_does_not_stop_a_run(tmp_path: Path) -> None:
    store = Store.connect(tmp_path / "a.db")
    other = study(name="a", store=store)

    def blackbox(x: Named) -> float:
        if len(other.trials) == 1:
            other.tell(1, 123.0)
        return curve(x)

    result = study(blackbox, name="a", store=store, seed=None, solver=None).run(2)
    assert [trial.state for trial in result.trials] == [State.TOLD, State.TOLD]
    assert result.trials[0].y.y == 123.0
    assert [value.counts for value in other.values] == [True, False, True]
