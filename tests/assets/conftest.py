"""What the tests of the assets share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import dagster as dg
import pytest
import yaml
from support.building import BuiltAs, build
from support.command_line import run
from support.damaged import Sample
from support.envelopes import Wiki, write_twins
from support.project import Project
from support.remembered import forget_events, keep_memory_connected, read_migrations_once
from support.shared import SharedFolders

ROOT = Path(__file__).parents[2]

read_migrations_once()
keep_memory_connected()
forget_events()


@pytest.fixture(scope="session")
def published_sample(shared_folders: SharedFolders, request: pytest.FixtureRequest) -> Path:
    """The folder of the whole sample wiki, built, at night evaluated, and published once for all tests."""
    is_judged = bool(request.config.getoption("nightly"))
    return shared_folders.get("published_sample", lambda folder: publish_sample(Sample(folder, judged=is_judged)))


@pytest.fixture(scope="session")
def published_documents(shared_folders: SharedFolders, request: pytest.FixtureRequest) -> Path:
    """The folder of the sample's docs, book and files, built, at night evaluated, and published once for all tests."""
    is_judged = bool(request.config.getoption("nightly"))
    return shared_folders.get("published_documents", lambda folder: publish_documents(folder, is_judged))


def publish_documents(folder: Path, is_judged: bool) -> None:
    content = yaml.safe_load((ROOT / "config" / "documents.yaml").read_text(encoding="utf-8"))
    for source in content["sources"].values():
        if "path" in source:
            source["path"] = str(ROOT / source["path"])
    if not is_judged:
        content["evaluation"] = {**content["evaluation"], "gold": str(folder / "no gold")}
    config = folder / "app.yaml"
    config.write_text(yaml.safe_dump({**content, "home": str(folder / "home")}), encoding="utf-8")
    with chdir(ROOT):
        code, _, errors = run("build", "--config", str(config))
    assert code == 0, errors


def publish_sample(sample: Sample) -> None:
    sample.ingest()
    assert sample.publish().success


@pytest.fixture
def wiki(tmp_path: Path) -> Wiki:
    """A tiny wiki."""
    return Wiki(tmp_path)


@pytest.fixture
def built_as(tmp_path: Path, shared_folders: SharedFolders, monkeypatch: pytest.MonkeyPatch) -> BuiltAs:
    """Gives a tiny wiki as `citelock build` left it, in the working directory: a copy of one that was built once."""

    def copied(name: str, prepare: Callable[[Wiki], object]) -> Wiki:
        built = shared_folders.get(name, lambda folder: build_in(folder, prepare))
        monkeypatch.chdir(tmp_path)
        return Wiki.copy(built, tmp_path)

    return copied


def build_in(folder: Path, prepare: Callable[[Wiki], object]) -> None:
    with chdir(folder):
        wiki = Wiki(folder, pages_at=Path())
        prepare(wiki)
        build(wiki)


@pytest.fixture
def built_wiki(built_as: BuiltAs) -> Wiki:
    """The tiny wiki, built."""
    return built_as("built_wiki", lambda _: None)


@pytest.fixture
def twins(built_as: BuiltAs) -> Wiki:
    """The tiny wiki with two pages of the same text, built."""
    return built_as("twins", write_twins)


@pytest.fixture
def project(wiki: Wiki) -> Iterator[Project]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(wiki, instance)


@pytest.fixture
def built_project(built_wiki: Wiki) -> Iterator[Project]:
    """The project of a wiki that was built and published; its instance knows nothing of those runs."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(built_wiki, instance)
