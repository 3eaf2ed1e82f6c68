"""Quoted phrases and the page that a question or its conversation names, in a search by keywords."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.keyword_corpus import Absent, page, view_of
from support.synthetic import TENANT

from rag_serving.access.principals import Principal
from rag_serving.config.sections import Keyword, Retrieval
from rag_serving.indexes.view import ReaderView
from rag_serving.records.queries import Filters
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stages import SearchOptions
from rag_serving.retrieval.why import QueryWords, Reason, line_of, reasons_of

FILLER = "Cranes and berths and ropes and more of the harbour day by day"
ROWS = [
    *page("Rope Log", "The rope log is kept by the mate on duty", f"{FILLER} with the word late fees nowhere"),
    *page("Harbour Fees", "Fees that are late grow by a tenth", "Fees are due on the first of a month"),
    *page("Crane Rules", f"{FILLER} and late fees are waived for cranes"),
    *page("Secret Fees", "Here the late fees are waived too", readers="group:staff"),
    *page("Night Shift", "The shift begins at ten and the gate closes at eleven"),
    *page("Day Shift", "The shift begins at six and the gate closes at seven"),
]
MODES: tuple[Mode, ...] = ("keyword_documents", "keyword_chunks")


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> ReaderView:
    return view_of(tmp_path_factory.mktemp("quoted"), ROWS)


def searched(
    view: ReaderView, question: str, mode: Mode, named: str | None = None, filters: Filters | None = None
) -> Search:
    options = SearchOptions(Retrieval(), mode, keyword=Keyword(), page=named, filters=filters)
    return search_candidates(view, Absent(), question, options)  # type: ignore[arg-type]


def titles(search: Search) -> list[str]:
    return [chunk.title for chunk in search.context.passages.read(search.ranking.rows)]


@pytest.mark.parametrize("mode", MODES)
def test_what_holds_the_quoted_words_comes_before_what_scores_higher(view: ReaderView, mode: Mode) -> None:
    assert titles(searched(view, "late fees", mode))[0] == "Harbour Fees"
    found = searched(view, '"late fees are waived"', mode)
    assert titles(found)[0] == "Crane Rules"
    assert len(set(titles(found))) > 1, "others come after it"
    assert "passages with the words “late fees are waived” before others" in found.query.notes


@pytest.mark.parametrize("mode", MODES)
def test_one_page_alone_with_the_quoted_words_is_the_one_that_is_meant(view: ReaderView, mode: Mode) -> None:
    assert (decision := searched(view, "“fees are waived”", mode).decision)
    assert (decision.action, [each.label for each in decision.contenders]) == ("answer", ["Crane Rules"])


@pytest.mark.parametrize("mode", MODES)
def test_words_that_no_page_holds_in_this_order_change_nothing_but_the_note(view: ReaderView, mode: Mode) -> None:
    quoted, plain = searched(view, '"fees late"', mode), searched(view, "fees late", mode)
    assert quoted.ranking.rows.tolist() == plain.ranking.rows.tolist()
    assert quoted.ranking.score.tolist() == plain.ranking.score.tolist()
    assert quoted.decision == plain.decision
    assert "no passage holds the words “fees late”" in quoted.query.notes


@pytest.mark.parametrize("mode", MODES)
def test_quoted_words_are_meant_as_they_are_written(view: ReaderView, mode: Mode) -> None:
    assert searched(view, "harbour feees", mode).query.corrections == {"feees": "fees"}
    assert not searched(view, 'harbour "feees"', mode).query.corrections


@pytest.mark.parametrize("mode", MODES)
def test_a_hidden_page_with_the_quoted_words_is_not_counted(view: ReaderView, mode: Mode, tmp_path: Path) -> None:
    staff = view_of(tmp_path, ROWS, Principal(TENANT, "ann", frozenset({"staff"})))
    question = '"fees are waived"'
    assert (of_staff := searched(staff, question, mode).decision)
    assert {each.label for each in of_staff.contenders} == {"Secret Fees", "Crane Rules"}
    assert "Secret Fees" not in titles(searched(view, question, mode))


@pytest.mark.parametrize("mode", MODES)
def test_a_quoted_phrase_stays_within_the_filters(view: ReaderView, mode: Mode) -> None:
    found = searched(view, '"fees are waived"', mode, filters=Filters(title=("harbour",)))
    assert set(titles(found)) == {"Harbour Fees"}


@pytest.mark.parametrize("mode", MODES)
def test_the_page_of_the_conversation_is_meant_where_several_are_about_equal(view: ReaderView, mode: Mode) -> None:
    asked = "when is the shift"
    assert (plain := searched(view, asked, mode).decision)
    assert plain.action == "ambiguous"
    for named in ("Day Shift", "Night Shift"):
        found = searched(view, asked, mode, named)
        assert found.decision
        assert (found.decision.action, found.decision.contenders[0].label) == ("answer", named)
        assert titles(found)[0] == named
        assert f"the page “{named}” before others" in found.query.notes


@pytest.mark.parametrize("mode", MODES)
def test_a_preferred_page_without_a_word_of_the_question_changes_nothing(view: ReaderView, mode: Mode) -> None:
    named, plain = searched(view, "late fees", mode, "Rope Log Archive"), searched(view, "late fees", mode)
    assert named.decision == plain.decision
    assert titles(named) == titles(plain)


@pytest.mark.parametrize("mode", MODES)
def test_the_reasons_name_the_rank(view: ReaderView, mode: Mode) -> None:
    search = searched(view, "harbour fees", mode)
    first = next(iter(search.context.passages.candidates(search.ranking)))
    reasons = reasons_of(first, QueryWords.of(search.query, search.context.term_weights), {}, 0)
    assert Reason("keyword_rank", rank=1) in reasons
    assert "keyword rank 1" in line_of(reasons)


def test_a_long_phrase_of_common_words_is_bounded(tmp_path: Path) -> None:
    rows = [row for number in range(1500) for row in page(f"Page {number}", "the gate of the harbour is open")]
    view = view_of(tmp_path, rows)
    found = searched(view, '"gate of the harbour is open"', "keyword_chunks")
    assert found.context.holders is not None
    assert int(found.context.holders.sum()) == 1000
