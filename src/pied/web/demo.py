"""The reactor of `pied demo` as a study of the dashboard that fills up while one looks."""

import tempfile
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pied.shell.opening import opened
from pied.shell.speech import say
from pied.suite.applied import williams_otto
from pied.web.command import check_installed, prepared

REACTOR = """\
# The Williams-Otto reactor: prices and limits are known, the mass fractions come from a simulator.
maximize = "(price_P*X_P + price_E*X_E)*(F_A + F_B) - cost_A*F_A - cost_B*F_B"
name = "profit"
unit = "USD/s"
noise = 0

[variables]
F_B = {{ lo = 4, hi = 7, unit = "kg/s" }}
T_r = {{ lo = 70, hi = 100, unit = "degC" }}

[outputs]
X_A = {{ range = [0, 1], unit = "kg/kg" }}
X_G = {{ range = [0, 1], unit = "kg/kg" }}
X_P = {{ range = [0, 1], unit = "kg/kg" }}
X_E = {{ range = [0, 1], unit = "kg/kg" }}

[subject_to]
"residual A" = "X_A <= 0.12"
"waste G" = "X_G <= 0.08"

[constants]
price_P = 1043.38
price_E = 20.92
cost_A = 79.23
cost_B = 118.34
F_A = 1.8275

[study]
seed = {seed}
"""
"""The problem of `pied demo` as a problem file."""


def prepare(folder: Path, seed: int = 0) -> Path:
    """Write the problem file into a folder."""
    file = folder / "reactor.toml"
    file.write_text(REACTOR.format(seed=seed), encoding="utf-8")
    return file


def evaluate(file: Path, budget: int, *, pause: float = 0.0, on_tell: Callable[[str], None] | None = None) -> None:
    """Ask, simulate and tell, as a laboratory would, one trial after the other.

    Args:
        file: The problem file.
        budget: Number of trials.
        pause: Seconds before each is told.
        on_tell: Called with a line about each trial.
    """
    for _ in range(budget):
        with opened(str(file), None, worker="simulator") as desk:
            trial = desk.study.ask()
            fractions = williams_otto(**trial.x)
            time.sleep(pause)
            told = desk.study.tell(trial, {name: fractions[name] for name in desk.stated.problem.outputs})
            if on_tell is not None:
                on_tell(str(told))


def show(budget: int, *, seed: int = 0, pause: float = 1.0) -> None:
    """Serve the study in a folder of its own while it fills up, then go on until Ctrl-C.

    Args:
        budget: Number of trials.
        seed: Of the study.
        pause: Seconds before each is told, so that one can follow.
    """
    check_installed()
    from pied.web.server import listening, serving

    with tempfile.TemporaryDirectory(prefix="pied-demo-") as folder, suppress(KeyboardInterrupt):
        file = prepare(Path(folder), seed)
        place = listening("127.0.0.1", 0)
        app, address = prepared((str(file),), None, "127.0.0.1", place.getsockname()[1], False)
        with serving(app, place):
            shown = f"{address}#/s/reactor/overview"
            say(f"The dashboard is at\n  {shown}\nThe study fills up now. Ctrl-C ends it; the folder is then removed.")
            webbrowser.open(shown)
            evaluate(file, budget, pause=pause, on_tell=say)
            say("The study is complete; look around. Ctrl-C ends it.")
            while True:
                time.sleep(3600)
