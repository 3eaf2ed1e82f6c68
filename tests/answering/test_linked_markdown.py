"""The markers of an answer become links, and only they do."""

from __future__ import annotations

from rag_serving.answering.markdown import linked_markdown
from rag_serving.records.answers import Answer, Citation


def citation(index: int, url: str = "https://wiki.example/p#a") -> Citation:
    return Citation(index, f"{index}:1:0", "Title", ("Title",), url, url, "words", "ENG", 1, "exact", 0, 5)


def test_each_marker_behind_a_claim_is_a_link_to_its_passage() -> None:
    answer = Answer("answered", "One. [1]\n\nTwo. [2][1]", (citation(1), citation(2, "https://wiki.example/q")))
    linked = linked_markdown(answer)
    first, second = "[[1]](https://wiki.example/p#a)", "[[2]](https://wiki.example/q)"
    assert linked.text.startswith(f"One. {first}\n\nTwo. {second}{first}\n\n- [1] [Title](https://wiki.example/p#a)")
    shown = [linked.text[marker.start : marker.end] for marker in linked.markers]
    assert shown == [first, second, first]
    assert [marker.citation.index for marker in linked.markers] == [1, 2, 1]


def test_what_looks_like_a_marker_in_a_page_stays_text() -> None:
    code = "```\nx = rows[1]\n```\n[1]"
    linked = linked_markdown(Answer("answered", code, (citation(1),)))
    assert linked.text.startswith("```\nx = rows[1]\n```\n[[1]](https://")
    assert len(linked.markers) == 1


def test_an_address_that_would_run_code_leads_nowhere() -> None:
    linked = linked_markdown(Answer("answered", "One. [1]", (citation(1, "javascript:alert(1)"),)))
    assert "javascript" not in linked.text
    assert linked_markdown(Answer("answered", "One. [1]", (citation(1, ""),))).text.startswith("One. [1]\n")


def test_a_refusal_has_neither_markers_nor_sources() -> None:
    linked = linked_markdown(Answer("not_found", "Not found in docs. [1]"))
    assert (linked.text, linked.markers) == ("Not found in docs. [1]", ())
