"""Links that scroll to the quoted words."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.passages import candidate_of
from support.wiki import Passage, configuration, publish

from rag_serving.answering.citations import citations_of, fragment_url, is_repeated, pinpointed
from rag_serving.answering.markdown import markdown
from rag_serving.answering.verification import verify
from rag_serving.artifacts.store import Store
from rag_serving.indexes.generation import Generation
from rag_serving.records.answers import Answer
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.passages import Lock

PAGE = "https://wiki.example/x#Restart"
STEP = "Wait until all replicas are in sync again, then go on."
TEXT = f"First stop broker one. {STEP} Now stop broker two. {STEP} Tell the team."


@pytest.mark.parametrize(
    ("quote", "directive"),
    [
        ("a, b & c-d", "a%2C%20b%20%26%20c%2Dd"),
        ("**bold** and [a link](https://a.b/c)", "bold%20and%20a%20link"),
        ("ends here.\n\n- An item", "ends%20here.,An%20item"),
        ("- One item\n- two items\n- three", "One%20item,three"),
        ("wrapped\nline", "wrapped%20line"),
    ],
)
def test_the_directive_names_what_the_page_shows(quote: str, directive: str) -> None:
    assert fragment_url(PAGE, quote) == f"{PAGE}:~:text={directive}"


def test_words_around_tell_a_quote_from_the_same_words_elsewhere() -> None:
    assert fragment_url(PAGE, "b", "x, a", "c-d") == f"{PAGE}:~:text=x%2C%20a-,b,-c%2Dd"
    assert fragment_url(PAGE, "b", "x\n\n- a") == f"{PAGE}:~:text=a-,b"
    assert fragment_url(PAGE, "b", "", "c\n\nd") == f"{PAGE}:~:text=b,-c"


@given(st.text(max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_only_the_directive_has_its_signs(quote: str, before: str, after: str) -> None:
    link = fragment_url(PAGE, quote, before, after)
    if link == PAGE:
        return
    start, _, directive = link.partition(":~:text=")
    terms = directive.split(",")
    assert start == PAGE
    assert 1 <= len(terms) <= 4
    assert all("-" not in term[1:-1] and "&" not in term for term in terms)
    assert "\n" not in unquote(directive)


def test_a_repeated_quote_is_seen_whatever_its_case_and_marks() -> None:
    assert is_repeated("go on", "Go **on**.\n- and go\n  on")
    assert not is_repeated("go on", "Go on, or go one step back") or is_repeated("go on", "go on, go one")
    assert not is_repeated("go on", "Go on.")


def test_only_a_quote_that_stands_twice_on_its_page_is_told_by_its_neighbours() -> None:
    lock = Lock((candidate_of(TEXT),))
    claims = Claim(STEP, 1, STEP), Claim("Tell the team.", 1, "two. " + STEP)
    answer = Answer("answered", "…", citations_of(verify(Draft(claims, "test"), lock), lock))
    twice, once = pinpointed(answer, lock, lambda _: TEXT).citations
    assert twice.fragment_url.split(":~:text=")[1].startswith("First%20stop%20broker%20one.-,Wait%20until")
    assert twice.fragment_url.endswith(",-Now%20stop%20broker%20two.")
    assert once.fragment_url == answer.citations[1].fragment_url


def test_words_that_the_caller_may_not_read_make_no_quote_ambiguous(tmp_path: Path) -> None:
    open_, closed = Passage("1", "Restart", STEP), Passage("1", "Restart", STEP, readers="group:hr", version=2)
    publish(tmp_path, (open_, closed))
    generation = Generation.open(
        Store(tmp_path), "acme", Store(tmp_path).current("acme") or "", configuration(tmp_path)
    )
    assert generation.page_text("1", frozenset({"everyone"})) == STEP
    assert generation.page_text("1", frozenset({"everyone", "group:hr"})) == f"{STEP}\n{STEP}"
    generation.close()


def test_what_a_page_says_is_no_markdown_in_the_sources() -> None:
    lock = Lock(
        (
            candidate_of(
                "The `script` <img src=x> [runs](https://a.b) *always* at noon.",
                heading_path=("A [b](c)", "<script>"),
                url="https://wiki.example/Foo_(bar)#x",
            ),
        )
    )
    claim = Claim("It runs at noon.", 1, "*always* at noon.")
    shown = markdown(Answer("answered", "…", citations_of(verify(Draft((claim,), "test"), lock), lock)))
    assert "<img" not in shown.replace("\\<", "")
    assert "<script" not in shown.replace("\\<", "")
    assert "](https://a.b)" not in shown
    assert "(https://wiki.example/Foo_%28bar%29#x:~:text=" in shown
