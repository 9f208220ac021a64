"""One BLAS thread per test process: small matrices are slower on several, and several processes run side by side."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparing
from servers import Missing, postgresql

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


sparing.install()  # before the package is loaded


def pytest_configure() -> None:
    """Disturb last bits if that is asked for: `PIED_DISTURB=1 pytest` (CONTRIBUTING.md)."""
    if os.environ.get("PIED_DISTURB"):
        import disturb

        disturb.install(float(os.environ["PIED_DISTURB"]))


@pytest.fixture(autouse=True)
def shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check shapes in the quick tests, which call every function; long runs would take several times as long.

    `PIED_SHAPES=1` checks them everywhere.
    """
    from jaxtyping import config

    is_long = request.node.get_closest_marker("slow") is not None and not os.environ.get("PIED_SHAPES")
    config.update("jaxtyping_disable", is_long)
    sparing.begin()
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a statement, where the shell works."""
    from shells import LAB, SIMULATION  # not above: the package must not be loaded before its shapes are checked

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIED_STORE", raising=False)
    (tmp_path / "lab.toml").write_text(LAB)
    (tmp_path / "simulate.py").write_text(SIMULATION)
    return tmp_path


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server of our own; without one the tests that need it are skipped, no others."""
    pytest.importorskip("psycopg")
    try:
        with postgresql() as url:
            yield url
    except Missing as error:
        pytest.skip(str(error))
