"""Write a file whole or not at all: a full disk leaves what was there, and no half a file that blocks its name."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(file: Path, content: str | bytes) -> Iterator[None]:
    """Write a file after the block; until then the new content is kept beside it.

    What is done in the block therefore fails before the file has changed, and a full disk is noticed before the block.
    """
    raw, place = content if isinstance(content, bytes) else content.encode(), file.resolve()
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=".pied-", suffix=".tmp")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as page:
            page.write(raw)
            page.flush()
            os.fsync(page.fileno())
        yield
        if place.exists():
            part.chmod(place.stat().st_mode)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def create(file: Path, content: str | bytes) -> None:
    """Write a new file; raise `FileExistsError` where one is there."""
    file.touch(exist_ok=False)
    try:
        with replaced(file, content):
            pass
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def write(file: Path, content: str | bytes) -> None:
    """Write a file, over one that is there."""
    if not file.exists():
        create(file, content)
        return
    with replaced(file, content):
        pass
