"""What databases say when they refuse, in the user's words and with a remedy."""

from collections.abc import Iterable

from pied.errors import StoreAway, StoreError
from pied.records.address import masked

LOCK_WAIT = 60.0
"""Seconds that a writer waits for the others before it gives up."""
IDLE_LIMIT = 60.0
"""Seconds after which a PostgreSQL server ends a transaction of ours that stands still, so that it holds up nobody."""


def translated(url: str, error: BaseException, secrets: Iterable[str] = (), *, is_operational: bool) -> StoreError:
    """Return the error to raise; its class says whether trying again may help.

    Args:
        url: Of the store, as it may be shown.
        error: What the driver raised.
        secrets: Passwords of the address, never shown.
        is_operational: Whether the driver takes it for trouble of the server or the disk, not of the question.
    """
    said = masked(next(iter(str(error).strip().splitlines()), type(error).__name__), secrets)
    if "full" in said or "No space left" in said:
        return StoreAway(
            f"the disk of {url} is full ({said}): nothing of this call was written, what was told before is kept"
        )
    if "not a database" in said or "malformed" in said:
        return StoreError(f"{url} is not a store of pied, or is damaged ({said})")
    if "lock timeout" in said:
        return StoreAway(
            f"{url}: another program has held this study for {LOCK_WAIT:.0f} s ({said}): end its transaction (the view "
            "pg_stat_activity shows which one is 'idle in transaction'), then try again"
        )
    if "idle-in-transaction" in said:
        return StoreAway(
            f"{url}: this program stood still for {IDLE_LIMIT:.0f} s in the middle of a transaction, which the server has "
            f"undone ({said}): try again"
        )
    if "locked" in said:
        return StoreAway(f"{url} was kept busy by others for {LOCK_WAIT:.0f} s ({said}): try again")
    is_passing = is_operational and "no such" not in said and "readonly" not in said
    return (StoreAway if is_passing else StoreError)(f"{url} cannot be used: {said}")
