"""Write version-3.sqlite: version-2.sqlite as the third schema had it, in plain SQL.

python tests/data/stores/make_version_3.py
"""

import shutil
import sqlite3
from pathlib import Path

EVENTS = """CREATE TABLE events (
    id INTEGER NOT NULL, study INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, worker TEXT NOT NULL,
    made DOUBLE NOT NULL, why TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (id),
    FOREIGN KEY(study) REFERENCES studies (id))"""


def main() -> None:
    """Write the file."""
    folder = Path(__file__).parent
    shutil.copy(folder / "version-2.sqlite", folder / "version-3.sqlite")
    base = sqlite3.connect(folder / "version-3.sqlite")
    base.execute("ALTER TABLE trials ADD COLUMN run TEXT")
    base.execute("ALTER TABLE trials ADD COLUMN corrected INTEGER NOT NULL DEFAULT 0")
    base.execute(EVENTS)
    base.execute("CREATE INDEX events_by_trial ON events (study, number)")
    base.execute("UPDATE schema SET version = 3")
    base.commit()
    base.close()


if __name__ == "__main__":
    main()
