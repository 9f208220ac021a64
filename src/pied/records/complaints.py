"""Translate errors of database drivers into messages for users, with a remedy."""

from collections.abc import Iterable

from pied.address import masked
from pied.errors import StoreAway, StoreError

LOCK_WAIT = 60.0
"""Seconds that a writer waits for other writers before it gives up."""
REMEDY = "put a copy of it in its place (pied backup writes them)"
IDLE_LIMIT = 60.0
"""Seconds after which a PostgreSQL server ends our idle transaction, so that it does not block other programs."""


def translated(url: str, error: BaseException, secrets: Iterable[str] = (), *, is_operational: bool) -> StoreError:
    """Return the error to raise; its class says whether trying again may help.

    Args:
        url: Address of the store, without its password.
        error: The exception of the driver.
        secrets: Passwords in the address, which are never shown.
        is_operational: Whether the driver reports a problem of the server or the disk, not of the statement.
    """
    said = masked(next(iter(str(error).strip().splitlines()), type(error).__name__), secrets)
    if "full" in said or "No space left" in said:
        return StoreAway(
            f"the disk of {url} is full ({said}): nothing of this call was written, what was told before is kept"
        )
    if "disk I/O error" in said:
        return StoreAway(
            f"{url} cannot be read or written ({said}): the disk is full, or away. What was told before is kept"
        )
    if any(word in said for word in ("not a database", "malformed", "no such", "no column", "datatype mismatch")):
        return StoreError(f"{url} is not a store of pied, or is damaged ({said}): {REMEDY}, or name another store")
    if "lock timeout" in said:
        return StoreAway(
            f"{url}: another program has held this study for {LOCK_WAIT:.0f} s ({said}): end its transaction (the view "
            "pg_stat_activity shows which one is 'idle in transaction'), then try again"
        )
    if "idle-in-transaction" in said:
        return StoreAway(
            f"{url}: this program was idle for {IDLE_LIMIT:.0f} s during a transaction, and the server has undone it "
            f"({said}): try again"
        )
    if "locked" in said:
        return StoreAway(f"{url} was kept busy by others for {LOCK_WAIT:.0f} s ({said}): try again")
    is_passing = is_operational and "readonly" not in said
    return (StoreAway if is_passing else StoreError)(f"{url} cannot be used: {said}")
