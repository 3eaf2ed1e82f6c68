"""What every test shares.

Helpers that stand beside this file can be imported, no test is timed by hypothesis, none leaves clients open, and
processes that tests start can be interrupted.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.shared import SharedFolders
from support.unaltered import UnalteredFolder

if TYPE_CHECKING:
    from support.index_backends import Backends
    from support.postgres import Postgres

    from rag_serving.pipeline.pipeline import Pipeline

# `pytest --hypothesis-profile nightly` draws more. In CI the same examples are drawn every time.
USUAL = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", USUAL, max_examples=60)
settings.register_profile("ci", USUAL, max_examples=60, derandomize=True, print_blob=True)
settings.register_profile("nightly", USUAL, max_examples=1_000)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

# Files that take longest, by `pytest --durations 0`. They begin first, so that at the end no process works alone.
LONGEST = (
    "test_dagster_ui.py",
    "test_damage.py",
    "test_page_documents.py",
    "test_ragas_model.py",
    "test_leaks.py",
    "test_build_command.py",
    "test_jobs.py",
    "test_report_assets.py",
    "test_workers.py",
    "test_leak_groups.py",
    "test_leak_differential.py",
    "test_answers_quality.py",
    "test_confluence_stateful.py",
    "test_contexts_build.py",
    "test_documents_build.py",
    "test_publishing_survives.py",
    "test_agent_examples.py",
    "test_injected_orders.py",
    "test_leak_mutations.py",
    "test_limited_reader.py",
    "test_rerank_service.py",
    "test_ragas.py",
    "test_examples.py",
    "test_up.py",
    "test_drain.py",
    "test_patterns.py",
    "test_credentials.py",
    "test_large_documents.py",
    "test_growth.py",
    "test_mcp_tools.py",
)
# Files whose tests share nothing that is made for one process: any process may run any of them.
DIVIDED = {
    "test_build_command.py",
    "test_confluence_economy.py",
    "test_confluence_stateful.py",
    "test_contexts_build.py",
    "test_documents_build.py",
    "test_growth.py",
    "test_jobs.py",
    "test_limited_reader.py",
    "test_mcp_tools.py",
    "test_patterns.py",
    "test_report_assets.py",
    "test_up.py",
}

# Compiled modules are kept: each process, and each that they start, would compile them again, assertions included.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell's job in the background ignores Ctrl-C, and what it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first, and keep a file in one process (`--dist loadgroup`)."""
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONGEST)))
    for item in items:
        if item.path.name not in DIVIDED and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name tests of bytes and of long texts by their parameter: an archive holds the time when it was made,
    a key is a new one each time, and all processes of a run must name the same tests."""
    is_long = isinstance(val, bytes | bytearray) or (isinstance(val, str) and ("\n" in val or len(val) > 200))
    return argname if is_long else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Debian's Postgres, of this process."""
    from support.postgres import started_postgres

    with started_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    """Every place where a generation can be searched, of this process; a server is started when it is asked for."""
    from support.index_backends import Backends

    with Backends(tmp_path_factory.mktemp("chroma-server")) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    """A database of each kind, that of the folder's tests; None is the SQLite file of the home."""
    if request.param == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("postgres")
    return server.database(request.path.parent.name)


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
def unaltered_wiki(tmp_path_factory: pytest.TempPathFactory, shared_folders: SharedFolders) -> UnalteredFolder:
    """The small wiki of this process; who reads it writes its database and caches, and Chroma its own."""
    from support.wiki import publish

    home = tmp_path_factory.mktemp("wiki")
    shutil.copytree(shared_folders.get("small_wiki", publish), home, dirs_exist_ok=True)
    return UnalteredFolder(home, "serving.db", "cache/", "tenants/acme/cache/", "tenants/acme/chroma/")


@pytest.fixture(scope="session")
def wiki_home(unaltered_wiki: UnalteredFolder) -> Path:
    """A home with the small wiki published, which all tests of this process ask; to write into it, `copied_wiki`."""
    return unaltered_wiki.folder


@pytest.fixture
def copied_wiki(wiki_home: Path, tmp_path: Path) -> Path:
    """A copy of the home with the small wiki, of one test."""
    from support.wiki import copied

    return copied(wiki_home, tmp_path / "wiki")


@pytest.fixture(autouse=True)
def wiki_stays_unaltered(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that wrote into the wiki of all tests: those after it would depend on the order of tests."""
    yield
    if "unaltered_wiki" in request.fixturenames:
        altered = request.getfixturevalue("unaltered_wiki").alterations()
        assert not altered, f"the test altered the wiki of all tests: {altered}"


@pytest.fixture
def pipeline(wiki_home: Path) -> Iterator[Pipeline]:
    """A pipeline over the small wiki."""
    from support.wiki import configuration, embedder

    from rag_serving.pipeline.pipeline import Pipeline

    with closing(Pipeline.open(configuration(wiki_home), "acme", embedder())) as opened:
        yield opened


@pytest.fixture
def passages_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What verification reads of a passage is kept for a test's next sentence about it: reading takes most of the time.

    The product keeps nothing: one tenant's question must not make another's faster.
    """
    from rag_serving.answering.verification import sentence_wording
    from rag_serving.answering.verification.support import Sentences

    monkeypatch.setattr(sentence_wording, "Sentences", cache(Sentences))
