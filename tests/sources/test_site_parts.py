"""What sites of all generators share: slugs, front matter, likeness of files, changelogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.sources.sites.front_matter import YamlError, read_yaml, split_front_matter
from rag_assets.sources.sites.markdown_page import github_slug
from rag_assets.sources.sites.page_sync import is_changelog, similarity
from rag_assets.sources.sites.site import FolderTree
from rag_assets.steps.files.records import FileError


def test_slugs_are_those_of_github() -> None:
    texts = {"Hello, World!": "hello-world", "a  b": "a--b", "C++ & Ⅷ": "c--ⅷ", "हिन्दी": "हिन्दी", "x² – ①": "x--"}
    assert {text: github_slug(text) for text in texts} == texts


def test_yaml_builds_nothing_and_its_bombs_are_refused() -> None:
    assert read_yaml("a: !!python/object/apply:os.system ['x']\nb: 1.10\nc: yes\nd: true") == {
        "a": ["x"],
        "b": "1.10",
        "c": "yes",
        "d": True,
    }
    bomb = "a0: &a0 [x, x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))
    with pytest.raises(YamlError, match="more than 200000 values"):
        read_yaml(bomb)
    with pytest.raises(YamlError, match="nested deeper"):
        read_yaml("[" * 500)
    with pytest.raises(FileError, match="longer than"):
        split_front_matter("---\n" + "a: b\n" * 20_000 + "---\n")
    assert split_front_matter("---\n\ntext after a rule\n")[1].startswith("---")


def test_similarity_is_that_of_git() -> None:
    lines_of = [f"line number {number} of the text\n" for number in range(10)]
    assert similarity("".join(lines_of), "".join(reversed(lines_of))) == 1.0
    assert similarity("".join(lines_of), "".join(lines_of[:5]) + "x" * 135) == pytest.approx(0.5, abs=0.02)
    assert similarity("a\n", "b\n") == 0.0


def test_a_history_is_a_changelog_where_it_names_releases(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "founding.md").write_text("# Founding\n\nFounded in 1902.\n")
    (tmp_path / "HISTORY.md").write_text("# History\n\n## 1.2.0 (2024-01-02)\n\n- x\n\n## v1.1\n\n- y\n")
    (tmp_path / "NEWS.md").write_text("# News\n\nThe pier opens in 2.5 years.\n")
    (tmp_path / "changelog.md").write_text("x")
    tree = FolderTree(tmp_path, "docs", 1_000_000)
    assert [name for name in tree.names if is_changelog(tree, name)] == ["HISTORY.md", "changelog.md"]
