"""The command `pied run`: a program, a Python function or an FMU evaluates the points."""

import contextlib
import dataclasses
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pied.shell.options import of_a_study
from pied.shell.speech import TERMINATED, Mistake, Progress, note, say, say_json

if TYPE_CHECKING:
    from pied.evaluation import Command
    from pied.shell.statement_file import Stated


@click.command()
@of_a_study
@click.option("--budget", type=click.IntRange(min=0), help="How many points to evaluate now.")
@click.option("--total", type=click.IntRange(min=0), help="Or: how many trials there should be in all.")
@click.option("--command", metavar="WORDS", help="The program to start for each point; {NAME} stands for a variable.")
@click.option("--python", metavar="MODULE.PY:NAME", help="A Python function of x to call for each point.")
@click.option("--fmu", metavar="MODEL.FMU", help="A simulator exported as an FMU (FMI 1, 2 or 3).")
@click.option("--timeout", type=float, metavar="SECONDS", help="After which an evaluation has failed.")
@click.option("--retries", type=click.IntRange(min=0), help="How often a failed evaluation is tried again.")
@click.option("--workers", type=click.IntRange(min=1), help="How many points are evaluated at once.")
@click.option("--executor", type=click.Choice(["threads", "processes"]), help="Where Python functions are called.")
@click.option("--states", type=click.Path(file_okay=False), help="A folder that keeps what evaluations can start from.")
@click.option("--worker", metavar="NAME", help="A name under which a run that died takes up its own open trials.")
def run(
    file: str,
    store: str | None,
    as_json: bool,
    budget: int | None,
    total: int | None,
    command: str | None,
    python: str | None,
    fmu: str | None,
    timeout: float | None,
    retries: int | None,
    workers: int | None,
    executor: str | None,
    states: str | None,
    worker: str | None,
) -> None:
    """Evaluate points with a program, a Python function, or an FMU.

    A program gets the point as JSON on its standard input and in place of {NAME} in its words, and prints the outputs,
    as JSON or as numbers. What fails becomes a failed trial that keeps the program's words. Ctrl-C keeps what was told,
    and so does SIGTERM, which ends the programs that are running.

    An FMU is simulated from its start values, with the variables of the problem set, to the end of its default
    experiment; outputs are the values there. Names are those of the model, with _ for what a name here cannot have.

    A program that can start from a solution finds the nearest told point in its environment, as JSON in PIED_NEAR
    ("x", "y", "trial", "state"), and in PIED_STATE a folder for its own files. The folders are temporary unless
    --states says where they stay.
    """
    from pied.evaluation import Crew, Terminated
    from pied.shell.answers import exit_code
    from pied.shell.opening import opened
    from pied.shell.pages import result_lines, trial_line
    from pied.shell.statement_file import read

    if (budget is None) == (total is None):
        raise Mistake("say how many points to evaluate: --budget 20 more, or --total 60 in all")
    stated, program = _with_blackbox(read(file), command, python, fmu, timeout, retries)
    crew: dict[str, Any] = {
        "executor": executor,
        "workers": workers or stated.workers,
        "timeout": None if program is not None else timeout,
        "retries": 0 if program is not None else retries or 0,
    }
    if stated.problem.blackbox is not None:
        Crew(stated.problem.blackbox, **crew)  # refuse wrong settings before a study is created
    try:
        with _ending(), opened(file, store, worker=worker, stated=stated) as desk:
            study = desk.study
            count = budget if budget is not None else max(0, (total or 0) - study.used)
            progress = Progress(count, quiet=as_json)
            if program is not None:
                progress.say(f"each point is evaluated by: {program}")
            found = study.run(
                count,
                states=states,
                progress=False,  # the lines below are more than that
                on_tell=lambda study, trial: progress.step(trial_line(study.problem, trial)),
                **crew,
            )
            progress.end()
            if as_json:
                say_json(found.to_dict())
            else:
                say("\n" + "\n".join(result_lines(found, desk.remedy)))
    except Terminated:
        note("pied: ended by SIGTERM; everything told so far is kept")
        sys.exit(TERMINATED)
    finally:
        if program is not None:
            program.stop()
    sys.exit(exit_code(found))


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """On SIGTERM, end programs and workers and close the store."""
    from pied.evaluation import Terminated

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ignore repeated signals during the shutdown
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _with_blackbox(
    stated: "Stated",
    command: str | None,
    python: str | None,
    fmu: str | None,
    timeout: float | None,
    retries: int | None,
) -> "tuple[Stated, Command | None]":
    """Set the black box: from the command line, else from the file. Return the program as well, if there is one."""
    from pied.evaluation import Command, simulation
    from pied.shell.statement_file import load

    problem, program = stated.problem, stated.command
    if sum(each is not None for each in (command, python, fmu)) > 1:
        raise Mistake("one thing evaluates a point: give one of --command, --python and --fmu")
    if python is not None:
        module, colon, name = python.rpartition(":")
        if not colon or not module.endswith(".py"):
            raise Mistake(f"'{python}' should name a file and a function in it: --python plant.py:reactor")
        problem, program = problem.revised(blackbox=load(Path(module), name)), None
    elif fmu is not None:
        names = tuple(problem.variables), tuple(problem.outputs)
        program = simulation(fmu, *names, timeout=timeout, retries=retries or 0)
    elif command is not None:
        program = Command.read(command, tuple(problem.variables), timeout=timeout, retries=retries or 0)
    elif program is not None:
        given: dict[str, Any] = {"timeout": timeout, "retries": retries}
        program = dataclasses.replace(program, **{name: each for name, each in given.items() if each is not None})
    elif stated.fmu is not None:
        program = stated.fmu.command(problem, timeout=timeout, retries=retries)
    elif problem.blackbox is None:
        raise Mistake(
            f"{stated.file} names nothing that evaluates points: give --command, --python or --fmu, "
            "or measure with 'pied ask'"
        )
    if program is not None:
        problem = problem.revised(blackbox=program)
    return dataclasses.replace(stated, problem=problem), program
