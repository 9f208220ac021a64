"""Build sdist and wheel, look into both, and use them as a stranger would: in empty environments, on each Python.

    python .ci/release.py                      # every supported Python found on this machine
    python .ci/release.py --pythons 3.12       # this one alone

Needs `build` and `twine` (extra `release`). Fails with a sentence at the first thing that is wrong.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LICENCES = ("BSD", "MIT", "Apache")
"""Of what `pied` itself needs; extras are their users' choice."""
SUPPORTED = ("3.11", "3.12", "3.13")
SMOKE = """
import pathlib, pied
assert "site-packages" in pied.__file__, pied.__file__
result = pied.maximize("y - 0.1*a", blackbox=lambda x: 1 - (x.a - 0.4)**2, variables={"a": (0.0, 1.0)}, outputs=["y"],
                       noise=0, budget=7, seed=0)
assert abs(result.x.a - 0.35) < 0.01, result
assert (pathlib.Path(pied.__file__).parent / "py.typed").exists()
print(pied.__version__, result.x)
"""
"""The optimum of 1 - (a - 0.4)^2 - 0.1 a is at a = 0.35."""


def run(*words: str, folder: Path | None = None) -> str:
    """Run a command and return what it printed; show all of it if it fails."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def interpreters(wanted: list[str]) -> dict[str, str]:
    """The supported Pythons on this machine: those on the path, and those of pyenv."""
    found = {}
    for version in wanted:
        candidates = [shutil.which(f"python{version}"), sys.executable]
        candidates += sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))
        for candidate in filter(None, candidates):
            asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            said = subprocess.run(asked, capture_output=True, text=True)
            if said.returncode == 0 and said.stdout.strip() == version:
                found[version] = candidate
                break
    return found


def build(folder: Path) -> tuple[Path, Path]:
    """Make sdist and wheel (the wheel from the sdist, as an index would) and let twine judge them."""
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    print(run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)).strip())
    return sdist, wheel


def inspect(sdist: Path, wheel: Path) -> None:
    """Fail unless both hold the whole package and nothing else."""
    files = [path for path in (ROOT / "src" / "pied").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    sources = {path.relative_to(ROOT / "src").as_posix() for path in files}
    if "pied/py.typed" not in sources:
        sys.exit("src/pied has no py.typed, so users' type checkers would ignore its types")
    with zipfile.ZipFile(wheel) as file:
        packed = set(file.namelist())
    told = {name for name in packed if ".dist-info/" in name}
    if packed - told != sources:
        sys.exit(f"the wheel differs from src/pied: {sorted((packed - told) ^ sources)}")
    for name in ("entry_points.txt", "licenses/LICENSE"):
        if not any(each.endswith(name) for each in told):
            sys.exit(f"the wheel has no {name}")
    with tarfile.open(sdist) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    missing = {f"src/{name}" for name in sources} - held
    extra = {
        name for name in held if name.split("/")[0] in ("tests", "benchmarks", "docs", "examples", ".ci", ".github")
    }
    if missing or extra:
        sys.exit(f"the sdist lacks {sorted(missing)} and should not have {sorted(extra)}")


def try_out(python: str, package: Path, folder: Path) -> None:
    """Install into an empty environment, optimize something, and use the command line."""
    run(python, "-m", "venv", str(folder))
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    run(str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(package))
    print(f"  {package.name}: {run(str(binaries / 'python'), '-c', SMOKE, folder=folder).strip()}")
    run(str(binaries / "pied"), "init", "first.toml", folder=folder)
    run(str(binaries / "pied"), "check", "first.toml", folder=folder)
    run(str(binaries / "pied"), "ask", "first.toml", folder=folder)


def check_dependencies() -> None:
    """Fail where a package that `pied` itself needs is under a licence that binds its users, or has known holes."""
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]:
        name = re.match(r"[\w.-]+", line)[0]
        told = metadata.metadata(name)
        words = " ".join([told.get("License-Expression") or "", *(told.get_all("Classifier") or [])])
        if not any(each in words for each in LICENCES):
            sys.exit(f"{name}: its licence is not among {', '.join(LICENCES)}: look at it")
        print(f"{name} {told['Version']}: {next(each for each in LICENCES if each in words)}")
    words = [sys.executable, "-m", "pip_audit", "--progress-spinner=off", "--skip-editable"]
    audit = subprocess.run(words, text=True, capture_output=True)  # asks an index: without one it says so
    print(f"pip-audit: {(audit.stdout + audit.stderr).strip()[-2000:]}")
    if "vulnerabilit" in audit.stderr and "No known" not in audit.stderr:
        sys.exit("a package that is needed has known holes")


def main() -> None:
    """Build, inspect, install."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=list(SUPPORTED), help="versions to install on")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where sdist and wheel go")
    words = parser.parse_args()
    shutil.rmtree(words.out, ignore_errors=True)
    sdist, wheel = build(words.out)
    inspect(sdist, wheel)
    check_dependencies()
    found = interpreters(words.pythons)
    for version in words.pythons:
        if version not in found:
            print(f"Python {version}: not on this machine, not tried")
    for place, (version, python) in enumerate(found.items()):
        print(f"Python {version}")
        with tempfile.TemporaryDirectory() as folder:
            try_out(python, wheel if place else sdist, Path(folder) / "fresh")
    print(f"{sdist.name} and {wheel.name} are ready in {words.out}")


if __name__ == "__main__":
    main()
