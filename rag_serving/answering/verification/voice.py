"""Active and passive: participles marked as the one or the other, and passives as the actives that say the same.

Belongs here: who does and to whom. Does not belong here: the order of clauses and phrases (`clauses`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from rag_serving.answering.verification.grammar import BE, FRONTED, MODALS, is_auxiliary
from rag_serving.answering.verification.verbs import is_third_person
from rag_serving.answering.verification.words import Token, is_negative

_SAME_PARTICIPLE = "run set put cut read shut let hit cost reset split spread input output overrun"
_NEVER_CHANGED = frozenset(_SAME_PARTICIPLE.split())
_PARTICLES = frozenset({"back", "out", "up", "down", "off", "on", "in", "over"})
_TEMPORAL = frozenset({"after", "until", "before", "once-done", "as-soon-as"})
_PLACING = frozenset({"in", "on", "at", "for", "with", "from", "during", "within", "per", "through", "under", "after"})
_COORDINATING = frozenset({"and", "or", "but", "rather-than", "instead-of"})
_BEFORE_NOUNS_WORDS = "a an the every all no some any of in on at for with from by to into per"
_BEFORE_NOUNS = frozenset(_BEFORE_NOUNS_WORDS.split())
_CLAUSE_BEGINS_WORDS = "that which who whom whose if when unless while because what how why where whether"
_CLAUSE_BEGINS = frozenset(_CLAUSE_BEGINS_WORDS.split())
_CONDITIONAL = frozenset({"if", "when", "unless", "once-done", "as-soon-as", "before", "after"})
_STRICT_PARTICIPLES = {"opened": "open", "closed": "close", "started": "start", "stopped": "stop", "added": "add"}
_STRICT_PARTICIPLES |= {"enabled": "enable", "disabled": "disable", "removed": "remove", "accepted": "accept"}
_STRICT_PARTICIPLES |= {"rejected": "reject", "increased": "increase", "decreased": "decrease"}


def with_voice(tokens: list[Token]) -> list[Token]:
    """Return the tokens with each participle that is passive marked so, and each past form as past.

    A participle is passive behind a form of "be", as an attribute, joined to another passive, or as a short relative
    clause: `software bought as a subscription is`.
    """
    marked: list[Token] = []
    is_passive = True  # a sentence that begins with a participle leaves out its subject
    was_passive = in_temporal = False
    for at, token in enumerate(tokens):
        if token.kind in ("comma", "stop"):
            in_temporal = False
        if token.kind == "word" and _is_past(token):
            was_passive = is_passive or _is_attribute(tokens, at) or _is_short_relative(tokens, at)
            if was_passive or not (in_temporal and at and tokens[at - 1].text.lower() in ("has", "have")):
                token = replace(token, key=f"{token.key}+{'passive' if was_passive else 'past'}")
        marked.append(token)
        in_temporal = in_temporal or token.key in _TEMPORAL
        if token.text.lower() in BE or (was_passive and token.key in _COORDINATING):
            is_passive = True
        elif not (is_passive and (is_negative(token) or _is_transparent(token))):
            is_passive = False
    return marked


def _is_attribute(tokens: list[Token], at: int) -> bool:
    """Return whether a participle belongs to the noun behind it: it stands behind an article or a preposition."""
    before, following = tokens[at - 1] if at else None, tokens[at + 1 : at + 2]
    if before is None or not following or following[0].kind != "word":
        return False
    return before.text.lower() in _BEFORE_NOUNS or is_third_person(before)


def _is_short_relative(tokens: list[Token], at: int) -> bool:
    """Return whether a participle behind the noun at the begin of a clause leaves the clause its own predicate."""
    following = tokens[at + 1 : at + 2]
    if not following or not (following[0].kind == "name" or following[0].key in FRONTED | {"of"}):
        return False
    if not 1 <= at <= 3 or any(token.kind not in ("word", "name", "free") for token in tokens[:at]):
        return False
    for token in tokens[at + 1 :]:
        if token.kind in ("comma", "stop") or token.text.lower() in _CLAUSE_BEGINS or token.key in _COORDINATING:
            return False
        if is_auxiliary(token):
            return True
    return False


def _is_transparent(token: Token) -> bool:
    """Return whether a word may stand between "be" and its participle."""
    return token.text.lower().endswith("ly") or token.key in ("always", "often", "usually") or _is_light(token)


def _is_light(token: Token) -> bool:
    return token.kind == "free" and token.text.lower() not in ("a", "an", "the")


def _is_past(token: Token) -> bool:
    lower, base = token.text.lower().split(" ")[0], token.key.partition("_")[0]
    if lower in _NEVER_CHANGED or lower.endswith("eed"):
        return False
    return lower.endswith("ed") if base == lower else not lower.endswith(("s", "ing"))


def actives(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens, and the active of each passive that names its agent or has a modal verb."""
    yield tokens
    for at, token in enumerate(tokens):
        if at == 0 or not (token.key.endswith("+passive") or _is_strict_passive(tokens, at)):
            continue
        begin = max((i + 1 for i in range(at) if _opens_clause(tokens[i])), default=0)
        before = [t for t in tokens[begin:at] if t.counts]
        subject = _until_auxiliary(before)
        auxiliaries = before[len(subject) :]
        if (
            not subject
            or not _is_whole(subject)
            or any(t.key not in MODALS | {"only"} and not is_negative(t) for t in auxiliaries)
        ):
            continue
        verb = replace(token, key=_STRICT_PARTICIPLES.get(token.key, token.key.removesuffix("+passive")))
        head, tail = tokens[:begin], tokens[at + 1 :]
        yield from _with_agent(head, subject, auxiliaries, verb, tail)
        is_condition = begin > 0 and tokens[begin - 1].key in ("if", "when")
        if is_condition or (
            any(t.key in MODALS for t in auxiliaries) and not any(t.key == "only" for t in auxiliaries)
        ):
            for particles in (0, 1):
                if all(t.key in _PARTICLES for t in tail[:particles]) and len(tail) >= particles:
                    yield [*head, *auxiliaries, verb, *tail[:particles], *subject, *tail[particles:]]


def _is_whole(subject: list[Token]) -> bool:
    """Return whether no end of a subject could belong to the verb once it stands behind it: `files in May`."""
    last = subject[-1]
    is_open = any(token.key in _PLACING for token in subject) or last.text.lower().endswith("ly") or "+" in last.key
    return not is_open


def _is_strict_passive(tokens: list[Token], at: int) -> bool:
    """Return whether "opened", "started" and the like are a passive that names its agent or has a modal verb."""
    is_passive = tokens[at].key in _STRICT_PARTICIPLES and tokens[at - 1].text.lower() in BE
    return is_passive and tokens[at].kind == "strict"


def _opens_clause(token: Token) -> bool:
    return token.kind in ("comma", "stop") or token.key in _CONDITIONAL


def _with_agent(
    head: list[Token], subject: list[Token], auxiliaries: list[Token], verb: Token, tail: list[Token]
) -> Iterator[list[Token]]:
    by = next((at for at, token in enumerate(tail) if token.key == "by"), None)
    if by is None or any(token.kind in ("comma", "stop") for token in tail[:by]):
        return
    end = by + 1
    while end < len(tail) and (tail[end].kind in ("word", "name", "free") or tail[end].key == "of"):
        end += 1
    full = next((at for at in range(end, len(tail)) if _opens_clause(tail[at])), len(tail))
    for last in {end, full} if end > by + 1 else ():
        agent = [token for token in tail[by + 1 : last] if token.counts]
        if agent:
            yield from _with_subject(_Passive(head, subject, auxiliaries, verb), agent, tail[:by], tail[last:])


class _Passive(NamedTuple):
    """A passive clause up to its verb."""

    head: list[Token]
    subject: list[Token]
    auxiliaries: list[Token]
    verb: Token


def _with_subject(
    passive: _Passive, agent: list[Token], before: list[Token], after: list[Token]
) -> Iterator[list[Token]]:
    """Yield the active clause whose subject is the agent; `before` and `after` stand around "by" and the agent."""
    head, subject, auxiliaries, verb = passive
    yield [*head, *agent, *auxiliaries, verb, *subject, *before, *after]
    only = next((token for token in (*auxiliaries, *before) if token.key == "only"), None)
    if only is not None and (not before or before[-1] is only or only in auxiliaries):
        others = [token for token in auxiliaries if token is not only]
        between = [token for token in before if token is not only]
        yield [*head, only, *agent, *others, verb, *subject, *between, *after]


def _until_auxiliary(before: list[Token]) -> list[Token]:
    """Return the tokens before the first modal verb or negation."""
    end = next((at for at, token in enumerate(before) if token.key in MODALS or is_negative(token)), len(before))
    return before[:end]
