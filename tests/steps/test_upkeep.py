"""What nobody looks after: dead links, overdue reviews, pages without an owner, copies that drift apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from rag_assets.build.linting import folder_corpus
from rag_assets.progress import Reporter
from rag_assets.steps.contradictions.examination import ExaminedPages, dead_links, examined
from rag_assets.steps.contradictions.findings import LintFinding

TODAY = date(2026, 3, 10)
COPY = " ".join(f"Step {number} moves the container from block {number} to the quay." for number in range(1, 9))


def corpus_of(folder: Path) -> ExaminedPages:
    return folder_corpus(folder, folder / ".home", Reporter())


def of_kind(kind: str, folder: Path, pages: Mapping[str, str], today: date = TODAY) -> list[LintFinding]:
    """What is wrong in a folder of pages."""
    for name, text in pages.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return [finding for finding in examined(corpus_of(folder), today).findings if finding.kind == kind]


def about(findings: Iterable[LintFinding]) -> list[str]:
    return sorted(finding.about for finding in findings)


def test_links_to_missing_pages_and_anchors_are_listed_and_others_are_not(tmp_path: Path) -> None:
    found = of_kind(
        "dead_link",
        tmp_path,
        {
            "a.md": "# A\n\nSee [one](b.md#setup), [two](b.md#gone), [three](missing.md), [four](picture.png),"
            " [five](https://example.org/missing.md), [six](/missing.md), [seven](../other/missing.md), [eight](#a),"
            " [nine](notes.txt).",
            "b.md": "# B\n\n## Setup\n\nWords.",
            "notes.txt": "Words of a file.",
        },
    )
    assert len(found) == 2
    assert about(found)[1] == "missing.md"
    assert about(found)[0].endswith("#gone")
    assert {quote.file for finding in found for quote in finding.quotes} == {"a.md"}


def test_links_out_of_a_part_of_a_wiki_are_not_judged_and_those_of_a_folder_are(tmp_path: Path) -> None:
    links = " ".join(f"[{number}](p{number}.md)" for number in range(12))
    assert len(of_kind("dead_link", tmp_path, {"all.md": f"# All\n\n{links}"})) == 12
    corpus = corpus_of(tmp_path)
    assert list(dead_links(corpus.sections, corpus.pages)) == []
    (tmp_path / "all.md").write_text("# All\n\n[0](p0.md)", encoding="utf-8")
    corpus = corpus_of(tmp_path)
    assert about(dead_links(corpus.sections, corpus.pages)) == ["p0.md"]


def test_reviews_are_overdue_by_front_matter_or_a_line_and_not_before_their_day(tmp_path: Path) -> None:
    pages = {
        "front.md": "---\nreview_by: 2026-03-09\n---\n# Front\n\nWords.",
        "line.md": "# Line\n\nReview by: 1 February 2026\n\nWords.",
        "row.md": "# Row\n\n| Owner | Ann |\n| --- | --- |\n| Next review | 2026-02 |\n\nWords.",
        "later.md": "# Later\n\nReview by: 2026-03-10\n\nWords.",
        "done.md": "# Done\n\nLast reviewed: 2020-01-01\n\nWords.",
        "unsaid.md": "# Unsaid\n\nReview by: whoever has time\n\nWords.",
    }
    assert about(of_kind("overdue_review", tmp_path, pages)) == ["2026-02", "2026-02-01", "2026-03-09"]
    assert "2026-03-10" in about(of_kind("overdue_review", tmp_path, pages, date(2026, 3, 11)))


def test_a_page_without_an_owner_is_listed_where_others_have_one_or_where_it_says_so(tmp_path: Path) -> None:
    pages = {f"p{number}.md": f"# Page {number}\n\nOwner: Ann Berg\n\nWords." for number in range(3)}
    pages["open.md"] = "# Open\n\nOwner: TBD\n\nWords."
    assert about(of_kind("no_owner", tmp_path, pages)) == ["Open"]
    pages["silent.md"] = "# Silent\n\nWords."
    assert about(of_kind("no_owner", tmp_path, pages)) == ["Open", "Silent"]


def test_nobody_misses_owners_where_pages_name_none(tmp_path: Path) -> None:
    assert of_kind("no_owner", tmp_path, {"a.md": "# A\n\nWords.", "b.md": "# B\n\nWords."}) == []


def test_copies_that_drift_apart_are_listed_and_copies_and_templates_are_not(tmp_path: Path) -> None:
    pages = {"a.md": f"# A\n\n{COPY}", "b.md": f"# B\n\n{COPY}", "c.md": "# C\n\nOther words of another page."}
    assert of_kind("drifting_copy", tmp_path, pages) == []
    pages["b.md"] = f"# B\n\n{COPY.replace('Step 8 moves', 'Step 8 carries')}"
    (found,) = of_kind("drifting_copy", tmp_path, pages)
    assert {quote.title for quote in found.quotes} == {"A", "B"}
    for number in range(4):
        pages[f"t{number}.md"] = f"# T{number}\n\n{COPY.replace('Step 2', f'Stage {number}')}"
    assert of_kind("drifting_copy", tmp_path, pages) == []
