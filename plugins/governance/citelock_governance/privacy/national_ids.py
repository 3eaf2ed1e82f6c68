"""National ids of persons in a text: their shapes by country, and their check digits. Ids whose shape and check digit
one number in ten has count only after a word that names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from rag_serving.privacy import Span

_BEFORE_CHARS = 32
_EDGES = r"(?<![\w.,:/#-]){}(?![\w]|[.,:/-]\d)"


@dataclass(frozen=True)
class _Kind:
    """A kind of id."""

    shape: str  # its pattern
    check: str | None  # the module of stdnum that validates it; None: the shape suffices
    words: str | None = None  # one of them must precede it; None: not required


_KINDS: Mapping[str, tuple[_Kind, ...]] = {
    "AT": (_Kind(r"\d{4} \d{6}", "at.vnr"), _Kind(r"\d{10}", "at.vnr", "svnr|sozialversicherung|sv-nummer|vsnr")),
    "AU": (_Kind(r"\d{3} ?\d{3} ?\d{3}", "au.tfn", "tfn|tax file"),),
    "BE": (_Kind(r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}|\d{11}", "be.nn"),),
    "BR": (_Kind(r"\d{3}\.\d{3}\.\d{3}-\d{2}", "br.cpf"), _Kind(r"\d{11}", "br.cpf", "cpf")),
    "CA": (_Kind(r"\d{3}([ -]?)\d{3}\1\d{3}", "ca.sin", r"\bsin\b|\bnas\b|social insurance|assurance sociale"),),
    "CH": (_Kind(r"756\.\d{4}\.\d{4}\.\d{2}|756\d{10}", "ch.ssn"),),
    "DE": (
        _Kind(r"\d{2} \d{3} \d{3} \d{3}", "de.idnr"),
        _Kind(r"\d{11}", "de.idnr", "steuer|idnr|identifikationsnummer|tax id|tin"),
    ),
    "DK": (_Kind(r"\d{6}-\d{4}", "dk.cpr"), _Kind(r"\d{10}", "dk.cpr", "cpr|personnummer")),
    "ES": (_Kind(r"\d{8}-?[A-Za-z]", "es.dni"), _Kind(r"[XYZxyz]-?\d{7}-?[A-Za-z]", "es.nie")),
    "FI": (_Kind(r"\d{6}[-+A-FU-Ya-fu-y]\d{3}[0-9A-Ya-y]", "fi.hetu"),),
    "FR": (_Kind(r"[12] ?\d{2} ?\d{2} ?\d[\dABab] ?\d{3} ?\d{3} ?\d{2}", "fr.nir"),),
    "GB": (
        _Kind(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]", None),
        _Kind(r"\d{3}([ -]?)\d{3}\1\d{4}", "gb.nhs", "nhs"),
    ),
    "IE": (_Kind(r"\d{7}[A-Wa-w][A-Ia-iWw]?", "ie.pps"),),
    "IN": (_Kind(r"\d{4}[ -]\d{4}[ -]\d{4}", "in_.aadhaar"), _Kind(r"[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]", "in_.pan")),
    "IT": (_Kind(r"[A-Za-z]{6}\d{2}[A-Za-z]\d{2}[A-Za-z]\d{3}[A-Za-z]", "it.codicefiscale"),),
    "MX": (_Kind(r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d", "mx.curp"),),
    "NL": (_Kind(r"\d{3}([ .]?)\d{3}\1\d{3}|\d{4}\.\d{2}\.\d{3}", "nl.bsn", "bsn|burgerservice|sofi"),),
    "NO": (_Kind(r"\d{6} ?\d{5}", "no.fodselsnummer"),),
    "PL": (_Kind(r"\d{11}", "pl.pesel", "pesel"),),
    "PT": (_Kind(r"\d{8} ?\d ?[A-Z0-9]{2}\d", "pt.cc", "cart[aã]o|\\bcc\\b|cidad"),),
    "SE": (_Kind(r"(?:\d{2})?\d{6}[-+]\d{4}", "se.personnummer"),),
    "US": (
        _Kind(r"\d{3}-\d{2}-\d{4}", "us.ssn"),
        _Kind(r"9\d{2}-\d{2}-\d{4}", "us.itin"),
        _Kind(r"\d{3} ?\d{2} ?\d{4}", "us.ssn", r"\bssn\b|social security"),
    ),
}
REGIONS = frozenset(_KINDS)
"""Countries whose ids are known, by ISO 3166."""


def national_id_spans(text: str, regions: Sequence[str]) -> Iterator[Span]:
    """Yield where the ids of persons of some countries begin and end in a text."""
    for region, shape, check, words in _patterns():
        if region not in regions:
            continue
        for match in shape.finditer(text):
            before = text[max(0, match.start() - _BEFORE_CHARS) : match.start()]
            if words is not None and not words.search(before):
                continue
            if check is None or import_module(f"stdnum.{check}").is_valid(match[0]):
                yield match.span()


@cache
def _patterns() -> list[tuple[str, re.Pattern[str], str | None, re.Pattern[str] | None]]:
    """Return the kinds of all countries: the country, the shape, its check, the words before it."""
    return [
        (
            region,
            re.compile(_EDGES.format(f"(?:{kind.shape})")),
            kind.check,
            re.compile(kind.words, re.IGNORECASE) if kind.words else None,
        )
        for region, kinds in _KINDS.items()
        for kind in kinds
    ]
