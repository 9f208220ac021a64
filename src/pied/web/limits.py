"""What one request and one client may use: far more than a laboratory needs, too little to hold up the others."""

LARGEST_TABLE = 20_000_000
"""Bytes of a table that is dropped onto a page."""
LARGEST_JSON = 300_000
"""Bytes of every other request."""
MOST_VALUES = 20_000
"""Names and values in a request."""
DEEPEST = 16
"""Levels of lists and objects in a request."""
LONGEST_TEXT = 10_000
"""Characters of a text in a request; formulas have as many."""
LONGEST_NOTE = 2_000
"""Characters of a reason, a note, a worker or the name of a table."""
LONGEST_NUMBER = 9
"""Digits of a trial's number in an address."""
MOST_ASKED = 100
"""Open trials that can be asked for at once."""
SLOWEST_HEAD = 10.0
"""Seconds until the head of a request is complete."""
SLOWEST_BODY = 30.0
"""Seconds until a request's body is complete, and one more for each ..."""
SLOWEST_RATE = 20_000
"""... bytes that have come."""
LONGEST_WAIT = 60
"""Seconds that a request may wait for a trial."""
MOST_OF_CLIENT = 400
"""Connections of one client; each open page has one or two."""
MOST_CONNECTIONS = 1_000
"""Connections of all clients."""
