"""Simulators that were exported as a Functional Mock-up Unit (FMI 1, 2 and 3), through FMPy (extra `fmi`).

Each point is simulated by a process of its own, like any other program: a model that crashes or hangs takes nothing
along, several run at once, and what it logged last is in the failed trial. The variables are set before the simulation
starts, and the outputs are the values at its end.
"""

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pied.errors import EvaluationError, MissingExtra, SettingError, did_you_mean
from pied.evaluation.command import Command

SETTABLE = ("input", "parameter", "structuralParameter")
"""Causalities of what may be set before a simulation."""
FAILED = 1
"""Exit code of a simulation that did not reach its end."""


def simulation(
    file: str | Path,
    variables: Sequence[str],
    outputs: Sequence[str],
    *,
    timeout: float | None = None,
    retries: int = 0,
) -> Command:
    """Return a black box that simulates an FMU, after checking that it has what the problem names.

    Args:
        file: The FMU.
        variables: Names of the problem's variables. `tank_level` is found as `tank.level`, too.
        outputs: Names of the problem's outputs.
        timeout: Seconds after which a simulation has failed.
        retries: How often a failed simulation is tried again.

    Example: `docs/guide-simulator.md`.

    Raises:
        MissingExtra: If FMPy is not installed.
        SettingError: If the file is no FMU for this machine, or lacks a variable.
    """
    found = _described(Path(file))
    inward = _mapped(variables, found, Path(file).name, "variable")
    for name, inner in inward.items():
        if found[inner] not in SETTABLE:
            raise SettingError(
                f"'{inner}' of {Path(file).name} cannot be set: the model computes it ({found[inner]}). "
                f"It can be an output of the problem{_which(found, SETTABLE, 'What can be set')}"
            )
        if name in outputs:
            raise SettingError(f"'{name}' is a variable and an output; an FMU sets the one and computes the other")
    outward = _mapped(outputs, found, Path(file).name, "output")
    names = json.dumps({"variables": inward, "outputs": outward})
    words = (sys.executable, "-m", "pied.evaluation.fmu", str(Path(file).resolve()), names)
    return Command(words, (), timeout=timeout, retries=retries, title=Path(file).name)


def _fmpy() -> Any:
    try:
        import fmpy
    except ImportError as error:
        raise MissingExtra("an FMU", "fmpy", "fmi") from error
    return fmpy


def _described(file: Path) -> dict[str, str]:
    """Return the variables of an FMU with their causalities, in its order."""
    if not file.is_file():
        raise SettingError(f"the FMU '{file}' does not exist")
    fmpy = _fmpy()
    try:
        described = fmpy.read_model_description(str(file), validate=False)
        platforms = fmpy.supported_platforms(str(file))
    except Exception as error:  # whatever a broken archive or description raises
        raise SettingError(f"'{file}' cannot be read as an FMU: {_first_line(error)}") from error
    if fmpy.platform_tuple not in platforms and fmpy.platform not in platforms:
        has = ", ".join(each for each in platforms if each != "c-code") or "no platform"
        raise SettingError(
            f"'{file.name}' has binaries for {has}, and this machine is {fmpy.platform}: export it for this platform"
        )
    return {each.name: str(each.causality or "local") for each in described.modelVariables}


def _mapped(names: Iterable[str], found: Mapping[str, str], file: str, what: str) -> dict[str, str]:
    """Return the FMU's name of each: the same, or the one that differs in characters which no name here may have."""
    plain: dict[str, list[str]] = {}
    for each in found:
        plain.setdefault(re.sub(r"\W+", "_", each).strip("_"), []).append(each)
    mapped = {}
    for name in names:
        fitting = [name] if name in found else plain.get(name, [])
        if not fitting:
            raise SettingError(f"{file} has no variable '{name}', which is an {what} of the problem."
                               .replace("an variable", "a variable") + did_you_mean(name, list(plain)))  # fmt: skip
        if len(fitting) > 1:
            raise SettingError(f"'{name}' could be {' or '.join(fitting)} of {file}: rename one of them in the model")
        mapped[name] = fitting[0]
    return mapped


def _which(found: Mapping[str, str], causalities: Sequence[str], words: str) -> str:
    names = [name for name, each in found.items() if each in causalities]
    return f". {words}: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}" if names else ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# --- In the process of one simulation ---------------------------------------------------------------------------------


def simulated(file: str, names: Mapping[str, Mapping[str, str]], x: Mapping[str, Any]) -> dict[str, float]:
    """Simulate one point to the end of the FMU's default experiment, and return the outputs there.

    Raises:
        EvaluationError: If the simulation does not reach its end.
    """
    inward, outward = names["variables"], names["outputs"]
    start = {inward[name]: value for name, value in x.items()}
    asked = list(dict.fromkeys(outward.values()))
    try:
        table = _fmpy().simulate_fmu(file, validate=False, start_values=start, output=asked)
    except Exception as error:  # FMPy raises plain exceptions, and passes on those of the model
        raise EvaluationError(f"the simulation failed: {_first_line(error)}") from error
    return {name: float(table[inner][-1]) for name, inner in outward.items()}


def main() -> None:
    """Read a point from standard input, simulate it, and print the outputs: what `simulation` starts."""
    file, names = sys.argv[1], json.loads(sys.argv[2])
    x = json.load(sys.stdin)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the model logs
            y = simulated(file, names, x)
    except EvaluationError as error:
        print(error, file=sys.stderr)
        sys.exit(FAILED)
    print(json.dumps(y))


if __name__ == "__main__":
    main()
