"""Words that people use for what the pages call otherwise, as the configuration says: `shortcuts` for `quick links`.

Belongs here: replacing them in a question. Does not belong here: misspelt words (`spelling`), words that verification
takes as equal (`answering.verification`), the keyword tier's own reading (`retrieval.keyword`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache


def with_synonyms(text: str, synonyms: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a text with each word or phrase that has a synonym replaced, the longest first, and what was replaced by
    what; "quoted" words are meant as they are."""
    meant = {" ".join(said.lower().split()): other for said, other in synonyms.items() if said.strip()}
    if not meant:
        return text, {}
    replaced: dict[str, str] = {}

    def other(match: re.Match[str]) -> str:
        if not match["said"]:
            return match[0]
        replaced[match[0]] = meant[" ".join(match[0].lower().split())]
        return replaced[match[0]]

    return _pattern(tuple(meant)).sub(other, text), replaced


@lru_cache(maxsize=64)
def _pattern(said: tuple[str, ...]) -> re.Pattern[str]:
    phrases = (r"\s".join(map(re.escape, phrase.split())) for phrase in sorted(said, key=len, reverse=True))
    return re.compile(rf'"[^"]*"|(?<!\w)(?P<said>{"|".join(phrases)})(?!\w)', re.IGNORECASE)
