"""A laboratory for tests of the shell: its statement, its simulator, and how commands are run."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner, Result

from pied.shell.main import main

LAB = """
maximize = "price*product - 0.4*time"
solver = "random"
[variables]
temperature = { lo = 60, hi = 100, unit = "degC" }
time = [0.5, 6]
[outputs]
product = { range = [0, 1], noise = 0.005 }
impurity = { noise = 0.001 }
[subject_to]
purity = "impurity <= limit"
[constants]
price = 20.0
limit = 0.08
[study]
seed = 1
initial = 3
"""
SIMULATION = """
import json, sys
x = json.load(sys.stdin)
if x["time"] > 5.5:
    sys.exit("pump tripped")
print(json.dumps({"product": 0.5 + 0.01 * x["time"], "impurity": 0.001 * (x["temperature"] - 40)}))
"""


def pied_(*words: str, code: int | tuple[int, ...] = 0) -> Result:
    """Run a command in this process and check its exit code."""
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code in (code if isinstance(code, tuple) else (code,)), (done.output, done.exception)
    return done


def data(*words: str, code: int | tuple[int, ...] = 0) -> Any:
    return json.loads(pied_(*words, "--json", code=code).stdout)


@contextmanager
def full_disk(most: int = 100) -> Iterator[None]:
    """Let this process write no file beyond some bytes, as on a full disk; POSIX only."""
    import resource
    import signal

    _, hard = old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python would keep half of a module
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
