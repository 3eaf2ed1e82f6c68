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

from rag_serving.answering.verification.words import DROPPABLE, Token, is_negative

Form = tuple[Token, ...]

MOST_TOKENS = 90
"""Longer sentences are compared in the order they stand in alone."""
_MOST_FORMS = 32
_BE_FORMS = "is are am be been being was were"
_MODAL_VERBS = "can could may might must shall should would"
_SAME_PARTICIPLE = "run set put cut read shut let hit cost reset split spread input output overrun"
_FRONTING = """
if unless when while until before after since because although though whereas once as to in on at for by with from into
onto over under above below between within during through per without as-soon-as as-long-as in-case because-of due-to
instead-of rather-than even-if only-if whenever
"""
_BINDING_WORDS = """
must shall should may might can could would ought need require optional mandatory forbid forbidden if unless when while
until before after only except although but otherwise whether provided only-if even-if in-case as-long-as as-soon-as
instead-of rather-than sometimes usually often rarely seldom typically normally generally no false
"""
_BE, _MODALS = frozenset(_BE_FORMS.split()), frozenset(_MODAL_VERBS.split())
_NEVER_CHANGED, FRONTED = frozenset(_SAME_PARTICIPLE.split()), frozenset(_FRONTING.split())
AUXILIARIES = frozenset({"is", "are", "was", "were", "has", "have", "had", "cannot", "can't", "will", *_MODALS})
"""Words that begin a predicate."""
_BINDING = frozenset(_BINDING_WORDS.split())
_PARTICLES = frozenset({"back", "out", "up", "down", "off", "on", "in", "over"})
_MOVABLE = frozenset({"in", "on", "at", "for", "with", "from", "during", "within", "per", "through", "via", "under"})
_LONGEST_NOUN = 3


def forms(tokens: Sequence[Token]) -> list[Form]:
    """Return the forms of a sentence, the order it stands in first."""
    marked = _with_voice(_trimmed(tokens))
    plain = tuple(token for token in marked if token.counts)
    if len(tokens) > MOST_TOKENS:
        return [plain]
    found: dict[Form, None] = {}
    for ordered in _fronted_last(marked):
        for voiced in _actives(ordered):
            for genitive in _genitives(voiced):
                found.setdefault(tuple(_phrases_sorted([token for token in genitive if token.counts])))
                if len(found) >= _MOST_FORMS:
                    return list(found)
    found.setdefault(plain)
    return list(found)


def without_droppable(form: Form) -> Form:
    """Return the form without the words that a paraphrase may leave out."""
    return tuple(token for token in form if token.text.lower() not in DROPPABLE)


def binds(token: Token) -> bool:
    """Return whether a token changes what the words around it claim: negation, modality, condition, exception."""
    return token.kind == "strict" and (is_negative(token) or token.key in _BINDING)


def is_auxiliary(token: Token) -> bool:
    """Return whether a token begins a predicate: a form of "be" or "have", or a modal verb."""
    return token.text.lower() in AUXILIARIES or token.key in _MODALS


def subject_before_auxiliary(clause: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens before the first auxiliary of a clause; none where it has none or where it begins with one."""
    end = next((at for at, token in enumerate(clause) if is_auxiliary(token)), 0)
    return clause[:end]


def governs(tokens: Sequence[Token]) -> bool:
    """Return whether what these words introduce holds only with them: `Do not:`, `If the vault is sealed:`."""
    return any(map(binds, tokens)) or (
        bool(tokens) and tokens[0].key in FRONTED - {"to", "in", "on", "at", "for", "with"}
    )


def _trimmed(tokens: Sequence[Token]) -> list[Token]:
    found = list(tokens)
    while found and found[-1].kind in ("stop", "comma"):
        found.pop()
    while found and found[0].kind in ("stop", "comma"):
        found.pop(0)
    return found


def _with_voice(tokens: list[Token]) -> list[Token]:
    """Return the tokens with each participle behind a form of "be" marked as passive, and each past form as past."""
    marked: list[Token] = []
    is_passive = True  # a sentence that begins with a participle leaves out its subject
    for token in tokens:
        if token.kind == "word" and _is_past(token):
            token = replace(token, key=f"{token.key}+{'passive' if is_passive else 'past'}")
        marked.append(token)
        if token.text.lower() in _BE:
            is_passive = True
        elif not (is_passive and (is_negative(token) or token.text.lower().endswith("ly") or _is_light(token))):
            is_passive = False
    return marked


def _is_light(token: Token) -> bool:
    return token.kind == "free" and token.text.lower() not in ("a", "an", "the")


def _is_past(token: Token) -> bool:
    lower = token.text.lower()
    if lower in _NEVER_CHANGED:
        return False
    return lower.endswith("ed") if token.key == lower else not lower.endswith(("s", "ing"))


def _fronted_last(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens, with what is set before the main clause behind it."""
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
    yield [*main, *front]
    if front[0].key == "when" and not any(token.key == "will" for token in main):
        yield [*main, replace(front[0], key="if"), *front[1:]]


def _end_of_bare_front(tokens: list[Token]) -> int:
    """Return where a phrase without an article ends that stands before the article of the subject: "In 7.2 the ..."."""
    if not tokens or tokens[0].key not in _MOVABLE:
        return 0
    at = 1
    while at < len(tokens) and at < 4 and tokens[at].kind in ("figure", "name", "word"):
        at += 1
    return at if 1 < at < len(tokens) and tokens[at].text.lower() in ("the", "a", "an") else 0


def _actives(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens, and the active of each passive that names its agent or has a modal verb."""
    yield tokens
    for at, token in enumerate(tokens):
        if not token.key.endswith("+passive") or at == 0:
            continue
        begin = max((i + 1 for i in range(at) if tokens[i].kind in ("comma", "stop")), default=0)
        before = [t for t in tokens[begin:at] if t.counts]
        subject = _until_auxiliary(before)
        auxiliaries = before[len(subject) :]
        if not subject or any(t.key not in _MODALS and not is_negative(t) for t in auxiliaries):
            continue
        verb = replace(token, key=token.key.removesuffix("+passive"))
        head, tail = tokens[:begin], tokens[at + 1 :]
        yield from _with_agent(head, subject, auxiliaries, verb, tail)
        if any(t.key in _MODALS for t in auxiliaries):
            for particles in (0, 1):
                if all(t.key in _PARTICLES for t in tail[:particles]) and len(tail) >= particles:
                    yield [*head, *auxiliaries, verb, *tail[:particles], *subject, *tail[particles:]]


def _with_agent(
    head: list[Token], subject: list[Token], auxiliaries: list[Token], verb: Token, tail: list[Token]
) -> Iterator[list[Token]]:
    by = next((at for at, token in enumerate(tail) if token.key == "by"), None)
    if by is None or any(token.kind in ("comma", "stop") for token in tail[:by]):
        return
    end = by + 1
    while end < len(tail) and tail[end].kind in ("word", "name", "free"):
        end += 1
    agent = [token for token in tail[by + 1 : end] if token.counts]
    if agent:
        yield [*head, *agent, *auxiliaries, verb, *subject, *tail[:by], *tail[end:]]


def _until_auxiliary(before: list[Token]) -> list[Token]:
    """Return the tokens before the first modal verb or negation."""
    end = next((at for at, token in enumerate(before) if token.key in _MODALS or is_negative(token)), len(before))
    return before[:end]


def _phrases_sorted(tokens: list[Token]) -> list[Token]:
    """Return the tokens with each run of prepositional phrases in one order."""
    found: list[Token] = []
    phrases: list[list[Token]] = []
    for token in tokens:
        if token.key in _MOVABLE:
            phrases.append([token])
        elif phrases and token.kind in ("word", "name", "figure"):
            phrases[-1].append(token)
        else:
            found += _in_order(phrases)
            phrases = []
            found.append(token)
    return found + _in_order(phrases)


def _in_order(phrases: list[list[Token]]) -> list[Token]:
    return [token for phrase in sorted(phrases, key=lambda phrase: [t.key for t in phrase]) for token in phrase]


def _genitives(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens, and those with `X of Y` as `Y X`, for each length that Y may have."""
    yield tokens
    for length in range(1, _LONGEST_NOUN + 1):
        found, changed = _with_genitives(tokens, length)
        if changed:
            yield found


def _with_genitives(tokens: list[Token], length: int) -> tuple[list[Token], bool]:
    found, changed = [token for token in tokens if token.kind != "free" or token.key == "of"], False
    behind_article = {id(b) for a, b in pairwise(tokens) if a.text.lower() in ("a", "an", "the")}
    at = len(found) - 2
    while at > 0:
        if found[at].key == "of" and found[at - 1].kind in ("word", "name"):
            owner = found[at + 1 : at + 1 + length]
            if len(owner) == length and all(token.kind in ("word", "name", "figure") for token in owner):
                # "the signing key of the service": what stands behind the article belongs to the noun
                begin = at - 2 if at > 1 and id(found[at - 2]) in behind_article else at - 1
                found[begin : at + 1 + length] = [*owner, *found[begin:at]]
                changed = True
        at -= 1
    return found, changed
