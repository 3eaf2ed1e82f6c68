"""Clauses in another construction: a condition as a relative clause, a consequence as a reason.

`rewritten` goes both ways: it is asked for a passage and for a sentence. `entailed` is what a passage also says: a
sentence that says it is carried, but a passage that says no more than that carries nothing else.

Belongs here: the construction of clauses. Does not belong here: their order (`clauses`), what may be left out
(`parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rag_serving.answering.verification.verbs import is_action, is_advice, is_duty, is_imperative
from rag_serving.answering.verification.words import Token, is_negative

Tokens = Sequence[Token]

_CONDITIONS = frozenset({"if", "when"})
_LONGEST_SUBJECT = 4
_BE = frozenset({"is", "are"})
_SOFTENING_WORDS = "please optionally ideally like want wish prefer need risk perhaps maybe alternatively or"
_SOFTENING = frozenset(_SOFTENING_WORDS.split())


def rewritten(sentence: Tokens) -> Iterator[Tokens]:
    """Yield a sentence, and it in each other construction that says the same."""
    yield sentence
    for rule in (
        _relative_of_condition,
        _reason_of_consequence,
        _need_of_needed,
        _without_cleft,
        _contrast,
        _not_unless,
    ):
        yield from rule(sentence)


def entailed(sentence: Tokens) -> Iterator[Tokens]:
    """Yield what a sentence of a passage also says in weaker words: `never` as `not`, an order as what you must do."""
    yield sentence
    for at, token in enumerate(sentence):
        if token.key == "never" and at:
            yield [*sentence[:at], replace(token, key="not"), *sentence[at + 1 :]]
        elif token.key == "because":
            yield [*sentence[:at], replace(token, key="since"), *sentence[at + 1 :]]
        elif token.key in ("as-soon-as", "after") and at + 1 < len(sentence) and sentence[at + 1].kind != "figure":
            yield [*sentence[:at], replace(token, key="once-done"), *sentence[at + 1 :]]
        elif token.key == "once-done":
            yield [*sentence[:at], replace(token, key="after"), *sentence[at + 1 :]]
    yield from _orders(sentence)
    yield from _means(sentence)
    if sentence and sentence[0].text.lower().endswith("ing") and any(token.key == "need" for token in sentence[1:]):
        yield [replace(sentence[0], text="if", key="if", kind="strict"), *sentence]


def _means(sentence: Tokens) -> Iterator[Tokens]:
    """Yield `X by Y`, `can X by Y` and `to X, can Y` for the order `to X, Y`."""
    comma = next((at for at, token in enumerate(sentence) if token.kind == "comma"), -1)
    if comma < 2 or sentence[0].key != "to" or not is_imperative(sentence[comma + 1 :]):
        return
    can, by = (replace(sentence[0], text=word, key=word) for word in ("can", "by"))
    yield [*sentence[1:comma], by, *sentence[comma + 1 :]]
    yield [can, *sentence[1:comma], by, *sentence[comma + 1 :]]
    yield [*sentence[: comma + 1], can, *sentence[comma + 1 :]]


def implying(sentence: Tokens) -> Iterator[Tokens]:
    """Yield an answer, and what says more than it: what something does if ... for what it will do."""
    yield sentence
    at = next((at for at, token in enumerate(sentence) if token.key == "will" and token.kind == "strict"), 0)
    behind = [token for token in sentence[at + 1 : at + 3] if not is_negative(token)]
    is_reported = any(token.key in ("say", "that", "plan", "promise", "expect") for token in sentence)
    has_condition = any(token.key in (*_CONDITIONS, "after", "once-done", "as-soon-as") for token in sentence)
    if at and behind and has_condition and not is_reported and is_action(behind[0]):
        yield [*sentence[:at], *sentence[at + 1 :]]


def _orders(sentence: Tokens) -> Iterator[Tokens]:
    """Yield an order with "should" before its verb, and with "must" where it is no mere advice."""
    comma = next((at for at, token in enumerate(sentence) if token.kind == "comma"), -1)
    if any(token.key in _SOFTENING for token in sentence):
        return
    for begin in {0, comma + 1}:
        order = sentence[begin:]
        if is_imperative(order) and (begin == 0 or sentence[0].key in (*_CONDITIONS, "before", "after", "to")):
            for verb in ("must", "should") if is_duty(order) else ("should",) if is_advice(order) else ():
                modal = Token(verb, verb, "strict", order[0].start, order[0].start)
                yield [*sentence[:begin], modal, *order]


def _relative_of_condition(sentence: Tokens) -> Iterator[Tokens]:
    """Yield `X that R is M` for `if X R, it is M`, and for `X is M if it R`."""
    if not sentence:
        return
    comma = next((at for at, token in enumerate(sentence) if token.kind == "comma"), 0)
    is_fronted = sentence[0].key in _CONDITIONS and 1 < comma < len(sentence) - 2
    if is_fronted and sentence[comma + 1].key == "it" and _is_plain_subject(sentence[1:3]):
        yield from _with_possession([*sentence[1:comma], *sentence[comma + 2 :]])
    at = next((at for at, token in enumerate(sentence) if token.key in _CONDITIONS), 0)
    if at > 1 and at + 2 < len(sentence) and sentence[at + 1].key == "it":
        for length in range(1, min(_LONGEST_SUBJECT, at - 1) + 1):
            if _is_plain_subject(sentence[:length]):
                yield from _with_possession([*sentence[:length], *sentence[at + 2 :], *sentence[length:at]])


def _is_plain_subject(subject: Tokens) -> bool:
    return all(token.kind in ("word", "name", "free") and not token.text.lower().endswith("ly") for token in subject)


def _with_possession(sentence: Tokens) -> Iterator[Tokens]:
    yield sentence
    at = next((at for at, token in enumerate(sentence) if token.key == "have" and token.kind == "word"), None)
    if at is not None:
        yield [*sentence[:at], replace(sentence[at], key="with", kind="strict"), *sentence[at + 1 :]]


def _reason_of_consequence(sentence: Tokens) -> Iterator[Tokens]:
    """Yield `B because A` for `A, so B`."""
    for at, token in enumerate(sentence[:-2]):
        if token.key == "so" and at > 1 and sentence[at - 1].kind in ("comma", "stop"):
            for reason in ("because", "since"):
                yield [*sentence[at + 1 :], replace(token, key=reason), *sentence[: at - 1]]


def _need_of_needed(sentence: Tokens) -> Iterator[Tokens]:
    """Yield `X needs Y` for `Y is needed for X`, and `needs Y` for `Y is needed`: what you need."""
    at = next((at for at, token in enumerate(sentence) if token.key == "needed"), 0)
    be = at - 2 if at > 1 and is_negative(sentence[at - 1]) else at - 1
    if be < 1 or sentence[be].text.lower() not in _BE or be != at - 1:
        return
    subject, tail = sentence[:be], sentence[at + 1 :]
    if any(token.kind in ("comma", "stop") or is_negative(token) or token.key == "only" for token in subject):
        return
    verb = replace(sentence[at], key="need")
    yield [verb, *subject, *tail]
    if tail and tail[0].key == "for":
        for end in range(2, len(tail) + 1):
            if tail[end - 1].kind in ("comma", "stop"):
                return
            yield [*tail[1:end], verb, *subject, *tail[end:]]


def _without_cleft(sentence: Tokens) -> Iterator[Tokens]:
    """Yield `X does` for `it is X who does`."""
    if len(sentence) > 4 and sentence[0].text.lower() == "it" and sentence[1].text.lower() == "is":
        at = next((at for at, token in enumerate(sentence) if token.text.lower() == "who"), 0)
        if 2 < at < 7 and sentence[2].text.lower() in ("the", "a", "an", "your"):
            yield [*sentence[2:at], *sentence[at + 1 :]]


def _contrast(sentence: Tokens) -> Iterator[Tokens]:
    """Yield `is Q rather than P` for `is not P but Q`, and for `is Q, not P`."""
    at = next((at for at, token in enumerate(sentence) if token.key == "not"), 0)
    if at == 0:
        return
    sign = replace(sentence[at], text="rather than", key="rather-than")
    but = next((i for i in range(at + 1, len(sentence)) if sentence[i].key == "but"), 0)
    clause_ends = any(token.kind in ("comma", "stop") for token in sentence[at + 1 : but - 1])
    if but and not clause_ends and sentence[at - 1].text.lower() in (*_BE, "was", "were"):
        yield [*sentence[:at], *sentence[but + 1 :], sign, *sentence[at + 1 : but]]
    if sentence[at - 1].kind == "comma" and not but:
        yield [*sentence[: at - 1], sign, *sentence[at + 1 :]]


def _not_unless(sentence: Tokens) -> Iterator[Tokens]:
    """Yield `do X only if Y` for `do not X unless Y`, and `is X only if Y` for `is not X unless Y`."""
    keys = [token.key for token in sentence]
    if keys.count("not") != 1 or keys.count("unless") != 1 or keys.index("not") > keys.index("unless"):
        return
    at, condition = keys.index("not"), keys.index("unless")
    if at and sentence[at - 1].text.lower() in (*_BE, "do", "don't"):
        only = replace(sentence[condition], key="only-if")
        yield [*sentence[:at], *sentence[at + 1 : condition], only, *sentence[condition + 1 :]]
