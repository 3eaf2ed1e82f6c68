"""What every test shares.

Helpers that stand beside this file can be imported, no test is timed by hypothesis, none leaves clients open, and
processes that tests start can be interrupted.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell's job in the background ignores Ctrl-C, and what it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    """A test's home is its own, and so is the Chroma client that it opened: thousands would hold gigabytes."""
    yield
    if chroma := sys.modules.get("rag_serving.indexes.chroma"):
        chroma.close_clients()
