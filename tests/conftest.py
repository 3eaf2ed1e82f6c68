"""What every test shares.

Helpers that stand beside this file can be imported, no test is timed by hypothesis, none leaves clients open, and
processes that tests start can be interrupted.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Files that take longest, by `pytest --durations 0`. They begin first, so that at the end no process works alone.
LONGEST = (
    "assets/test_build_command.py",
    "assets/test_damage.py",
    "assets/test_jobs.py",
    "assets/test_report_assets.py",
    "browser/test_reports_in_browser.py",
    "assets/test_examples.py",
    "serving/test_ragas_model.py",
    "leak/test_leaks.py",
    "serving/test_workers.py",
    "assets/test_contexts_build.py",
    "browser/test_dagster_ui.py",
    "serving/test_rerank_model.py",
    "serving/test_answers_quality.py",
    "test_patterns.py",
    "leak/test_leak_mutations.py",
    "serving/test_ragas.py",
    "assets/test_credentials.py",
    "assets/test_large_documents.py",
    "serving/test_drain.py",
    "test_growth.py",
    "test_up.py",
)

# A shell's job in the background ignores Ctrl-C, and what it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first, in the order of `LONGEST`; the others stay as they are."""
    order = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(LONGEST)))


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    """A test's home is its own, and so is the Chroma client that it opened: thousands would hold gigabytes."""
    yield
    if chroma := sys.modules.get("rag_serving.indexes.chroma"):
        chroma.close_clients()
