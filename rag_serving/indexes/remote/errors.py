"""How a database that holds generations fails.

Belongs here: the error classes that every backend raises, so that a question falls through to its next phase.
Does not belong here: what is done then (`degradation.phases`), reading drivers' errors (the backends).
"""

from __future__ import annotations


class RemoteError(Exception):
    """The database cannot answer; the message is one line, without secrets, and says how to mend it."""


class RemoteConnectionError(RemoteError):
    """The database cannot be reached, refused the connection, or broke it."""


class BusyError(RemoteConnectionError):
    """The server asks to come back later: 408, 429 or 5xx. `retry_after_s`: when, if it says so."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RemoteTimeoutError(RemoteError):
    """The database took longer than it may."""


class RemoteDataError(RemoteError):
    """What the database holds is missing, damaged, or of another version."""
