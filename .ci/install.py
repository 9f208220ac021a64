"""Install with pip, show what it is doing and where the time goes: python .ci/install.py .venv/bin/python ".[plots]"

Modules are compiled when they are first imported and not all at once, which saves time before the first result.
"""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

IGNORED = re.compile(r"^WARNING: Location .* is ignored")
"""pip names every folder of an index that it does not use."""
STEPS = {
    "Collecting ": "finding",
    "Downloading ": "downloading",
    "Installing collected packages: ": "unpacking",
}
"""How lines of pip begin, and what they are about."""


def steps(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Return what is being done and with what, for each line that begins something."""
    for line in lines:
        text = line.strip()
        for start, what in STEPS.items():
            if text.startswith(start):
                rest = text.removeprefix(start)
                if what == "unpacking":
                    yield what, f"{rest.count(',') + 1} packages"
                else:
                    size = re.search(r"\(([\d.]+ [kMG]B)\)", rest)
                    name = re.split(r"[\s<>=!~;(\[]|-\d", rest.rsplit("/", 1)[-1])[0]
                    yield what, f"{name}{f' ({size[1]})' if size else ''}"


def main(python: str, wanted: str) -> int:
    """Install, and return pip's exit code."""
    began, spent, current, is_live = (
        time.monotonic(),
        dict.fromkeys(STEPS.values(), 0.0),
        "finding",
        sys.stdout.isatty(),
    )
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--no-compile"]
    with subprocess.Popen(
        [*command, "--editable", wanted], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as pip:
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(pip.stderr or ()), daemon=True)
        reader.start()
        since, announced = began, ""
        for what, of in steps(iter(pip.stdout or ())):
            now = time.monotonic()
            spent[current] += now - since
            since, current = now, what
            if is_live:
                print(f"\r  {now - began:4.0f} s  {what} {of}".ljust(70), end="", flush=True)
            elif what != announced:  # one line for each kind of work
                print(f"  {now - began:4.0f} s  {what} {of if what == 'unpacking' else 'packages'}", flush=True)
                announced = what
        pip.wait()
        reader.join()
    spent[current] += time.monotonic() - since
    if is_live:
        print()
    sys.stderr.writelines(line for line in said if not IGNORED.match(line))
    if pip.returncode == 0:
        parts = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in spent.items())
        print(f"Installed in {time.monotonic() - began:.0f} s: {parts}.")
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
