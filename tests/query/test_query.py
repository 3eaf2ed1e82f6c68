from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.query.parsing import read_query
from rag_serving.query.spelling import Names
from rag_serving.records.queries import Filters
from rag_serving.text.analyzer import analyze

TITLES = {"deploy guide": "Deploy guide", "runbook": "Runbook", "runbook of the harbour": "Runbook of the Harbour"}
NAMES = Names({"ops": "OPS", "eng": "ENG"}, {"howto": "howto"}, TITLES)


class Corpus:
    """Passages with a few terms; what is misspelt is said beforehand."""

    names = NAMES

    def __init__(self, *terms: str, **corrections: str) -> None:
        self._terms, self._corrections = terms, corrections

    def frequency(self, term: str) -> int:
        return self._terms.count(term)

    def correction(self, word: str) -> str | None:
        return self._corrections.get(word)


@pytest.mark.parametrize(
    ("text", "filters", "left"),
    [
        ("space:ENG rollback", Filters(space=("ENG",)), "rollback"),
        ("rollback SPACE:eng, label:howto?", Filters(space=("ENG",), labels=("howto",)), "rollback , ?"),
        ('title:"Deploy guide" rollback', Filters(title=("Deploy", "guide")), "rollback"),
        ("label:“two words” rollback", Filters(labels=("two words",)), "rollback"),
        ("space:OPS space:ENG pilots", Filters(space=("OPS", "ENG")), "pilots"),
        ("space:SECRET", Filters(space=("SECRET",)), "SECRET"),
    ],
)
def test_operators_are_filters_and_leave_the_text(text: str, filters: Filters, left: str) -> None:
    query = read_query(text, Corpus())
    assert (query.filters, query.text, query.original) == (filters, left, text)
    assert all(note.startswith("only pages") for note in query.notes)


@pytest.mark.parametrize(
    "text", ["what does `label:foo` do", "title: a title", "https://x.example/space:1", "namespace:kube", "space: OPS"]
)
def test_what_only_looks_like_an_operator_is_none(text: str) -> None:
    assert read_query(text, Corpus()).filters == Filters()


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ('what is "consumer  lag"?', ("consumer lag",)),
        ("“exit code 137” and “exit code 137”", ("exit code 137",)),
        ('disks of 5" and 7" inches', ()),
        ('an "open quote', ()),
        ('""', ()),
    ],
)
def test_quoted_words_are_phrases_and_stay_in_the_text(text: str, phrases: tuple[str, ...]) -> None:
    query = read_query(text)
    assert query.phrases == phrases
    assert query.terms == read_query(text.replace('"', " ").replace("“", " ").replace("”", " ")).terms


@pytest.mark.parametrize(
    ("text", "space", "labels", "left"),
    [
        ("who is on call in space OPS?", ("OPS",), (), "who is on call?"),
        ("who is on call in the ops space", ("OPS",), (), "who is on call"),
        ("pages labelled howto about pilots", (), ("howto",), "pages about pilots"),
        ("how much is left in space HR", (), (), "how much is left in space HR"),
        ("pages labelled secret", (), (), "pages labelled secret"),
    ],
)
def test_words_name_a_space_or_label_only_where_there_is_one(
    text: str, space: tuple[str, ...], labels: tuple[str, ...], left: str
) -> None:
    query = read_query(text, Corpus())
    assert (query.scope, query.text, query.filters) == (Filters(space=space, labels=labels), left, Filters())


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("what is first in the runbook?", "Runbook"),
        ("what is first in the Runbook  of the harbour", "Runbook of the Harbour"),
        ("according to the deploy guide, who signs", "Deploy guide"),
        ("the runbook says what", None),
        ("what is in the handbook", None),
    ],
)
def test_words_name_a_page_only_where_there_is_one_and_stay_in_the_text(text: str, page: str | None) -> None:
    query = read_query(text, Corpus())
    assert (query.page, query.text) == (page, text)


def test_an_identifier_of_the_corpus_outweighs_its_parts_together() -> None:
    query = read_query("What does max.poll.records mean", Corpus("max.poll.records", "max", "poll", "record"))
    parts = sum(query.terms[part] for part in ("max", "poll", "record"))
    assert query.terms["max.poll.records"] > parts
    assert query.identifiers == ("max.poll.records",)


def test_an_identifier_that_stands_nowhere_is_words() -> None:
    query = read_query("max.poll.interval", Corpus("max", "poll"))
    assert query.identifiers == ()
    assert set(query.terms.values()) == {1.0}


def test_a_correction_is_noted_and_weighs_a_little_less() -> None:
    query = read_query("How long is retension?", Corpus("long", retension="retention"))
    assert query.text == "How long is retention?"
    assert query.terms == {"long": 1.0, "retent": 0.8}
    assert query.notes == ("read 'retension' as 'retention'",)


@pytest.mark.parametrize(
    "text",
    ['"retension"', "log.retension", "retension-time", "a/retension", "retension2", "RETENSION", "$retension"],
)
def test_quoted_words_and_parts_of_names_are_meant_as_they_are(text: str) -> None:
    assert read_query(text, Corpus(retension="retention")).corrections == {}


def test_without_spelling_nothing_is_corrected() -> None:
    assert read_query("retension", Corpus(retension="retention"), spelling=False).corrections == {}


ANY = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [
                "space:",
                "label:howto",
                "title:",
                '"',
                "“",
                "”",
                "`",
                "in the ",
                "in space ",
                "OPS",
                "runbook",
                " ",
                ":",
                "a",
            ]
        ),
        max_size=12,
    ).map("".join),
)
VALUE = st.from_regex(r"[A-Za-z0-9_~-]{1,12}", fullmatch=True)


@given(ANY)
def test_any_text_is_a_query(text: str) -> None:
    query = read_query(text, Corpus(*analyze(text), retension="retention"))
    assert query.original == text
    assert all(weight > 0 for weight in query.terms.values())
    assert bool(query.notes) is bool(
        query.filters or query.scope or query.page or query.phrases or query.identifiers or query.corrections
    )


@given(st.lists(st.sampled_from(["retension", "lag", "in the", "Runbook", "max.poll", "Retension,", "?"]), max_size=8))
def test_what_was_read_is_read_the_same_again(words: list[str]) -> None:
    corpus = Corpus("lag", "retent", "max.poll", retension="retention")
    once = read_query(" ".join(words), corpus)
    again = read_query(once.text, corpus)
    assert (again.text, again.page, again.identifiers) == (once.text, once.page, once.identifiers)
    assert not again.corrections


@given(st.lists(VALUE, max_size=3), st.lists(VALUE, max_size=3), st.lists(VALUE, max_size=3))
def test_filters_that_are_written_are_read_back(space: list[str], labels: list[str], title: list[str]) -> None:
    filters = Filters(tuple(space), tuple(labels), tuple(title))
    written = " ".join(
        [f"space:{one}" for one in space] + [f"label:{one}" for one in labels] + [f'title:"{one}"' for one in title]
    )
    assert read_query(f"{written} words").filters == filters
