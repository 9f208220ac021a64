"""The origin of a result: version, code, machine and date."""

import hashlib
import os
import platform
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path

import pied


def made() -> dict[str, str]:
    """Return version, code, machine and date of a result."""
    return {
        "version": pied.__version__,
        "code": code(),
        "machine": machine(),
        "date": date.today().isoformat(),
    }


@cache
def code() -> str:
    """Return a hash of the package's source, to distinguish results of different code."""
    package = Path(pied.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:8]


@cache
def machine() -> str:
    """Return cores, processor, and the versions of Python and NumPy."""
    kind = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        kind = named[0].split(":", 1)[1].strip() if named else kind
    versions = f"Python {platform.python_version()}, NumPy {metadata.version('numpy')}"
    return f"{cores()} cores, {kind}; {versions}"


def cores() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
