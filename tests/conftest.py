"""One BLAS thread per test process: small matrices are slower on several, and several processes run side by side."""

import os
from pathlib import Path

import pytest

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a statement, where the shell works."""
    from shells import LAB, SIMULATION  # not above: the package must not be loaded before its shapes are checked

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIED_STORE", raising=False)
    (tmp_path / "lab.toml").write_text(LAB)
    (tmp_path / "simulate.py").write_text(SIMULATION)
    return tmp_path
