"""What a command costs: processor time of the shell and of the import, and the installed size.

    python benchmarks/startup.py            # writes results/startup.md; best in an environment made by `make demo`

Every command runs in a process of its own, in turn with `import numpy, scipy.linalg`, which is what no program of this
field can do without: the machine's mood hits all of them alike. The median of the processor times counts. What the
libraries of the shell take by themselves (NumPy, click for the commands) is a row of its own: no command on a study can
take less. `result`, `sensitivities` and `report` are about the Williams-Otto reactor after 20 points and two prices.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import report

from pied import suite
from pied.rng import Stream

STATEMENT = """
maximize = "price*y - z"
noise = 0
[variables]
a = [0, 1]
b = [0, 2]
c = [1, 5]
[outputs]
y = {}
z = {}
[subject_to]
limit = "y + z <= 2.5"
[constants]
price = 3
"""
BASE = "import numpy, scipy.linalg"
LIBRARIES = "import numpy, sqlite3, click"
TOLD = 10
"""Points told before 'pied ask' is timed."""
SHELL = "from pied.shell.main import main; main()"
WANTED = {
    "import pied; pied.Problem": 0.8,
    "tell, refused": 1.0,
    "ask": 2.0,
    "result": 2.0,
    "sensitivities": 4.0,
    "report": 6.0,
}
OTHERS = 1.2
"""What any other command may take; all as multiples of `BASE`."""
REACTOR = """
maximize = "(price*X_P + 20.92*X_E)*(1.8275 + F_B) - 79.23*1.8275 - cost*F_B"
noise = 0
outputs = ["X_A", "X_G", "X_P", "X_E"]
[variables]
F_B = [4, 7]
T_r = [70, 100]
[subject_to]
A = "X_A <= 0.12"
G = "X_G <= 0.08"
[constants]
price = 1043.38
cost = 118.34
[study]
seed = 0
"""
MEASURED = 20
"""Points told before questions about the reactor are timed."""


def spent(code: str, *words: str, folder: Path) -> float:
    """Run a process and return its processor time in seconds.

    Python may keep compiled files, as it does for everyone who has not forbidden it.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, env=environment, capture_output=True)
    if done.returncode and "w=1" not in words:  # that is refused
        raise SystemExit(f"{words or code}: {done.stderr.decode()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def reactor() -> str:
    """Return measurements of the reactor as a table."""
    bench = suite["williams-otto"]
    X = bench.whole.from_unit(Stream(3).sobol(MEASURED, 2))
    rows = np.column_stack([X, bench.outputs(X)]).tolist()
    lines = [",".join(str(each) for each in row) for row in rows]
    return "\n".join([",".join([*bench.problem.variables, *bench.problem.outputs]), *lines]) + "\n"


def measured(folder: Path, turns: int) -> dict[str, list[float]]:
    """Return the processor times of each command, turn by turn."""
    (folder / "lab.toml").write_text(STATEMENT, encoding="utf-8")
    rows = "\n".join(
        f"{0.1 * i:.1f},{(0.37 * i) % 2:.2f},{1 + (1.7 * i) % 4:.2f},{0.2 * i:.2f},0.5" for i in range(TOLD)
    )
    (folder / "old.csv").write_text(f"a,b,c,y,z\n{rows}\n", encoding="utf-8")
    spent(SHELL, "add", "lab.toml", "old.csv", folder=folder)
    (folder / "reactor.toml").write_text(REACTOR, encoding="utf-8")
    (folder / "reactor.csv").write_text(reactor(), encoding="utf-8")
    spent(SHELL, "add", "reactor.toml", "reactor.csv", folder=folder)
    found: dict[str, list[float]] = {}
    for turn in range(turns):
        number = str(TOLD + 1 + 3 * turn)
        more = f"a,b,c,y,z\n0.95,1.9,{4.9 - 0.1 * turn:.1f},1.1,0.7\n"
        (folder / "more.csv").write_text(more, encoding="utf-8")
        words = {
            BASE: (BASE,),
            LIBRARIES: (LIBRARIES,),
            "import pied; pied.Problem": ("import pied; pied.Problem",),
            "check": (SHELL, "check", "lab.toml"),
            "status": (SHELL, "status", "lab.toml"),
            "export": (SHELL, "export", "lab.toml"),
            "ask": (SHELL, "ask", "lab.toml"),
            "tell": (SHELL, "tell", "lab.toml", number, f"y={0.4 + 0.01 * turn}", "z=0.5"),
            "tell, refused": (SHELL, "tell", "lab.toml", number, "w=1"),
            "result": (SHELL, "result", "reactor.toml"),
            "sensitivities": (SHELL, "sensitivities", "reactor.toml"),
            "report": (SHELL, "report", "reactor.toml"),
        }
        for name, each in words.items():
            found.setdefault(name, []).append(spent(each[0], *each[1:], folder=folder))
        found.setdefault("add", []).append(spent(SHELL, "add", "lab.toml", "more.csv", folder=folder))
        spent(SHELL, "ask", "lab.toml", folder=folder)
        found.setdefault("fail", []).append(
            spent(SHELL, "fail", "lab.toml", str(int(number) + 2), "no time", folder=folder)
        )
    return found


def megabytes(folder: Path) -> float:
    """Return the size of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) / 1e6


def page(found: dict[str, list[float]]) -> str:
    """Return the table."""
    base = median(found[BASE])
    rows = [
        [
            f"`{name}`",
            f"{median(times):.2f}",
            f"{median(times) / base:.2f}",
            "-" if name in (BASE, LIBRARIES) else f"{WANTED.get(name, OTHERS):g}",
        ]
        for name, times in found.items()
    ]
    table = report.table(["command", "processor time, s", f"as a multiple of `{BASE}`", "wanted"], rows)
    packages = [file.name.partition("-")[0] for file in Path(sys.prefix).rglob("*.dist-info")]
    size = f"This environment ({len(packages)} packages) takes {megabytes(Path(sys.prefix)):.0f} MB."
    made = report.made()
    origin = f"- commit {made['commit']}, {made['machine']}, {made['date']}\n- `{made['command']}`"
    return f"# Start-up\n\n{origin}\n- median of {len(found[BASE])} turns\n\n{table}\n\n{size}\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = page(measured(Path(folder), given.turns))
    (report.RESULTS / "startup.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
