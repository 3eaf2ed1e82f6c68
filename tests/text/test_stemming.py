"""Stems of other languages stand beside the terms that every text has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.text.analyzer import analyze
from rag_serving.text.stemming import ALGORITHMS, analyzer_of, terms_in

PAIRS = [
    ("de", "Wie lange gelten Urlaubsanträge?", "Urlaubsantrag"),
    ("de", "Die Häuser stehen leer.", "Haus"),
    ("fr", "Les demandes sont traitées chaque jour.", "traiter"),
    ("es", "Las solicitudes fueron aprobadas.", "solicitud"),
    ("it", "Le richieste vengono approvate.", "richiesta"),
    ("nl", "De aanvragen worden goedgekeurd.", "aanvraag aanvragen"),
    ("ru", "Заявления принимаются по средам.", "заявление"),
    ("pt", "As solicitações são aprovadas.", "solicitação"),
    ("sv", "Ansökningarna godkänns.", "ansökning"),
]


@pytest.mark.parametrize(("language", "passage", "asked"), PAIRS)
def test_an_inflected_word_is_found_by_another_form_of_it(language: str, passage: str, asked: str) -> None:
    indexed = set(terms_in(passage, language))
    assert indexed.intersection(analyzer_of((language,))(asked))


@pytest.mark.parametrize("language", [None, "en", "zh", "xx"])
def test_a_language_without_stems_of_its_own_changes_nothing(language: str | None) -> None:
    text = "Urlaubsanträge: max.poll.records, v1.2.3 und 数据库连接"
    assert terms_in(text, language) == analyze(text)


@given(st.text(max_size=200), st.sampled_from(sorted(ALGORITHMS)))
def test_no_term_is_lost_by_a_language(text: str, language: str) -> None:
    found, own = terms_in(text, language), analyze(text)
    kept = iter(found)
    assert all(term in kept for term in own)  # in their order
    assert found == terms_in(text, language)


def test_names_and_numbers_have_no_stems_beside_them() -> None:
    assert terms_in("ERR-4012 1.2.3 2024", "de").count("4012") <= 1
    assert {"err-4012", "1.2.3", "2024"} <= set(terms_in("ERR-4012 1.2.3 2024", "de"))
