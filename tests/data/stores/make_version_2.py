"""Write version-2.sqlite: version-1.sqlite as the second schema had it, in plain SQL.

python tests/data/stores/make_version_2.py
"""

import shutil
import sqlite3
from pathlib import Path


def main() -> None:
    """Write the file."""
    folder = Path(__file__).parent
    shutil.copy(folder / "version-1.sqlite", folder / "version-2.sqlite")
    base = sqlite3.connect(folder / "version-2.sqlite")
    base.execute("ALTER TABLE trials ADD COLUMN offers INTEGER NOT NULL DEFAULT 1")
    base.execute("UPDATE schema SET version = 2")
    base.commit()
    base.close()


if __name__ == "__main__":
    main()
