"""Warnings and errors as lines of standard error.

Belongs here: how they look, in every process of ours. Does not belong here: what is logged (whoever logs).
"""

from __future__ import annotations

import logging
import sys
from types import TracebackType

from rag_serving.escaping.targets import for_log
from rag_serving.privacy import log_redacted

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LineFormatter(logging.Formatter):
    """One line for each record, whatever its message holds; the lines of a traceback are indented below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the record's line with breaks and controls spelled out, and without personal data."""
        return log_redacted(for_log(super().formatMessage(record)))

    def formatException(self, ei: _Raised) -> str:  # noqa: N802
        """Return the traceback with every line indented, so that none looks like a record."""
        return "\n".join(f"  {log_redacted(for_log(line))}" for line in super().formatException(ei).splitlines())


def log_to_stderr() -> None:
    """Warnings and errors of this process, ours and those of libraries, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("citelock: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(f"citelock: {for_log(text)}", file=sys.stderr)
