"""Pages of sites that take too much are read within limits: each is a failure of its own, and nothing else stops."""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.site_docs import Docs
from support.examples import examples

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import SourceError
from rag_assets.sources.documents.document_pages import DocumentReading
from rag_assets.sources.sites.page_sync import (
    SitePageReader,
    body_to_json,
    plan_of_json,
    plan_to_json,
)
from rag_assets.sources.sites.site import FolderTree, open_site
from rag_serving.config.sections import Documents
from rag_serving.isolation.child import Limits

FILLER = "\n\n".join(f"Paragraph {number} tells of the {number}th machine." for number in range(4000))


@pytest.fixture
def docs(tmp_path: Path) -> Docs:
    return Docs(tmp_path)


SITES: dict[str, dict[str, str]] = {
    "mdbook": {
        "src/SUMMARY.md": "[A](a.md)\n\n- [B](b.md)\n",
        "src/a.md": f"# A\n\n[b](b.md#x)\n\n{{{{#include part.md}}}}\n\n{{{{#include absent.md}}}}\n\n{FILLER}",
        "src/b.md": "# B\n",
        "src/part.md": "Included **text**.",
    },
    "mkdocs": {
        "mkdocs.yml": "theme: {language: de}\nmarkdown_extensions: [pymdownx.snippets]\n",
        "docs/a.md": f'---\ntags: [x]\ndate: 2024-05-01\n---\n# A\n\n[b](b.md#x)\n\n--8<-- "part.md"\n\n{FILLER}',
        "docs/b.md": "# B\n",
        "part.md": "Included **text**.",
    },
    "docusaurus": {
        "docusaurus.config.js": "module.exports = {i18n: {defaultLocale: 'de'}}",
        "docs/a.mdx": f"import Part from './_part.mdx'\n\n# A\n\n[b](b.md#x)\n\n<Part />\n\n<Chart />\n\n{FILLER}",
        "docs/_part.mdx": "Included **text**.",
        "docs/b.md": "# B\n",
    },
    "github": {"a.md": f"# A\n\n[b](b.md#x) Included <b>text</b>.\n\n{FILLER}", "b.md": "# B\n"},
    "sphinx": {
        "conf.py": "language = 'de'\n",
        "index.rst": f"A\n=\n\n:doc:`b` :ref:`lab` :ref:`absent`\n\n.. include:: part.inc\n\n{FILLER[:40_000]}",
        "b.rst": "B\n=\n\n.. _lab:\n\nC\n-\n\nText.\n",
        "part.inc": "Included **text**.\n\n.. include:: deeper.inc\n",
        "deeper.inc": "Deeper.\n",
    },
    "html": {
        "a.html": f"<html><body><main><h1 id='a'>A</h1><a href='b.html#x'>b</a> Included <b>text</b>.{FILLER}</main>",
        "b.html": "<html><body><main><h1>B</h1></main>",
    },
}


@pytest.fixture(scope="module")
def pages() -> Iterator[SitePageReader]:
    with SitePageReader(Limits(60, 1024)) as pages:
        yield pages


@pytest.mark.parametrize("name", SITES)
def test_a_page_reads_the_same_in_a_process_of_its_own(name: str, docs: Docs, pages: SitePageReader) -> None:
    for file, text in SITES[name].items():
        docs.write(file, text)
    site, tree = open_site(name), FolderTree(docs.path, "docs", 10**8)
    plan = site.plan(tree)
    assert plan.generator == name
    page = next(page for page in plan.pages if page.title == "A" or "a." in page.name or "index" in page.name)
    here = site.body(tree, plan, page)
    there = pages.body(site, tree, plan, page)
    assert there.html.count("Paragraph") > 300
    assert ("Included <strong>text" in there.html) or ("Included <b>text" in there.html)
    assert body_to_json(there) == body_to_json(here)


def test_a_plan_is_the_same_after_a_journey_as_json(docs: Docs) -> None:
    for file, text in SITES["sphinx"].items():
        docs.write(file, text)
    plan = open_site("sphinx").plan(FolderTree(docs.path, "docs", 10**8))
    again = plan_of_json(json.loads(json.dumps(plan_to_json(plan))))
    assert json.dumps(plan_to_json(again)) == json.dumps(plan_to_json(plan))
    assert again.by_name == plan.by_name


def test_a_page_that_takes_too_long_is_one_failure_and_the_others_arrive_in_order(docs: Docs) -> None:
    docs.write("conf.py", "")
    docs.write("index.rst", "Home\n====\n\n.. toctree::\n\n   a\n   slow\n   b\n")
    docs.write("a.rst", "A\n=\n\ntext a\n")
    docs.write("slow.rst", "Slow\n====\n\n" + "\n\n".join(f"Item {n} **bold** ``code``" for n in range(30_000)))
    docs.write("b.rst", "B\n=\n\ntext b\n")
    with LimitedReader(Documents(max_seconds=1)) as reader:
        docs.reading = DocumentReading(reader)
        result = docs.sync()
    assert [why.partition(": ")[2] for _, why in result.failures] == [
        "it exceeds 1 s of parsing (documents.max_seconds)"
    ]
    assert [docs.rows()[name]["position"] for name in ("index.rst", "a.rst", "b.rst")] == [0, 0, 1]


def test_a_page_that_failed_for_a_limit_is_tried_again_when_that_is_another_one(docs: Docs) -> None:
    docs.write("a.md", "*a* " * 250_000)
    with LimitedReader(Documents(max_memory_mb=64)) as reader:
        docs.reading = DocumentReading(reader)
        assert docs.sync().failed == 1
        assert "64 MB" in docs.reasons()["a.md"]
        assert docs.sync().failures == docs.last_failures
    docs.reading = DocumentReading()
    assert docs.sync().failed == 0


def test_what_a_small_page_includes_counts_as_its_size(
    docs: Docs, pages: SitePageReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs.write("mkdocs.yml", "markdown_extensions: [pymdownx.snippets]\n")
    docs.write("docs/a.md", '--8<-- "large.txt"\n')
    docs.write("large.txt", FILLER)
    asked: list[str] = []
    ask = pages._child.ask
    monkeypatch.setattr(pages._child, "ask", lambda request: asked.append(request.facts["page"]) or ask(request))
    site, tree = open_site("mkdocs"), FolderTree(docs.path, "docs", 10**8)
    plan = site.plan(tree)
    assert "3999th" in pages.body(site, tree, plan, plan.pages[0]).html
    assert set(asked) == {"docs/a.md"}


@settings(max_examples=examples(1), deadline=None)
@given(st.sampled_from(sorted(SITES)), st.randoms(use_true_random=False))
def test_broken_files_stop_no_sync_and_a_second_one_changes_nothing(name: str, chance: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        docs = Docs(Path(folder))
        for file, text in SITES[name].items():
            content = text[:2000].encode()
            docs.write(file, broken(content, chance) if chance.random() < 0.6 else content)
        with contextlib.suppress(SourceError):  # the settings of the site are the broken file
            docs.sync(site=name)
            assert docs.sync(site=name).changed == 0


def broken(content: bytes, chance: random.Random) -> bytes:
    """A file that is cut, has another bit, or repeats a piece of itself."""
    at, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    match chance.randrange(4):
        case 0:
            return content[:at]
        case 1:
            return (
                content[:at]
                + bytes(byte ^ 1 << chance.randrange(8) for byte in content[at : at + 3])
                + content[at + 3 :]
            )
        case 2:
            return content[:at] + content[at : min(end, at + 50)] * 100 + content[end:]
        case _:
            piece = chance.choice([b"\0", b"<", b"[", b"{", b"`", b"]]>", b"---\n", b"::", b"|", b"\xff", b"    "])
            return content[:at] + piece * chance.randrange(1, 300) + content[at:]
