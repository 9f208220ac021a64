"""The tables of a store, their version and upgrades, and the check for foreign programs in a database."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pied.errors import StoreError
from pied.records import rows
from pied.records.transaction import Transaction

UPGRADE_LOCK = 0x70696564
"""Number of the advisory lock that a PostgreSQL client holds while it makes or upgrades the tables ("pied")."""


@dataclass(frozen=True)
class Table:
    """One table."""

    columns: Mapping[str, str]
    """The type of each, in SQL; `KEY` for numbers that the database gives."""
    constraint: str = ""
    indexes: Mapping[str, str] = field(default_factory=dict)
    """Their columns, by name."""
    since: int = 1
    """Version of the store that has it first."""


KEY = "INTEGER PRIMARY KEY", "SERIAL PRIMARY KEY"
"""A number that the database gives: in SQLite, and on a server."""
WORDS, NUMBER, TIME = "TEXT NOT NULL", "INTEGER NOT NULL", "DOUBLE PRECISION NOT NULL"
STUDY = "INTEGER NOT NULL REFERENCES studies (id)"
tables = {
    "schema": Table({"version": NUMBER}),
    "studies": Table(
        {
            "id": KEY[0], "name": "TEXT NOT NULL UNIQUE", "statement": WORDS, "seed": WORDS, "solver": WORDS,
            "initial": NUMBER, "revision": NUMBER, "change": NUMBER, "created": TIME, "version": WORDS,
        }
    ),
    "revisions": Table(
        {"study": STUDY, "number": NUMBER, "key": WORDS, "statement": WORDS, "asked": TIME},
        "PRIMARY KEY (study, number)",
    ),
    "trials": Table(
        {
            "study": STUDY, "number": NUMBER, "change": NUMBER, "state": WORDS, "is_added": "BOOLEAN NOT NULL",
            "x": WORDS, "why": WORDS, "summary": WORDS, "reason": WORDS, "revision": NUMBER, "worker": WORDS,
            "leased": TIME, "expires": "DOUBLE PRECISION", "asked": TIME, "settled": "DOUBLE PRECISION",
            "offers": "INTEGER NOT NULL DEFAULT 1", "run": "TEXT", "corrected": "INTEGER NOT NULL DEFAULT 0",
        },
        "PRIMARY KEY (study, number)",
        {"trials_by_change": "study, change", "trials_by_state": "study, state"},
    ),
    "values": Table(
        {
            "id": KEY[0], "study": STUDY, "number": NUMBER, "output": WORDS, "value": "DOUBLE PRECISION",
            "exact": WORDS, "counts": "BOOLEAN NOT NULL", "worker": WORDS, "told": TIME, "deviation": "TEXT",
            "repetitions": "INTEGER",
        },
        indexes={"values_by_trial": "study, number"},
    ),
    "events": Table(
        {
            "id": KEY[0], "study": STUDY, "number": NUMBER, "kind": WORDS, "worker": WORDS, "made": TIME,
            "why": WORDS, "data": WORDS,
        },
        indexes={"events_by_trial": "study, number"},
        since=3,
    ),
}  # fmt: skip
LATER = {
    "offers": (2, "1"), "run": (3, "NULL"), "corrected": (3, "0"), "deviation": (4, "NULL"), "repetitions": (4, "NULL"),
}  # fmt: skip
"""Columns that were added later: the first version that has them, and what the upgrade writes there."""


def create(tx: Transaction, name: str) -> None:
    """Create a table with its indexes."""
    table = tables[name]
    columns = [f"{column} {kind if kind != KEY[0] else KEY[tx.is_server]}" for column, kind in table.columns.items()]
    tx.write(f'CREATE TABLE "{name}" ({", ".join(filter(None, [*columns, table.constraint]))})')
    for index, of in table.indexes.items():
        tx.write(f'CREATE INDEX {index} ON "{name}" ({of})')


def _count_offers(tx: Transaction) -> None:
    """Upgrade version 1 to 2: count how often a trial was handed out."""
    tx.write("ALTER TABLE trials ADD COLUMN offers INTEGER NOT NULL DEFAULT 1")


def _keep_events(tx: Transaction) -> None:
    """Upgrade version 2 to 3: corrections, the points really run, and a table of events."""
    tx.write("ALTER TABLE trials ADD COLUMN run TEXT")
    tx.write("ALTER TABLE trials ADD COLUMN corrected INTEGER NOT NULL DEFAULT 0")
    create(tx, "events")


def _keep_errors(tx: Transaction) -> None:
    """Upgrade version 3 to 4: values with errors."""
    tx.write('ALTER TABLE "values" ADD COLUMN deviation TEXT')
    tx.write('ALTER TABLE "values" ADD COLUMN repetitions INTEGER')


UPGRADES: list[Callable[[Transaction], None]] = [_count_offers, _keep_events, _keep_errors]
"""The upgrades: the first one turns version 1 into version 2, and so on."""
VERSION = len(UPGRADES) + 1
"""Version of the tables that this library writes."""


def version_of(tx: Transaction, shown: str) -> int:
    """Return the version of the tables, 0 when there are none; raise for a database of another program."""
    names = {row.name for row in tx.read(_NAMES_ON_A_SERVER if tx.is_server else _NAMES)}
    foreign = StoreError(f"{shown} is a database, but not a store of pied: name another one")
    if "schema" not in names:
        if names & set(tables) if tx.is_server else names:
            raise foreign
        return 0
    if not {"studies", "trials", "values"} <= names:
        raise foreign
    found = tx.read("SELECT version FROM schema LIMIT 1")
    return rows.whole((found[0].version if found else 0) or 0, shown, "version of the schema")


_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
_NAMES_ON_A_SERVER = (
    "SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND n.nspname <> 'pg_catalog'"
)


def upgrade(tx: Transaction, shown: str) -> None:
    """Create the tables, or upgrade them step by step, in one transaction."""
    if tx.is_server:
        tx.read("SELECT pg_advisory_xact_lock(:lock)", lock=UPGRADE_LOCK)
    version = version_of(tx, shown)
    if version == 0:
        for name in tables:
            create(tx, name)
        tx.insert("schema", {"version": VERSION})
        return
    for step in UPGRADES[version - 1 :]:
        step(tx)
    tx.write("UPDATE schema SET version = :version", {"version": VERSION})


def unusable(version: int, shown: str) -> str:
    """Say why a store of this version cannot be used, and what to do."""
    if version == 0:
        return f"{shown} is empty: nothing was stored there yet"
    return f"{shown} was written by a newer pied (schema {version}, this one knows {VERSION}): upgrade pied"


def select(name: str, version: int = VERSION) -> str:
    """Return the statement that reads all columns of a table, in SQL up to FROM.

    Columns that tables of this version do not have yet get the value that an upgrade gives them.
    """
    later = {column: value for column, (since, value) in LATER.items() if since > version}
    columns = [f"{later[column]} AS {column}" if column in later else column for column in tables[name].columns]
    return f'SELECT {", ".join(columns)} FROM "{name}"'


def refuse_programs(tx: Transaction, shown: str) -> None:
    """Refuse a database with triggers, rules or views: they could run foreign code with each of our statements."""
    if not tx.is_server:
        made = (
            "SELECT type AS kind, name FROM sqlite_master "
            "WHERE type IN ('trigger', 'view') OR sql LIKE 'CREATE VIRTUAL%'"
        )
    else:
        ours = ", ".join(f"'{name}'" for name in tables)
        here = f"c.relname IN ({ours}) AND pg_table_is_visible(c.oid)"
        made = (
            f"SELECT 'trigger' AS kind, t.tgname AS name FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            f"WHERE NOT t.tgisinternal AND {here} "
            f"UNION ALL SELECT 'rule', r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class "
            f"WHERE c.relkind IN ('r', 'p') AND {here} "
            f"UNION ALL SELECT 'view', c.relname FROM pg_class c WHERE c.relkind NOT IN ('r', 'p') AND {here}"
        )
    found = [f"the {row.kind if row.kind != 'table' else 'virtual table'} '{row.name}'" for row in tx.read(made)]
    if found:
        raise StoreError(
            f"{shown} has {', '.join(found[:3])}{' and more' if len(found) > 3 else ''}, which pied did not make and "
            "which would act on the data: drop it, if you know it, or name another store"
        )
