"""The tables of a store, their version and upgrades, and the check for foreign programs in a database."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sql

from pied.errors import StoreError
from pied.records import rows

UPGRADE_LOCK = 0x70696564
"""Number of the advisory lock that a PostgreSQL client holds while it makes or upgrades the tables ("pied")."""

tables = sql.MetaData()
versions = sql.Table("schema", tables, sql.Column("version", sql.Integer, nullable=False))
studies = sql.Table(
    "studies",
    tables,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("name", sql.Text, nullable=False, unique=True),
    sql.Column("statement", sql.Text, nullable=False),
    sql.Column("seed", sql.Text, nullable=False),
    sql.Column("solver", sql.Text, nullable=False),
    sql.Column("initial", sql.Integer, nullable=False),
    sql.Column("revision", sql.Integer, nullable=False),
    sql.Column("change", sql.Integer, nullable=False),
    sql.Column("created", sql.Double, nullable=False),
    sql.Column("version", sql.Text, nullable=False),
)
revisions = sql.Table(
    "revisions",
    tables,
    sql.Column("study", sql.ForeignKey("studies.id"), primary_key=True),
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("key", sql.Text, nullable=False),
    sql.Column("statement", sql.Text, nullable=False),
    sql.Column("asked", sql.Double, nullable=False),
)
trials = sql.Table(
    "trials",
    tables,
    sql.Column("study", sql.ForeignKey("studies.id"), primary_key=True),
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("change", sql.Integer, nullable=False),
    sql.Column("state", sql.Text, nullable=False),
    sql.Column("is_added", sql.Boolean, nullable=False),
    sql.Column("x", sql.Text, nullable=False),
    sql.Column("why", sql.Text, nullable=False),
    sql.Column("summary", sql.Text, nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("revision", sql.Integer, nullable=False),
    sql.Column("worker", sql.Text, nullable=False),
    sql.Column("leased", sql.Double, nullable=False),
    sql.Column("expires", sql.Double),
    sql.Column("asked", sql.Double, nullable=False),
    sql.Column("settled", sql.Double),
    sql.Column("offers", sql.Integer, nullable=False, server_default="1", info={"since": 2, "before": 1}),
    sql.Column("run", sql.Text, info={"since": 3, "before": None}),
    sql.Column("corrected", sql.Integer, nullable=False, server_default="0", info={"since": 3, "before": 0}),
    sql.Index("trials_by_change", "study", "change"),
    sql.Index("trials_by_state", "study", "state"),
)
told_values = sql.Table(
    "values",
    tables,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("study", sql.ForeignKey("studies.id"), nullable=False),
    sql.Column("number", sql.Integer, nullable=False),
    sql.Column("output", sql.Text, nullable=False),
    sql.Column("value", sql.Double),
    sql.Column("exact", sql.Text, nullable=False),
    sql.Column("counts", sql.Boolean, nullable=False),
    sql.Column("worker", sql.Text, nullable=False),
    sql.Column("told", sql.Double, nullable=False),
    sql.Index("values_by_trial", "study", "number"),
)
events = sql.Table(
    "events",
    tables,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("study", sql.ForeignKey("studies.id"), nullable=False),
    sql.Column("number", sql.Integer, nullable=False),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("worker", sql.Text, nullable=False),
    sql.Column("made", sql.Double, nullable=False),
    sql.Column("why", sql.Text, nullable=False),
    sql.Column("data", sql.Text, nullable=False),
    sql.Index("events_by_trial", "study", "number"),
    info={"since": 3},
)


def _count_offers(tx: sql.Connection) -> None:
    """Upgrade version 1 to 2: count how often a trial was handed out."""
    tx.exec_driver_sql("ALTER TABLE trials ADD COLUMN offers INTEGER NOT NULL DEFAULT 1")


def _keep_events(tx: sql.Connection) -> None:
    """Upgrade version 2 to 3: corrections, the points really run, and a table of events."""
    tx.exec_driver_sql("ALTER TABLE trials ADD COLUMN run TEXT")
    tx.exec_driver_sql("ALTER TABLE trials ADD COLUMN corrected INTEGER NOT NULL DEFAULT 0")
    events.create(tx)


UPGRADES: list[Callable[[sql.Connection], None]] = [_count_offers, _keep_events]
"""The upgrades: the first one turns version 1 into version 2, and so on."""
VERSION = len(UPGRADES) + 1
"""Version of the tables that this library writes."""


def version_of(tx: sql.Connection, shown: str) -> int:
    """Return the version of the tables, 0 when there are none; raise for a database of another program."""
    names = set(sql.inspect(tx).get_table_names())
    foreign = StoreError(f"{shown} is a database, but not a store of pied: name another one")
    if "schema" not in names:
        if names if tx.dialect.name == "sqlite" else names & set(tables.tables):
            raise foreign
        return 0
    if not {"studies", "trials", "values"} <= names:
        raise foreign
    return rows.whole(tx.scalar(as_stored(versions).limit(1)) or 0, shown, "version of the schema")


def upgrade(tx: sql.Connection, shown: str) -> None:
    """Create the tables, or upgrade them step by step, in one transaction."""
    if tx.dialect.name == "postgresql":
        tx.execute(sql.select(sql.func.pg_advisory_xact_lock(UPGRADE_LOCK)))
    version = version_of(tx, shown)
    if version == 0:
        tables.create_all(tx)
        tx.execute(sql.insert(versions).values(version=VERSION))
        return
    for step in UPGRADES[version - 1 :]:
        step(tx)
    tx.execute(sql.update(versions).values(version=VERSION))


def unusable(version: int, shown: str) -> str:
    """Say why a store of this version cannot be used, and what to do."""
    if version == 0:
        return f"{shown} is empty: nothing was stored there yet"
    return f"{shown} was written by a newer pied (schema {version}, this one knows {VERSION}): upgrade pied"


def as_stored(table: sql.Table, version: int = VERSION) -> Any:
    """Select all columns without converting them, because a conversion would fail on a file edited by hand.

    Columns that tables of this version do not have yet get the value that an upgrade gives them.
    """
    return sql.select(*(_as_stored(column, version) for column in table.c))


def _as_stored(column: Any, version: int) -> Any:
    if column.info.get("since", 1) <= version:
        return sql.type_coerce(column, sql.types.NullType()).label(column.name)
    before = column.info["before"]
    return (sql.null() if before is None else sql.literal_column(str(before))).label(column.name)


def refuse_programs(tx: sql.Connection, shown: str) -> None:
    """Refuse a database with triggers, rules or views: they could run foreign code with each of our statements."""
    if tx.dialect.name == "sqlite":
        made = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view') OR sql LIKE 'CREATE VIRTUAL%'"
    else:
        ours = ", ".join(f"'{name}'" for name in tables.tables)
        here = f"c.relname IN ({ours}) AND pg_table_is_visible(c.oid)"
        made = (
            f"SELECT 'trigger', t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            f"WHERE NOT t.tgisinternal AND {here} "
            f"UNION ALL SELECT 'rule', r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class "
            f"WHERE c.relkind IN ('r', 'p') AND {here} "
            f"UNION ALL SELECT 'view', c.relname FROM pg_class c WHERE c.relkind NOT IN ('r', 'p') AND {here}"
        )
    found = [f"the {kind if kind != 'table' else 'virtual table'} '{name}'" for kind, name in tx.exec_driver_sql(made)]
    if found:
        raise StoreError(
            f"{shown} has {', '.join(found[:3])}{' and more' if len(found) > 3 else ''}, which pied did not make and "
            "which would act on the data: drop it, if you know it, or name another store"
        )
