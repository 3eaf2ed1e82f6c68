"""The orders in which a sentence may be told without changing who does what, when, or why.

A sentence is read as several *forms*, sequences of the tokens that count. Two sentences that share a form say the same:

- what stands before the main clause may stand behind it (`If A, B` and `B if A`),
- `X of Y` is `Y X` (`the retention of logs`, `log retention`),
- phrases of place, time and means that follow each other may change places (`for 33 days in vault 3`),
- a passive with its agent is the active (`is approved by the owner`, `the owner approves`), and one with a modal verb
  and no agent is what "you" can, must or may do (`can be rolled back`, `you can roll back`).

Belongs here: the order of tokens. Does not belong here: tokens (`words`), which sentences are compared (`support`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rag_serving.answering.verification.grammar import FRONTED
from rag_serving.answering.verification.rewrites import rewritten
from rag_serving.answering.verification.voice import actives, with_voice
from rag_serving.answering.verification.words import DROPPABLE, Token

Form = tuple[Token, ...]

MOST_TOKENS = 90
"""Longer sentences are compared in the order they stand in alone."""
_MOST_FORMS = 64
_MOVABLE = frozenset({"in", "on", "at", "for", "with", "from", "during", "within", "per", "through", "via", "under"})
_ASKING_VERBS_WORDS = """
decide know tell inform see check ask say show determine learn find note record define and or time moment day date
"""
_ASKING_VERBS = frozenset(_ASKING_VERBS_WORDS.split())
_LONGEST_NOUN = 3


def forms(tokens: Sequence[Token]) -> list[Form]:
    """Return the forms of a sentence, the order it stands in first."""
    marked = with_voice(_trimmed(tokens))
    plain = tuple(token for token in marked if token.counts)
    if len(tokens) > MOST_TOKENS:
        return [plain]
    distinct: dict[Form, None] = {}
    for variant in rewritten(marked):
        for ordered in _fronted_last(list(variant)):
            for voiced in actives(ordered):
                for genitive in _genitives(voiced):
                    distinct.setdefault(tuple(_phrases_sorted([token for token in genitive if token.counts])))
                    if len(distinct) >= _MOST_FORMS:
                        return list(distinct)
    distinct.setdefault(plain)
    return list(distinct)


def without_droppable(form: Form) -> Form:
    """Return the form without the words that a paraphrase may leave out."""
    return tuple(token for token in form if token.text.lower() not in DROPPABLE)


def _trimmed(tokens: Sequence[Token]) -> list[Token]:
    trimmed = list(tokens)
    while trimmed and trimmed[-1].kind in ("stop", "comma"):
        trimmed.pop()
    while trimmed and trimmed[0].kind in ("stop", "comma"):
        trimmed.pop(0)
    return trimmed


def _fronted_last(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens, with what is set before the main clause behind it, and "when" as "if" where it is one."""
    for ordered in _main_first(tokens):
        yield ordered
        whens = {at for at, token in enumerate(ordered) if token.key == "when" and at}
        asks = any(ordered[at - 1].key.partition("+")[0] in _ASKING_VERBS for at in whens)
        if whens and not asks and not any(token.text.lower() in ("will", "was", "were", "had") for token in ordered):
            yield [replace(token, key="if") if at in whens else token for at, token in enumerate(ordered)]


def _main_first(tokens: list[Token]) -> Iterator[list[Token]]:
    if at := _end_of_bare_front(tokens):
        yield tokens
        yield [*tokens[at:], *tokens[:at]]
        return
    comma = next((at for at, token in enumerate(tokens) if token.kind == "comma"), None)
    if comma is None or not tokens or tokens[0].key not in FRONTED or comma == len(tokens) - 1:
        yield tokens
        return
    front, main = tokens[:comma], tokens[comma + 1 :]
    if main[0].key == "then":
        main = main[1:]
    end = next((at for at, token in enumerate(main) if token.kind == "stop"), len(main))
    yield [*main[:end], *front, *main[end:]]
    next_comma = next((at for at, token in enumerate(main) if token.kind == "comma"), end)
    if next_comma < end:
        yield [*main[:next_comma], *front, *main[next_comma:]]


def _end_of_bare_front(tokens: list[Token]) -> int:
    """Return where a phrase without an article ends that stands before the article of the subject: "In 7.2 the ..."."""
    if not tokens or tokens[0].key not in _MOVABLE:
        return 0
    subject = next((at for at, token in enumerate(tokens[:6]) if token.text.lower() == "you"), 0)
    if subject > 1 and not any(token.kind in ("comma", "stop") or token.key in FRONTED for token in tokens[1:subject]):
        return subject
    at = 1
    while at < len(tokens) and at < 4 and tokens[at].kind in ("figure", "name", "word"):
        at += 1
    return at if 1 < at < len(tokens) and tokens[at].text.lower() in ("the", "a", "an") else 0


def _phrases_sorted(tokens: list[Token]) -> list[Token]:
    """Return the tokens with each run of prepositional phrases in one order."""
    ordered: list[Token] = []
    phrases: list[list[Token]] = []
    for token in tokens:
        if token.key in _MOVABLE:
            phrases.append([token])
        elif phrases and token.kind in ("word", "name", "figure"):
            phrases[-1].append(token)
        else:
            ordered += _in_order(phrases)
            phrases = []
            ordered.append(token)
    return ordered + _in_order(phrases)


def _in_order(phrases: list[list[Token]]) -> list[Token]:
    return [token for phrase in sorted(phrases, key=lambda phrase: [t.key for t in phrase]) for token in phrase]


def _genitives(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens, and those with `X of Y` as `Y X`, for each length that Y may have."""
    yield tokens
    for length in range(1, _LONGEST_NOUN + 1):
        for is_wide in (False, True):
            genitives, changed = _with_genitives(tokens, length, is_wide)
            if changed:
                yield genitives


def _ends_noun(tokens: list[Token], end: int) -> bool:
    """Return whether no further word of the noun that ends here can follow."""
    return end >= len(tokens) or tokens[end].kind not in ("word", "name", "figure") or "+" in tokens[end].key


def _with_genitives(tokens: list[Token], length: int, is_wide: bool) -> tuple[list[Token], bool]:
    counted, changed = [token for token in tokens if token.kind != "free" or token.key == "of"], False
    behind_article = {id(b) for a, b in pairwise(tokens) if a.text.lower() in ("a", "an", "the")}
    at = len(counted) - 2
    while at > 0:
        if counted[at].key == "of" and counted[at - 1].kind in ("word", "name"):
            owner = counted[at + 1 : at + 1 + length]
            if len(owner) == length and all(token.kind in ("word", "name", "figure") for token in owner):
                # "the signing key of the service": what stands behind the article belongs to the noun
                takes_two = at == 2 and is_wide and counted[0].kind == "word" and _ends_noun(counted, at + 1 + length)
                begin = at - 2 if takes_two or (at > 1 and id(counted[at - 2]) in behind_article) else at - 1
                counted[begin : at + 1 + length] = [*owner, *counted[begin:at]]
                changed = True
        at -= 1
    return counted, changed
