"""A git working tree that is not whole deletes no page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources.site_docs import Docs

from rag_assets.sources import SourceError
from rag_assets.sources.sites.source import TRACKED, UNREADABLE, missing_files

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *settings, *arguments], check=True, capture_output=True)


@pytest.fixture
def docs(tmp_path: Path) -> Docs:
    docs = Docs(tmp_path)
    for name in ("a.md", "sub/b.md", "sub/ü c.md", "d.md", "more/e.md"):
        docs.write(name, f"# {name}\n\ntext of {name}\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return docs


def test_files_that_git_tracks_and_that_are_missing_keep_their_pages(docs: Docs) -> None:
    docs.sync()
    before = docs.rows()
    shutil.rmtree(docs.path / "sub")
    result = docs.sync(max_deleted_share=1)
    assert result.deleted == 0
    assert docs.rows() == before
    assert set(docs.reasons()) == {"sub/b.md", "sub/ü c.md"}
    assert "git tracks it" in docs.reasons()["sub/b.md"]
    git(docs.path, "checkout", "-q", "--", ".")
    assert docs.sync().failed == 0
    assert docs.rows() == before


@pytest.mark.parametrize("version", ["2", "4"])
def test_files_that_were_removed_with_git_are_deleted(docs: Docs, version: str) -> None:
    docs.sync()
    git(docs.path, "update-index", "--index-version", version)
    git(docs.path, "rm", "-rq", "sub")
    (docs.path / "d.md").unlink()
    assert docs.sync(max_deleted_share=1).deleted == 2
    assert set(docs.rows()) == {"a.md", "d.md", "more/e.md"}


def test_while_git_writes_its_index_nothing_is_deleted(docs: Docs, tmp_path: Path) -> None:
    docs.sync()
    git(tmp_path, "rm", "-rq", "docs/sub")
    lock = tmp_path / ".git/index.lock"
    lock.touch()
    assert docs.sync(max_deleted_share=1).deleted == 0
    assert all("index.lock" in why for why in docs.reasons().values())
    lock.unlink()
    assert docs.sync(max_deleted_share=1).deleted == 2


def test_a_file_that_was_removed_without_git_fails_alone_until_git_is_told(docs: Docs) -> None:
    docs.sync()
    (docs.path / "a.md").unlink()
    docs.write("d.md", "# d.md\n\nother text\n")
    for _ in range(2):
        result = docs.sync(max_deleted_share=1)
        assert (result.deleted, result.failed, "a.md" in docs.rows()) == (0, 1, True)
    assert "other text" in docs.rows()["d.md"]["body"]
    assert "`git rm` takes its page away" in docs.reasons()["a.md"]
    git(docs.path, "rm", "-q", "a.md")
    result = docs.sync(max_deleted_share=1)
    assert (result.deleted, result.failed) == (1, 0)


def test_a_file_that_was_moved_without_git_is_the_same_page(docs: Docs) -> None:
    docs.sync()
    page_id = docs.rows()["a.md"]["page_id"]
    (docs.path / "a.md").rename(docs.path / "z.md")
    result = docs.sync(max_deleted_share=1)
    assert (result.deleted, result.failed, docs.rows()["z.md"]["page_id"]) == (0, 0, page_id)


def test_another_worktree_and_a_sparse_checkout_are_read_by_their_own_index(docs: Docs, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "worktree", "add", "-q", str(other))
    (other / "docs/a.md").unlink()
    assert missing_files(other / "docs", ["a.md", "absent.md"]) == {"a.md": TRACKED}
    assert missing_files(docs.path, ["absent.md"]) == {}
    git(other, "sparse-checkout", "set", "docs/sub")
    assert missing_files(other / "docs", ["more/e.md"]) == {}
    assert missing_files(other / "docs", ["sub/b.md"]) == {"sub/b.md": TRACKED}


@given(st.binary(max_size=300), st.booleans())
def test_a_broken_index_deletes_nothing(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, has_head: bool
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    (folder / ".git").mkdir()
    (folder / ".git/index").write_bytes((b"DIRC\0\0\0\2\0\0\0\7" if has_head else b"") + content)
    assert missing_files(folder, ["a.md"]).keys() <= {"a.md"}
    if not has_head and not content.startswith(b"DIRC"):
        assert missing_files(folder, ["a.md"]) == {"a.md": UNREADABLE}


def test_a_folder_that_git_calls_deleted_may_go_whole(tmp_path: Path) -> None:
    docs = Docs(tmp_path)
    for number in range(20):
        docs.write(f"{'guides/' if number < 4 else ''}{number}.md", f"# Page {number}\n\nText {number * 7919}.\n")
    docs.sync()
    shutil.rmtree(docs.path / "guides")
    with pytest.raises(SourceError, match="lacks all 4 pages in folder guides"):
        docs.sync()
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    assert docs.sync().deleted == 4
