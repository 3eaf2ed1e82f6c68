"""What every test shares.

Helpers that stand beside this file can be imported, no test is timed by hypothesis, none leaves clients open, and
processes that tests start can be interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from support.shared import SharedFolders

if TYPE_CHECKING:
    from rag_serving.pipeline import Pipeline

# `pytest --hypothesis-profile nightly` draws more. In CI the same examples are drawn every time.
settings.register_profile("default", max_examples=60, deadline=None)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("nightly", max_examples=1000, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

# Files that take longest, by `pytest --durations 0`. They begin first, so that at the end no process works alone.
LONGEST = (
    "assets/test_build_command.py",
    "assets/test_damage.py",
    "assets/test_jobs.py",
    "assets/test_report_assets.py",
    "browser/test_reports_in_browser.py",
    "assets/test_examples.py",
    "evaluation/test_ragas_model.py",
    "leak/test_leaks.py",
    "api/test_workers.py",
    "assets/test_contexts_build.py",
    "browser/test_dagster_ui.py",
    "rerank_service/test_rerank_model.py",
    "evaluation/test_answers_quality.py",
    "test_patterns.py",
    "leak/test_leak_mutations.py",
    "evaluation/test_ragas.py",
    "assets/test_credentials.py",
    "assets/test_large_documents.py",
    "api/test_drain.py",
    "test_growth.py",
    "test_up.py",
)

# A shell's job in the background ignores Ctrl-C, and what it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first, in the order of `LONGEST`; the others stay as they are."""
    order = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(LONGEST)))


@pytest.fixture(scope="session")
def shared_folders(tmp_path_factory: pytest.TempPathFactory) -> SharedFolders:
    """Folders that are made once for all processes of this session."""
    return SharedFolders.of(tmp_path_factory)


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    """A test's home is its own, and so is the Chroma client that it opened: thousands would hold gigabytes."""
    yield
    if chroma := sys.modules.get("rag_serving.indexes.chroma"):
        chroma.close_clients()


@pytest.fixture(scope="session")
def wiki_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the small wiki published; tests must not publish into it."""
    from support.wiki import publish

    home = tmp_path_factory.mktemp("wiki")
    publish(home)
    return home


@pytest.fixture
def pipeline(wiki_home: Path) -> Iterator[Pipeline]:
    """A pipeline over the small wiki."""
    from support.wiki import configuration, embedder

    from rag_serving.pipeline import Pipeline

    with closing(Pipeline.open(configuration(wiki_home), "acme", embedder())) as opened:
        yield opened
