"""Wordings that mean the same, as one: `at once` and `immediately`, `at most` before a figure or behind it.

Each rule turns what a sentence says into one form of saying it, in passages and in answers alike.

Belongs here: rules on a few words that stand together. Does not belong here: tokens (`words`), clauses (`clauses`,
`rewrites`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from rag_serving.answering.verification.verbs import is_imperative, is_third_person
from rag_serving.answering.verification.words import Token, is_negative, synonym_groups, tokens
from rag_serving.text.figures import UNIT_NAMES

_HEDGES = frozenset({"about", "around", "approximately", "roughly"})
_ABOVE = frozenset({"above", ">"})
_BELOW = frozenset({"below", "under", "<"})
_MORE = frozenset({"larger", "greater"})
_LESS = frozenset({"smaller", "less"})
_ARTICLES = frozenset({"a", "an", "the"})
_TIMES_WORDS = "second minute hour day night week month quarter year call request"
_TIMES = frozenset(_TIMES_WORDS.split())
_SPAN_WORDS = frozenset({"within", "after", "for", "in", "per"})
_CLASS_WORDS = "flag option parameter setting command endpoint field variable property function header group tag label"
_CLASSES = frozenset([*_CLASS_WORDS.split(), "permission"])
_CLAUSE_WORDS = frozenset({"if", "when", "while", "until", "before", "after", "because", "unless", "so", "so-that"})
_SEGMENT_ENDS = _CLAUSE_WORDS | {"and", "or", "but", "as-soon-as", "as-long-as", "once-done", "rather-than"}
_BE_AND_HAVE = frozenset({"is", "are", "was", "were", "has", "have", "had", "be", "been"})
_MOVED_ADVERBS = frozenset({"later", "again", "immediately", "currently"})
_DETERMINERS_WORDS = "the a an every all no your our its their this you it"
_RELATIVES = frozenset({"that", "which", "who", "whose"})
_DETERMINERS = frozenset(_DETERMINERS_WORDS.split())


def read(text: str) -> list[Token]:
    """Return the tokens of a sentence, each of several wordings that mean the same as one."""
    words = _phrasal(tokens(text))
    for rule in (_defaults, _comparisons, _amounts_first, _rates, _conjunctions, _possession, _classes, _only, _plain):
        words = rule(words)
    return _adverbs_last(words)


def _phrasal(words: list[Token]) -> list[Token]:
    """Return the tokens with each verb and its particle as one word: `picks up`."""
    phrases = _phrases()
    merged: list[Token] = []
    at = 0
    while at < len(words):
        token = words[at]
        following = words[at + 1].text.lower() if at + 1 < len(words) else ""
        key = f"{token.key}_{following}"
        if token.kind in ("word", "strict") and key in phrases:
            behind = words[at + 1]
            merged.append(replace(token, text=f"{token.text} {behind.text}", key=key, kind="word", end=behind.end))
            at += 2
        else:
            merged.append(token)
            at += 1
    return merged


@cache
def _phrases() -> frozenset[str]:
    return frozenset(word for word in synonym_groups() if "_" in word)


def _defaults(words: list[Token]) -> list[Token]:
    """Return the tokens with `by default` at the begin of its clause, and `the default value` as `the default`."""
    kept: list[Token] = []
    for at, token in enumerate(words):
        before = kept[-1] if kept else None
        if token.key == "default" and before is not None and before.key == "by":
            kept.pop()
            begin = _begin_of_segment(kept)
            place = len(kept) if _has_own_clause(kept[begin:]) else begin
            kept.insert(place, replace(before, text="by default", key="by-default", end=token.end))
        elif token.key == "default" and not any(t.counts for t in kept) and _is_followed_by_is(words[at + 1 :]):
            kept.append(replace(token, key="by-default", kind="strict"))  # "the default time-out is 10 seconds"
        elif token.key == "of" and before is not None and before.text.lower() == "default" and before.kind == "strict":
            continue  # "the default of x is 5", "x is 5 by default"
        elif not (token.key == "value" and before is not None and before.key in ("default", "by-default")):
            kept.append(token)
    return kept


def _has_own_clause(segment: list[Token]) -> bool:
    """Return whether the words before `by default` have a relative clause that it may belong to: `keys that expire`."""
    behind = [None, *segment]
    return any(
        token.text.lower() in _RELATIVES
        or (_is_participle(token) and (before is None or before.text.lower() not in _BE_AND_HAVE))
        for before, token in zip(behind, segment, strict=False)
    )


def _begin_of_segment(before: list[Token]) -> int:
    """Return where the clause begins that goes on behind these tokens."""
    is_end = (at for at in range(len(before) - 1, -1, -1) if _ends_segment(before[at]))
    return next(is_end, -1) + 1


def _ends_segment(token: Token) -> bool:
    return token.kind in ("stop", "comma") or token.key in _SEGMENT_ENDS


def _is_followed_by_is(rest: list[Token]) -> bool:
    """Return whether a noun, "is" and a value follow: default passwords that are forbidden are none."""
    at = next((at for at, token in enumerate(rest) if token.text.lower() in ("is", "are")), 0)
    has_value = bool(rest[at + 1 : at + 2]) and rest[at + 1].kind in ("figure", "name")
    is_noun = all(token.kind in ("word", "name", "free") or token.key == "of" for token in rest[:at])
    return at > 0 and has_value and is_noun


def _comparisons(words: list[Token]) -> list[Token]:
    """Return the tokens with `about`, `below` and `larger than` before a figure as signs."""
    signed: list[Token] = []
    at = 0
    while at < len(words):
        token, rest = words[at], words[at + 1 : at + 3]
        is_before_figure = bool(rest) and rest[0].kind == "figure"
        is_than = len(rest) == 2 and rest[0].key == "than" and rest[1].kind == "figure"
        if is_before_figure and token.key in _HEDGES:
            signed.append(replace(token, key="≈", kind="strict"))
        elif is_before_figure and token.key in _ABOVE | _BELOW:
            signed.append(replace(token, key=">" if token.key in _ABOVE else "<", kind="strict"))
        elif is_than and token.key in _MORE | _LESS:
            sign = ">" if token.key in _MORE else "<"
            signed.append(replace(token, text=f"{token.text} than", key=sign, kind="strict", end=rest[0].end))
            at += 1
        else:
            signed.append(token)
        at += 1
    return signed


def _amounts_first(words: list[Token]) -> list[Token]:
    """Return the tokens with `at most` before the figure that it follows."""
    moved = list(words)
    for at, token in enumerate(moved):
        if token.key not in ("≤", "≥") or (at + 1 < len(moved) and moved[at + 1].kind == "figure"):
            continue
        figure = next((i for i in (at - 1, at - 2) if i >= 0 and moved[i].kind == "figure"), None)
        if figure is not None:
            moved[figure : at + 1] = [token, *moved[figure:at]]
    return moved


def _rates(words: list[Token]) -> list[Token]:
    """Return the tokens with `a minute` behind an amount as `per minute`, and `a month` behind `within` as `one`."""
    rated = list(words)
    for at, token in enumerate(rated[:-1]):
        following = rated[at + 1]
        is_unit = following.key in _TIMES and following.text.lower() == following.key
        is_unit = is_unit and not (
            at + 2 < len(rated) and rated[at + 2].kind in ("word", "name")
        )  # "a second signature"
        if at == 0 or not is_unit or token.text.lower() not in ("a", "an", "every", "each", "one"):
            continue
        before = rated[max(0, at - 2) : at]
        if rated[at - 1].key in _SPAN_WORDS:
            if token.text.lower() in ("a", "an") and following.key in UNIT_NAMES:
                rated[at] = replace(token, key="one", kind="strict")
        elif token.text.lower() != "one" and any(t.kind == "figure" or t.key in ("once", "twice") for t in before):
            rated[at] = replace(token, key="per", kind="strict")
    return rated


def _conjunctions(words: list[Token]) -> list[Token]:
    """Return the tokens with `once` as a conjunction, `, since` as `because`, and `the following` as `the next`."""
    marked = list(words)
    for at, token in enumerate(marked[:-1]):
        before, following = (marked[at - 1] if at else None), marked[at + 1]
        opens_clause = following.text.lower() in _DETERMINERS - {"every"} or following.kind in ("word", "name")
        opens_clause = opens_clause or following.key == "≤"
        if token.key == "once" and opens_clause and not _is_adverb(before):
            if (
                following.text.lower() not in ("a", "an")
                or marked[at + 2 : at + 3] == []
                or marked[at + 2].key not in _TIMES
            ):
                marked[at] = replace(token, key="once-done")
        elif token.key == "since" and before is not None and before.kind == "comma" and opens_clause:
            marked[at] = replace(token, key="because")
        elif token.text.lower() == "following" and before is not None and before.text.lower() in ("the", "on"):
            if following.kind in ("word", "strict"):
                marked[at] = replace(token, key="next", kind="strict")
        elif token.key == "provided" and following.text.lower() in _DETERMINERS and not _is_passive(before):
            marked[at] = replace(token, key="as-long-as")
    return marked


def _is_adverb(before: Token | None) -> bool:
    """Return whether "once" behind this word says how often: `at least once`."""
    return before is not None and (before.key in ("≥", "≤", "than") or before.text.lower() in _BE_AND_HAVE)


def _is_passive(before: Token | None) -> bool:
    return before is not None and before.text.lower() in _BE_AND_HAVE


def _possession(words: list[Token]) -> list[Token]:
    """Return the tokens with `that have` as `with`, and no "either" before "or"."""
    kept: list[Token] = []
    for token in words:
        before = kept[-1] if kept else None
        if token.key == "have" and token.kind == "word" and before is not None and _is_relative(before, kept[:-1]):
            kept[-1] = replace(token, text=f"{before.text} {token.text}", key="with", kind="strict", start=before.start)
        else:
            kept.append(token)
    return kept


def _is_relative(token: Token, before: list[Token]) -> bool:
    """Return whether a word begins a relative clause that names which are meant."""
    return (
        token.text.lower() in ("that", "who", "which")
        and bool(before)
        and before[-1].kind in ("word", "name", "strict")
    )


def _classes(words: list[Token]) -> list[Token]:
    """Return the tokens with `the flag "audit"` as `the "audit" flag`."""
    moved = list(words)
    for at in range(1, len(moved) - 1):
        word, name = moved[at], moved[at + 1]
        is_named = name.kind == "name" and word.kind == "word" and word.key == word.text.lower()
        if is_named and word.key in _CLASSES and moved[at - 1].text.lower() in ("the", "a", "an"):
            moved[at : at + 2] = [name, word]
    return moved


def _only_first(words: list[Token]) -> list[Token]:
    """Return the tokens with the "only" that ends a phrase before it: `in the lobby only`, `only in the lobby`."""
    moved = list(words)
    at = 0
    while at < len(moved):
        is_last = at + 1 == len(moved) or moved[at + 1].kind in ("stop", "comma")
        if moved[at].key == "only" and at and is_last:
            begin = next(
                (i for i in range(at - 1, max(-1, at - 5), -1) if moved[i].key in ("in", "on", "at", "for")), -1
            )
            between = moved[begin + 1 : at]
            if begin > 0 and all(t.kind in ("word", "name", "figure", "free") for t in between):
                moved[begin : at + 1] = [moved[at], *moved[begin:at]]
        elif moved[at].key == "only" and at and moved[at - 1].key == "for" and moved[at + 1].kind == "figure":
            moved[at - 1 : at + 1] = [moved[at], moved[at - 1]]  # "for only 72 hours"
        at += 1
    return moved


def _only(words: list[Token]) -> list[Token]:
    """Return the tokens with `only` before a verb and `if` behind it as `only if`."""
    moved = _only_first(words)
    at = next((at for at, token in enumerate(moved) if token.key == "only"), None)
    if at is None or at + 1 == len(moved) or moved[at + 1].kind != "word":
        return moved
    before = moved[at - 1].text.lower() if at else ""
    if before not in ("is", "are", "can", "may", "be") and not (at == 0 and is_imperative(moved[1:])):
        return moved
    end = next(
        (i for i in range(at, len(moved)) if moved[i].kind in ("comma", "stop") or moved[i].key == "and"), len(moved)
    )
    condition = next((i for i in range(at, end) if moved[i].key in ("if", "when")), None)
    if condition is None:
        return moved
    moved[condition] = replace(moved[condition], key="only-if")
    return [*moved[:at], *moved[at + 1 :]]


def _plain(words: list[Token]) -> list[Token]:
    """Return the tokens without "version" before its number, and with `not allowed to` as `must not`."""
    kept: list[Token] = []
    for token in words:
        if token.kind == "figure" and kept and kept[-1].key == "version" and kept[-1].text.lower() == "version":
            kept.pop()
        if token.key == "to" and [t.key for t in kept[-2:]] == ["not", "allowed"]:
            negation = kept[-2]
            kept[-2:] = [replace(negation, key="must"), negation]
            continue
        kept.append(token)
    return _no_longer(kept)


def _no_longer(words: list[Token]) -> list[Token]:
    """Return the tokens with `not ... any more` as `no longer`."""
    negation = next((at for at, token in enumerate(words) if token.key == "not"), None)
    lower = [token.text.lower() for token in words if token.kind != "stop"]
    ending = 2 if lower[-2:] == ["any", "more"] else 1 if lower[-1:] == ["anymore"] else 0
    if negation is None or not ending:
        return words
    end = len(lower) - ending
    return [
        *words[:negation],
        replace(words[negation], key="no-longer"),
        *words[negation + 1 : end],
        *words[end + ending :],
    ]


def _adverbs_last(words: list[Token]) -> list[Token]:
    """Return the tokens with an adverb of manner beside its verb at the end of what the verb governs."""
    if any(is_negative(token) for token in words):
        return words
    ordered: list[Token] = []
    for segment in _segments(words):
        before = ordered[-1] if ordered else None
        moved = [token for at, token in enumerate(segment) if _moves(segment, at, before)]
        ordered += [token for token in segment if not any(token is other for other in moved)] + moved
    return ordered


def _moves(segment: list[Token], at: int, before: Token | None) -> bool:
    """Return whether an adverb belongs to the verb of its clause: not to an attribute or a participle beside it."""
    token, following = segment[at], segment[at + 1 : at + 2]
    is_manner = token.kind == "word" and token.text.lower().endswith("ly") and token.key == token.text.lower()
    if not is_manner and token.text.lower() not in _MOVED_ADVERBS:
        return False
    is_behind_be = before is not None and before.text.lower() in _BE_AND_HAVE
    if at == 0 or (at == 1 and is_behind_be):
        return is_behind_be and any(map(_is_participle, following if at == 0 else segment[:1]))
    if any(_is_participle(other) for other in (*segment[:at], *following)):
        return False
    is_verb_beside = bool(following) and (is_third_person(following[0]) or segment[at - 1].text.lower() == "it")
    return is_manner and is_verb_beside and segment[at - 1].text.lower() not in _ARTICLES


def _is_participle(token: Token) -> bool:
    return token.kind == "word" and token.text.lower() != token.key and not token.text.lower().endswith(("s", "ing"))


def _segments(words: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens between auxiliaries, conjunctions and marks."""
    segment: list[Token] = []
    for token in words:
        if _ends_segment(token) or token.text.lower() in _BE_AND_HAVE:
            yield segment
            yield [token]
            segment = []
        else:
            segment.append(token)
    yield segment
