"""Hide passwords in the addresses of stores."""

import re
from collections.abc import Iterable

MASK = "***"
"""Shown in place of a password."""
SHORTEST_SECRET = 3
"""Fewest characters of a known password that is searched for: a shorter one would match parts of other words."""

_START = r"((?:\b[a-z][a-z0-9+.-]*)?://[^\s:/?#]*:)"
# A password ends at the last @ before the query. If it contains an unescaped question mark, it ends at the last @.
_ALONE = re.compile(rf"\A\s*{_START}(?:[^?]*|.*)@", re.IGNORECASE | re.DOTALL)
_QUOTED = re.compile(rf"{_START}(?:[^\s?]*|\S*)@", re.IGNORECASE)
_WORD = re.compile(
    r"\b(\w*(?:password|passwd|passphrase)|pwd)(\s*=\s*)('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&;'\"]+)", re.IGNORECASE
)


def masked(text: str, secrets: Iterable[str | None] = ()) -> str:
    """Return a text with all passwords in addresses hidden: user:PASSWORD@host, ?password=, ?sslpassword=.

    Args:
        text: An address, or a message that may quote one.
        secrets: Known passwords, hidden wherever they occur.
    """
    for secret in secrets:
        if secret and len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    is_address = _ALONE.match(text) is not None and "\n" not in text and not re.search(r"@.*\s", text)
    text = _ALONE.sub(rf"\1{MASK}@", text) if is_address else _QUOTED.sub(rf"\1{MASK}@", text)
    return _WORD.sub(rf"\1\2{MASK}", text)
