"""Pages that a reader may not see change nothing of what the keyword tier finds for him: no score, no stem, no
correction, no order, to the last bit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.keyword_corpus import page, searched, view_of
from support.synthetic import TENANT

from rag_serving.access.principals import Principal
from rag_serving.config.sections import Keyword
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.keyword.question import QuestionReader

# Few words, so that they meet: singulars, plurals, words a letter apart, words that stand in titles alone.
_WORDS = "note notes news new home homes quick link links workspace workspaces entry entries berth berths plan"
WORDS = _WORDS.split()
ASKED = [
    *WORDS,
    '"quick links"',
    '"new notes"',
    '"wrkspace"',
    "wrkspace",
    "hmoe",
    "notse",
    "entrie",
    "bert",
    "lnk",
    "what is",
    "explain",
    "open",
    "and",
    "the",
    "my",
]
STAFF = Principal(TENANT, "ann", frozenset({"staff"}))
READERS = ("everyone", "group:staff", "group:board", "nobody")
SEEN = frozenset(READERS[:2])

names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
chunks = st.tuples(st.one_of(st.just(""), names), texts, st.sampled_from(READERS))
pages = st.lists(st.tuples(names, st.lists(names, max_size=2), st.lists(chunks, min_size=1, max_size=3)), max_size=6)
questions = st.lists(st.sampled_from(ASKED), min_size=1, max_size=4).map(" ".join)


def rows_of(drawn: list[tuple[str, list[str], list[tuple[str, str, str]]]]) -> list[dict[str, Any]]:
    """Rows of pages whose chunks have readers of their own."""
    rows = []
    for number, (title, labels, parts) in enumerate(drawn):
        made = page(title, *((heading, text) for heading, text, _ in parts), labels=labels, page_id=f"p{number}")
        rows += [row | {"readers": readers} for row, (_, _, readers) in zip(made, parts, strict=True)]
    return rows


@given(pages, questions, st.sampled_from(["keyword_documents", "keyword_chunks"]))
def test_what_may_not_be_seen_changes_nothing(drawn: Any, question: str, mode: Mode) -> None:
    rows = rows_of(drawn)
    seen = [row for row in rows if row["readers"] in SEEN]
    with tempfile.TemporaryDirectory() as folder:
        found = [found_in(Path(folder) / name, those, question, mode) for name, those in (("a", rows), ("b", seen))]
    assert found[0] == found[1]


def found_in(folder: Path, rows: list[dict[str, Any]], question: str, mode: Mode) -> list[object]:
    """Everything that a search tells, scores to the bit."""
    view = view_of(folder, rows, STAFF)
    search = searched(view, question, mode, synonyms={"entry": "berth plan"})
    columns = {name: values.tobytes() for name, values in search.ranking.columns.items()}
    vocabulary = {word: view.keywords.has_word([word]) for word in WORDS}
    known = {word: view.keywords.is_term(word) for word in WORDS}
    corrected = {word: view.keywords.correction(word) for word in ("wrkspace", "hmoe", "notse", "plna")}
    counted = {word: view.keywords.frequency(word) for word in ("note", "home", "link", "entri", "plan")}
    return [
        view.chunk_ids(search.ranking.rows.tolist()),
        columns,
        search.decision,
        search.query.notes,
        dict(search.context.term_weights),
        QuestionReader(Keyword(), view.keywords).read(question).tokens,
        vocabulary, known, corrected, counted,
    ]  # fmt: skip


def test_the_test_can_fail(tmp_path: Path) -> None:
    """A hidden title would make its word a known term, and a hidden page would be found."""
    open_page = page("Berths", "A note about links")
    hidden = page("Notes", "notes", readers="group:board", page_id="secret")
    both = [*open_page, *hidden]
    for who, titles in ((STAFF, ["Berths"]), (Principal(TENANT, "bo", frozenset({"staff", "board"})), ["Notes"])):
        view = view_of(tmp_path / f"{len(titles[0])}", both, who)
        search = searched(view, "notes")
        assert [chunk.title for chunk in search.context.passages.read(search.ranking.rows)] == titles
        assert view.keywords.is_term("notes") == (titles == ["Notes"])
