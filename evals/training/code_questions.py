"""Questions that code answers: what the sentence above a command says that it does.

Belongs here: which sentences announce a command, and what for. Does not belong here: other wordings (`rewordings`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from evals.training.heading_questions import (
    IMPERATIVE,
    base_of,
    is_ambiguous,
    is_common,
    lowered,
    pair_of,
    with_subject,
)
from evals.training.pairs import Pair
from evals.training.wiki import Section, Wiki, content_terms, plain
from rag_serving.text.analyzer import STOP_WORDS

_THEN = r", (?:you|we|use|run|enter|execute|type|open|add|do|simply|just|issue|first|for example|here)\b"
_PURPOSE = (
    re.compile(rf"(?:^|[,:] )to (\w+ .+?)(?:{_THEN}| (?:you can|use|run|you need|you have)\b|:?$)", re.IGNORECASE),
    re.compile(r"\b(?:command|script|snippet|line|query)s? to (\w+ .+?)(?::|$)", re.IGNORECASE),
    re.compile(
        r"\b(?:you|we|one) can (?:also |now |then )?(\w+ .+?) (?:with|using|by|like|as|via) "
        r"(?:the |this|follow|runn|execut|typ|so)",
        re.IGNORECASE,
    ),
)
_LABEL = re.compile(r"^[A-Z][\w '/-]+:?$")
_PROMPT = re.compile(r"^(?:\$|>|%|\w+@[\w-]+:?~?[$#>])\s+")
_COMMAND = re.compile(r"^(?:sudo )?(?:\./)?[a-z][\w./-]*(?: [^=;{(]*| .*\s--?\w.*)$")
_MARKUP = re.compile(
    r"^(?:[<{}\[(*/#@;!|\"'-]|import |package |//|public |class |interface |def |val |var |let |fn |use )"
)
_MOST_WORDS, _LONGEST_LINE, _LONGEST_SENTENCE = 14, 160, 400  # the last two in characters
_POINTING = frozenset({"this", "that", "it", "these", "them", "following", "above", "below", "so", "you"})


def code_pairs(wiki: Wiki) -> Iterator[Pair]:
    """Yield a question for each block of code whose purpose is told, with its first line as fact."""
    for section in wiki.sections:
        for said, line, is_command in _announced(section):
            purpose = purpose_of(said)
            if not purpose:
                continue
            question = lowered(f"{'command to' if is_command else 'how do I'} {purpose}", wiki.names)
            if is_common(wiki, section, question) or is_ambiguous(wiki, section, question):
                question = with_subject(section, question)
            if question:
                pair = pair_of(wiki, section, question, "steps", answer=line)
                yield replace(pair, source="code", facts=(line,))


def purpose_of(said: str) -> str:
    """Return what a sentence says that the code below it does, beginning with a verb; empty where it does not."""
    if len(said) > _LONGEST_SENTENCE:
        return ""
    label = said.split(maxsplit=1)
    if len(label) == 2 and _LABEL.match(said) and len(said.split()) <= 8:
        verb = base_of(label[0].lower())
        purpose = f"{verb} {label[1].rstrip(':')}"
        return purpose if verb and _is_purpose(purpose) else ""
    found = (match[1].strip(" ,:") for pattern in _PURPOSE for match in pattern.finditer(said))
    return next((purpose for purpose in found if _is_purpose(purpose)), "")


def _is_purpose(purpose: str) -> bool:
    words = purpose.lower().rstrip(":").split()
    is_short = 2 <= len(words) <= _MOST_WORDS and len(content_terms(purpose)) >= 2
    is_whole = bool(words) and words[-1] not in STOP_WORDS and not set(words) & {"following", "above", "below"}
    return is_short and is_whole and words[0] in IMPERATIVE and words[1] not in _POINTING | {"to"}


def _announced(section: Section) -> Iterator[tuple[str, str, bool]]:
    """Yield each sentence right above code, the first line of the code, and whether that is a command."""
    for above, code in pairwise(section.units):
        if code.kind != "code" or above.kind not in ("sentence", "list", "heading"):
            continue
        first = code.of(section.text).splitlines()[0].strip()
        line = _PROMPT.sub("", first)
        if 3 <= len(line) <= _LONGEST_LINE and not _MARKUP.match(line) and re.search(r"[A-Za-z]{2}", line):
            yield plain(above.of(section.text)), line, line != first or bool(_COMMAND.match(line))
