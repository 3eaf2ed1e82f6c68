"""Stages between retrieval and verification: filters, hygiene, the lock, rendering."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.passages import candidate_of, chunk_of, lock_of

from rag_serving.answering.citations import MAX_QUOTE_WORDS, answer_text, citations_of, plain, shown_quote
from rag_serving.answering.lock import freeze, has_anchor
from rag_serving.answering.markdown import markdown
from rag_serving.indexes.page_contents import matching_rows
from rag_serving.query.filters import FilterError, parse_filters
from rag_serving.records.answers import Answer
from rag_serving.records.claims import Claim, Verdict
from rag_serving.records.queries import Filters

# Filters


def test_filters_are_read_from_json() -> None:
    assert parse_filters({"space": "ENG", "labels": ["a", "b"], "title": "Broker guide"}) == Filters(
        ("ENG",), ("a", "b"), ("Broker", "guide")
    )
    assert parse_filters(None) is None
    assert parse_filters({"space": []}) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [({"spaces": ["X"]}, "unknown filter 'spaces'; known are space, labels, title"), ({"space": 3}, "must be a text")],
)
def test_a_filter_that_cannot_be_used_is_named(content: dict[str, object], message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filters(content)


def test_rows_match_every_filter() -> None:
    table = pa.table(
        {
            "space": ["A", "B", "A", "A"],
            "title": ["Broker Guide", "Broker guide", "Guide", "broker guide"],
            "labels": pa.array([["x", "y"], ["x"], [], None], pa.list_(pa.string())),
        }
    )

    def rows(**filters: tuple[str, ...]) -> list[bool]:
        return matching_rows(table, Filters(**filters)).tolist()

    assert rows(space=("A",)) == [True, False, True, True]
    assert rows(space=("A", "B"), title=("BROKER",)) == [True, True, False, True]
    assert rows(labels=("x",)) == [True, True, False, False]
    assert rows(labels=("x", "y")) == [True, False, False, False]
    assert rows(labels=("z",)) == [False] * 4
    assert rows(category=("A",)) == [False] * 4  # places of dropped chunks have no such column
    table = table.append_column("category", pa.array(["a", "b", None, "a"]))
    assert rows(category=("a",), space=("A",)) == [True, False, False, True]


# Lock


def test_the_lock_holds_each_chunk_once_and_no_link_without_anchor() -> None:
    first, again = candidate_of("a", "1:1:0"), candidate_of("a", "1:1:0")
    bare = candidate_of("b", "2:1:0", url="https://wiki.example/2")
    empty = candidate_of("c", "3:1:0", url="https://wiki.example/3#")
    last, late = candidate_of("d", "4:1:0"), candidate_of("e", "5:1:0")
    assert freeze([first, again, bare, empty, last, late], 2).chunk_ids == ("1:1:0", "4:1:0")
    assert not has_anchor("https://wiki.example/3#")


# Rendering


LONG = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen."


def test_a_long_quote_is_cut_after_fifteen_words() -> None:
    start, end = shown_quote(chunk_of(LONG), 0, len(LONG))
    assert LONG[start:end].split()[-1] == "fifteen"
    assert len(LONG[start:end].split()) == MAX_QUOTE_WORDS


def test_a_short_quote_grows_to_ten_words_within_its_sentence() -> None:
    text = "Before it. " + LONG
    start, end = shown_quote(chunk_of(text), text.index("three"), text.index("four") - 1)
    assert text[start:end] == "three four five six seven eight nine ten eleven twelve"
    start, end = shown_quote(chunk_of(text), text.index("sixteen"), text.index("seventeen") - 1)
    assert text[start:end] == "eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen."


def test_a_short_sentence_is_shown_whole() -> None:
    text = "Stop. Wait five minutes. Start."
    start, end = shown_quote(chunk_of(text), text.index("five"), text.index("five") + 4)
    assert text[start:end] == "Wait five minutes."


def verdict_of(text: str, claim: str = "", index: int = 1) -> Verdict:
    return Verdict(Claim(claim or text, index, text), "exact", "verbatim", index, 0, len(text))


def test_a_citation_names_heading_path_version_and_both_links() -> None:
    text = "Stop the broker."
    (citation,) = citations_of([verdict_of(text)], lock_of([text]))
    assert citation.title == "Broker guide → Restart"
    assert citation.fragment_url == "https://wiki.example/pages/1#Restart:~:text=Stop%20the%20broker."
    assert (citation.space, citation.page_version, citation.verification) == ("ENG", 1, "exact")
    assert citation.payload()["heading_path"] == ["Broker guide", "Restart"]


def test_dropped_claims_are_neither_told_nor_cited() -> None:
    text = "Stop the broker."
    verdicts = [verdict_of(text), Verdict(Claim("Invented.", 1, "x"), "dropped", "no")]
    assert answer_text(verdicts, lock_of([text])) == "Stop the broker. [1]"
    assert len(citations_of(verdicts, lock_of([text]))) == 1


@pytest.mark.parametrize(
    ("claim", "shown"),
    [
        ("Read [the guide](https://evil.example/x) first.", "Read the guide first."),
        ("See https://evil.example/y now.", "See now."),
        ("Get it at https://good.example/z now.", "Get it at https://good.example/z now."),
        ("Stop it [9] first [12].", "Stop it first."),
        ("Use args[0] here.", "Use args[0] here."),
    ],
)
def test_links_and_markers_a_model_makes_up_are_removed(claim: str, shown: str) -> None:
    text = "Get it at https://good.example/z now."
    assert answer_text([verdict_of(text, claim)], lock_of([text])) == f"{shown} [1]"


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("Use **bold** and `code_name` of [x](http://y/z)", "Use bold and code_name of x"),
        ("snake_case stays and 2 * 3 too", "snake_case stays and 2 * 3 too"),
        ("max.poll.records | 500", "max.poll.records"),
    ],
)
def test_a_fragment_is_made_of_what_the_page_shows(marked: str, shown: str) -> None:
    assert plain(marked) == shown


def test_markdown_lists_the_sources() -> None:
    text = "Stop the broker."
    answer = Answer("answered", "Stop the broker. [1]", citations_of([verdict_of(text)], lock_of([text])))
    assert (
        markdown(answer).splitlines()[2].startswith("- [1] [Broker guide → Restart](https://wiki.example/pages/1#Res")
    )
