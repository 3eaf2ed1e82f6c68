"""What every test shares.

Helpers that stand beside this file can be imported, no test is timed by hypothesis, none leaves clients open, and
processes that tests start can be interrupted.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support import tiers
from support.remembered import compress_the_web_page_once, keep_readers_running, open_models_once
from support.shared import SharedFolders
from support.unaltered import UnalteredFolder

if TYPE_CHECKING:
    from support.index_backends import Backends
    from support.postgres import Postgres

    from rag_serving.ask import Pipeline

# `pytest --hypothesis-profile nightly` draws more. In CI the same examples are drawn every time.
USUAL = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", USUAL, max_examples=10)
settings.register_profile("ci", USUAL, max_examples=10, derandomize=True, print_blob=True)
settings.register_profile("nightly", USUAL, max_examples=200)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

# Compiled modules are kept: each process, and each that they start, would compile them again, assertions included.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# `make` names the checkout's: builds of two tests in one instance of Dagster delete each other's partitions.
for name in ("DAGSTER_HOME", "CITELOCK_HOME", "CITELOCK_CONFIG"):
    os.environ.pop(name, None)

open_models_once()
keep_readers_running()
compress_the_web_page_once()

# No file of a test has to outlive the machine: to wait for the disk takes longer than to publish a wiki.
os.fsync = lambda _: None

# A shell's job in the background ignores Ctrl-C, and what it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--nightly`, which also runs what `make test` leaves to the night."""
    parser.addoption("--nightly", action="store_true", help="run the tests that tests/support/tiers.py names, too")


def pytest_configure(config: pytest.Config) -> None:
    """Note what tests of `pytest -m unit` do outside of this process."""
    if config.getoption("markexpr") == "unit":
        import croniter  # noqa: F401  # starts `file` to learn how wide the interpreter's numbers are

        sys.addaudithook(tiers.note)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without sweeping garbage, then sweep seldom, and not what was collected: a million objects that
    stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # in place of 700: a twentieth of the tests' time
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of folders and files without a test of `pytest -m unit`, where that is asked for."""
    return (config.getoption("markexpr") == "unit" and tiers.tier_of_file(collection_path) != "unit") or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tiers, begin with what takes longest, keep a file in one process, and leave the night's tests out."""
    nightly = [] if config.getoption("nightly") else [item for item in items if tiers.is_nightly(item)]
    left_out = set(nightly)
    config.hook.pytest_deselected(items=nightly)
    tier_of = {item: tiers.tier_of(item) for item in items if item not in left_out}
    for item, tier in tier_of.items():
        item.add_marker(tier)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(tiers.group_of(item)))
    items[:] = tiers.in_order(tier_of)


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


@pytest.fixture(autouse=True)
def unit_stays_inside(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test of `pytest -m unit` that started a process or opened a socket."""
    tiers.outside.clear()
    yield
    if request.config.getoption("markexpr") == "unit":
        assert not tiers.outside, f"a test of the tier `unit` reached out of its process: {tiers.outside}"


@pytest.fixture
def pipeline(wiki_home: Path) -> Iterator[Pipeline]:
    """A pipeline over the small wiki."""
    from support.wiki import configuration, embedder

    from rag_serving.ask import Pipeline

    with closing(Pipeline.open(configuration(wiki_home), "acme", embedder())) as opened:
        yield opened
