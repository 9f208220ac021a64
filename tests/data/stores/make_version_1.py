"""Write version-1.sqlite: a store as the first schema had it, in plain SQL, so that it never changes with the library.

python tests/data/stores/make_version_1.py
"""

import json
import sqlite3
from pathlib import Path

TABLES = """
CREATE TABLE schema (version INTEGER NOT NULL);
CREATE TABLE studies (
    id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, statement TEXT NOT NULL, seed TEXT NOT NULL,
    solver TEXT NOT NULL, initial INTEGER NOT NULL, revision INTEGER NOT NULL, change INTEGER NOT NULL,
    created DOUBLE NOT NULL, version TEXT NOT NULL);
CREATE TABLE revisions (
    study INTEGER NOT NULL REFERENCES studies (id), number INTEGER NOT NULL, key TEXT NOT NULL,
    statement TEXT NOT NULL, asked DOUBLE NOT NULL, PRIMARY KEY (study, number));
CREATE TABLE trials (
    study INTEGER NOT NULL REFERENCES studies (id), number INTEGER NOT NULL, change INTEGER NOT NULL,
    state TEXT NOT NULL, is_added BOOLEAN NOT NULL, x TEXT NOT NULL, why TEXT NOT NULL, summary TEXT NOT NULL,
    reason TEXT NOT NULL, revision INTEGER NOT NULL, worker TEXT NOT NULL, leased DOUBLE NOT NULL, expires DOUBLE,
    asked DOUBLE NOT NULL, settled DOUBLE, PRIMARY KEY (study, number));
CREATE INDEX trials_by_change ON trials (study, change);
CREATE INDEX trials_by_state ON trials (study, state);
CREATE TABLE "values" (
    id INTEGER NOT NULL PRIMARY KEY, study INTEGER NOT NULL REFERENCES studies (id), number INTEGER NOT NULL,
    output TEXT NOT NULL, value DOUBLE, exact TEXT NOT NULL, counts BOOLEAN NOT NULL, worker TEXT NOT NULL,
    told DOUBLE NOT NULL);
CREATE INDEX values_by_trial ON "values" (study, number);
INSERT INTO schema VALUES (1);
"""
STATEMENT = {
    "variables": {"x": {"lo": 0.0, "hi": 3.0, "log": False, "unit": ""}},
    "outputs": ["p", "q"],
    "blackbox": None,
    "sense": "maximize",
    "objective": {"name": "p - 0.1*x", "formula": "p - 0.1*x", "part": None},
    "subject_to": [{"name": "q <= 5", "formula": "q <= 5", "part": 0}],
    "inputs": {"p": ["x"], "q": ["x"]},
    "noise": {"p": 0.0, "q": 0.0},
    "ranges": {"p": [None, None], "q": [None, None]},
    "constants": {},
    "tolerance": {"q <= 5": None},
}
NEW = (
    "INSERT INTO trials (study, number, change, state, is_added, x, why, summary, reason, revision, worker, leased, "
    "expires, asked, settled) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)"
)
INITIAL = json.dumps({"aim": "initial"})


def main() -> None:
    """Write the file."""
    file = Path(__file__).parent / "version-1.sqlite"
    file.unlink(missing_ok=True)
    text = json.dumps(STATEMENT)
    base = sqlite3.connect(file)
    base.executescript(TABLES)
    solver = json.dumps({"name": "random", "settings": {"is": "Random"}})
    base.execute("INSERT INTO studies VALUES (1, 'reactor', ?, '7', ?, 3, 1, 9, 1e9, '0.1.0')", [text, solver])
    base.execute("INSERT INTO revisions VALUES (1, 1, 'first', ?, 1e9)", [text])
    rows = [
        (1, 2, "told", 1, '{"x": 0.1}', "{}", "", "", "lab", 0.0, None, 1e9, 1e9),
        (2, 5, "told", 0, '{"x": 0.30000000000000004}', INITIAL, "initial", "", "lab", 1e9, 1e9 + 60, 1e9, 1e9 + 5),
        (3, 6, "failed", 0, '{"x": 1.5}', INITIAL, "initial", "pump tripped", "lab", 1e9, 1e9 + 60, 1e9, 1e9 + 7),
        (4, 8, "partial", 0, '{"x": 2.5}', INITIAL, "initial", "", "lab", 1e9, 1e9 + 60, 1e9, None),
        (5, 9, "asked", 0, '{"x": 2.75}', '{"aim": "random"}', "random", "", "lab", 1e9, 1e9 + 60, 1e9, None),
    ]
    base.executemany(NEW, rows)
    told = [
        (1, "p", 0.1, 1),
        (1, "q", -0.0, 1),
        (2, "p", 1 / 3, 1),
        (2, "q", 1e308, 1),
        (2, "p", 0.5, 0),
        (4, "p", 2.0, 1),
    ]
    for number, output, value, counts in told:
        base.execute(
            'INSERT INTO "values" (study, number, output, value, exact, counts, worker, told) '
            "VALUES (1, ?, ?, ?, ?, ?, 'lab', 1e9)",
            [number, output, value, float(value).hex(), counts],
        )
    base.commit()
    base.close()


if __name__ == "__main__":
    main()
