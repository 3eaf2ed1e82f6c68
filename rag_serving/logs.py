"""Warnings and errors as lines of standard error.

Belongs here: how they look, in every process of ours. Does not belong here: what is logged (whoever logs).
"""

from __future__ import annotations

import logging


def log_to_stderr() -> None:
    """Warnings and errors of this process, ours and those of libraries, a line each."""
    logging.basicConfig(format="citelock: %(message)s", level=logging.WARNING)
