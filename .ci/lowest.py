"""Print the lowest versions that the package allows of what it needs, for pip: numpy==1.26 scipy==1.15 ...

python .ci/lowest.py             # of the package itself
python .ci/lowest.py web plots   # and of these extras
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest(requirement: str) -> str:
    """Return a requirement with its lower bound as the only version."""
    name, bound = re.match(r"([\w.-]+)(?:\[[^\]]*\])?>=([\d.]+)", requirement.replace(" ", "")).groups()
    return f"{name}=={bound}"


wanted = [*PROJECT["dependencies"], *(each for name in sys.argv[1:] for each in PROJECT["optional-dependencies"][name])]
print(*map(lowest, wanted))
