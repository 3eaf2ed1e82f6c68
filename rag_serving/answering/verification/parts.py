"""Which parts of a sentence may be told without the rest of it.

A part may stand alone only where what is left out neither limits it nor says for whom, when, or according to whom it
holds. A part that would lose its subject, a condition, a negation or its speaker is never told alone.

Belongs here: what may be left out of a sentence. Does not belong here: in which orders it may be told (`clauses`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from rag_serving.answering.verification.grammar import FRONTED, binds, is_auxiliary, subject_before_auxiliary
from rag_serving.answering.verification.verbs import finite_verb, is_second_predicate, is_third_person
from rag_serving.answering.verification.words import Token, is_negative

Tokens = Sequence[Token]

_MOST_PARTS = 24
_LIMITING_WORDS = """
if unless when while until before after only except although but otherwise whether provided only-if even-if in-case
as-long-as as-soon-as instead-of rather-than sometimes usually often rarely seldom typically normally generally however
"""
_REPORTING_WORDS = """
say believe think doubt hope propose suggest assume expect argue fear guess suspect accord example for-example myth
wrong false imagine suppose pretend deny want wish dispute mistake incorrect untrue rumour rumor theory allege doubtful
"""
_POINTING_WORDS = "it they them this that these those he she him its their his her which who whom there here"
_CLASS_WORDS = "flag option parameter setting command endpoint field variable property function header"
_ORDERING = frozenset(["do", "not", "never", "no", "all", "every", "must"])
_CALLS = frozenset(["note", "important", "warning", "tip", "hint", "caution", "remember", "attention", "notice"])
_SAYING_NOUNS = frozenset(["claim", "report", "plan", "estimate", "promise", "consider", "state"])
_LIMITING, _REPORTING = frozenset(_LIMITING_WORDS.split()), frozenset(_REPORTING_WORDS.split())
_POINTING, _CLASSES = frozenset(_POINTING_WORDS.split()), frozenset(_CLASS_WORDS.split())
_RELATIVE = frozenset(["that", "which", "who", "whom", "whose", "where", "what", "how", "why"])
_COUNTING = frozenset(["second", "third", "fourth", "fifth"])
_JOINING = frozenset({"and", "but", "while", "whereas"})
_BACKGROUND = frozenset({"so", "so-that", "because", "since", "therefore"})
_PAIRING = frozenset(["between", "both", "either", "neither", "or", "nor", "among", "combination", "difference"])
_FULL_CLAUSE_FOLLOWS = frozenset({"while", "whereas"})
_ANNOUNCING_WORDS = """
following example case scenario idea goal plan proposal draft question option rule follows wrong mistake test demo so
two three four cases options rules goals show shows try tried want wants intend was were had
"""
_ANNOUNCING = frozenset(_ANNOUNCING_WORDS.split())
_DETERMINERS = frozenset(["the", "a", "an", "every", "all", "no", "nobody", "nothing", "each", "your", "our", "some"])


def parts(sentence: Tokens) -> list[Tokens]:
    """Return the sentence of a passage and what of it may be told alone, the whole first."""
    sentences: list[Tokens] = [sentence] if sentence else []
    at = 0
    while at < len(sentences) and len(sentences) < _MOST_PARTS:
        known = {tuple(map(id, part)) for part in sentences}
        shorter = [part for part in _shorter(sentences[at]) if part and tuple(map(id, part)) not in known]
        sentences += shorter[: _MOST_PARTS - len(sentences)]
        at += 1
    return sentences


def joined(sentence: Tokens) -> list[Tokens]:
    """Return the clauses that a model's sentence joins by a semicolon, or by a comma and a word that only joins."""
    cuts: list[tuple[int, int]] = []
    for at, token in enumerate(sentence):
        if token.kind == "stop" and token.text == ";":
            cuts.append((at, at + 1))
        elif token.key in _JOINING and at and sentence[at - 1].kind == "comma" and _may_join(sentence, at):
            cuts.append((at - 1, at + 1))
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(sentence)]
    return _named([sentence[start:end] for start, end in zip(starts, ends, strict=True)]) if cuts else []


def _named(clauses: list[Tokens]) -> list[Tokens]:
    """Return the clauses, each that begins with "it" or "they" with the subject of the first in its place."""
    verb = finite_verb(clauses[0])
    subject = subject_before_auxiliary(clauses[0]) or clauses[0][: verb or 0]
    if not subject or any(token.kind not in ("word", "name", "free") for token in subject):
        return clauses
    return [
        [*subject, *clause[1:]] if at and clause and clause[0].text.lower() in ("it", "they") else clause
        for at, clause in enumerate(clauses)
    ]


def as_one(sentence: Tokens) -> Tokens:
    """Return a sentence whose clauses are joined by a semicolon in place of a comma and a word that only joins."""
    merged: list[Token] = []
    for at, token in enumerate(sentence):
        if token.key in _JOINING and merged and merged[-1].kind == "comma" and _may_join(sentence, at):
            merged[-1] = replace(merged[-1], text=";", key=";", kind="stop")
        else:
            merged.append(token)
    return merged


def _may_join(sentence: Tokens, at: int) -> bool:
    """Return whether the words before a joining word leave what follows it as it is: they report and negate nothing."""
    before, following = sentence[:at], sentence[at + 1 : at + 2]
    if _reports(before):
        return False
    is_clause = any(token.text.lower() in _DETERMINERS for token in following)
    return is_clause or not any(is_negative(token) for token in before)


def _shorter(sentence: Tokens) -> Iterator[Tokens]:
    """Yield what is left of a sentence when one part of it is left out."""
    yield from islice(_without_brackets(sentence), 4)
    first = 1 if sentence[0].key == "by-default" else 0
    noun = sentence[first + 1 : first + 2]
    begins_with_noun = bool(noun) and noun[0].kind == "word" and noun[0].key not in _COUNTING
    if begins_with_noun and sentence[first].key in ("every", "all") and not any(map(is_negative, sentence)):
        yield [*sentence[:first], *sentence[first + 1 :]]
    for at, token in enumerate(sentence):
        if token.kind == "stop" and token.key in ";:" and 0 < at < len(sentence) - 1:
            yield from _beside_stop(sentence[:at], sentence[at + 1 :], token)
        elif token.kind == "comma" and token.text == "," and 0 < at < len(sentence) - 2:
            yield from _beside_comma(sentence[:at], sentence[at + 1 :])
        elif token.kind == "name" and at and sentence[at - 1].text.lower() == "the" and _is_class(sentence[at + 1 :]):
            yield [*sentence[: at + 1], *sentence[at + 2 :]]
        elif token.key in ("and", "but") and 0 < at < len(sentence) - 2:
            yield from _beside_and(sentence[:at], sentence[at + 1 :], token)


def _is_class(behind: Tokens) -> bool:
    return bool(behind) and behind[0].key in _CLASSES and behind[0].text.lower() == behind[0].key


def _beside_stop(head: Tokens, tail: Tokens, stop: Token) -> Iterator[Tokens]:
    """Yield the parts beside a semicolon, colon or dash that may be told alone."""
    if not _is_remark(tail, stop) and not _is_call(head):
        yield head
    if stop.text == ";" and _is_free_of(head) and not _begins(tail, _LIMITING):
        yield from _without_pointing(tail)
    if stop.text == ":" and _is_said_plainly(head) and tail[0].text.lower() in ("the", "each", "every", "all"):
        yield from _without_pointing(tail)
    if stop.text == ":" and _is_call(head):
        yield tail


def _without_pointing(tail: Tokens) -> Iterator[Tokens]:
    """Yield a clause, and it without the last clause it is joined with, where nothing in it points elsewhere."""
    commas = (
        at for at, token in enumerate(tail) if token.kind == "comma" and token.text == "," and 0 < at < len(tail) - 2
    )
    heads = [part for at in commas for part in _beside_comma(tail[:at], tail[at + 1 :]) if part[0] is tail[0]]
    yield from (part for part in (tail, *heads) if not _points(part))


def _is_said_plainly(head: Tokens) -> bool:
    """Return whether a clause before a colon neither limits, points at, nor reports what stands behind the colon."""
    lower = {token.text.lower() for token in head}
    is_clause = any(map(is_auxiliary, head)) or finite_verb(head) is not None
    is_open = any(map(binds, head)) or _points(head) or _names_a_speaker(head) or not _is_free_of(head)
    return is_clause and not is_open and not lower & _ANNOUNCING and not any(t.key == "only" for t in head)


def _beside_comma(head: Tokens, tail: Tokens) -> Iterator[Tokens]:
    """Yield the parts beside a comma and a joining word, a reason or a relative clause."""
    word, rest = tail[0], tail[1:]
    if _is_fragment(head) or not rest:
        return
    is_background = word.key in _BACKGROUND and not any(token.key in _LIMITING for token in rest)
    is_said_of_it = word.text.lower() == "which" and is_auxiliary(rest[0]) and not any(map(binds, rest))
    if is_background or (is_said_of_it and not any(token.kind == "comma" for token in rest)):
        if not _names_a_speaker(rest):
            yield head
    elif word.key in _JOINING:
        limits = _restricts(rest) or _begins(rest, {"not", "never", "no"}) or _names_a_speaker(rest)
        if word.key == "while":  # what is true only meanwhile is no contrast of figures
            limits = limits or not all(any(t.kind == "figure" for t in half) for half in (head, rest))
        if not limits and (_is_clause(rest, word) or _begins(rest, _POINTING)):
            yield head
        if _is_free_of(head) and not _points(rest) and _is_clause(rest, word):
            yield rest


def _beside_and(head: Tokens, tail: Tokens, word: Token) -> Iterator[Tokens]:
    """Yield what stands before "and" or "but", and what stands behind it as a clause or of the same subject."""
    head = head[:-1] if head[-1].kind == "comma" else head
    front, main = _fronted(head)
    if not main or not _may_be_split(main):
        return
    limits = _names_a_speaker(tail) or (_restricts(tail) if word.key == "but" else _limits_all(tail))
    verb = finite_verb(main)
    is_second_verb = verb is not None and is_second_predicate(tail) and is_third_person(main[verb])
    is_predicate = is_auxiliary(tail[0]) or is_second_verb or _is_predicate_of_its_own(tail)
    is_own = _is_predicate_of_its_own(tail)
    negates = any(is_negative(token) and not (is_own and token.key == "without") for token in main)
    if is_predicate and not limits and not negates and not is_negative(tail[0]):
        yield head  # "with a badge and a pass" loses no part: both may be needed
    if _reports(head) or negates or any(token.kind in ("stop", "comma") for token in main):
        return
    has_auxiliary = any(map(is_auxiliary, main))
    if is_auxiliary(tail[0]) or is_second_verb:
        subject = subject_before_auxiliary(main) or main[: verb or 0]
        if subject and not any(token.key in ("and", "or") for token in subject):
            yield [*front, *subject, *tail]
    elif (has_auxiliary or verb is not None) and _is_predicate_of_its_own(tail):
        yield [*front, *tail]


def _is_predicate_of_its_own(tail: Tokens) -> bool:
    return tail[0].text.lower() in _DETERMINERS and not _points(tail) and any(map(is_auxiliary, tail))


def _fronted(clause: Tokens) -> tuple[Tokens, Tokens]:
    """Return what is set before the main clause, with its comma, and the main clause."""
    comma = next((at for at, token in enumerate(clause) if token.kind == "comma"), None)
    if clause[0].key not in FRONTED or comma is None:
        return [], [] if clause[0].key in FRONTED else clause
    return clause[: comma + 1], clause[comma + 1 :]


def _may_be_split(main: Tokens) -> bool:
    """Return whether "and" behind these words joins no parts of a condition, a relative clause or a pair."""
    keys = {token.key for token in main}
    return not keys & _PAIRING and not keys & _LIMITING and not any(t.text.lower() in _RELATIVE for t in main)


def _without_brackets(sentence: Tokens) -> Iterator[Tokens]:
    """Yield the sentence without each thing that stands in brackets and limits nothing."""
    for at, token in enumerate(sentence):
        if token.text.startswith("(") or (token.kind == "comma" and "(" in token.text):
            end = next((i for i in range(at + 1, len(sentence)) if sentence[i].text == ")"), None)
            inside = sentence[at + 1 : end]
            if not inside:
                continue
            if at and sentence[at - 1].kind == "name" and len(inside) == 2 and inside[0].key == "by-default":
                yield [inside[0], sentence[at - 1], inside[1]]
            explains = at > 0 and any(t.kind in ("figure", "name") for t in (sentence[at - 1], *inside[:1]))
            if end is not None and explains and not any(map(binds, inside)) and not _names_a_speaker(inside):
                yield [*sentence[:at], *sentence[end + 1 :]]


def _is_free_of(head: Tokens) -> bool:
    """Return whether what follows a clause is not within its condition, its time, or somebody's words."""
    return bool(head) and head[0].key not in FRONTED and not _reports(head)


def _is_clause(rest: Tokens, word: Token) -> bool:
    if not rest:
        return False
    if word.key in _FULL_CLAUSE_FOLLOWS:
        return not rest[0].text.lower().endswith(("ing", "ed"))
    return rest[0].text.lower() in _DETERMINERS or (rest[0].kind == "word" and finite_verb(rest) is not None)


def _is_fragment(head: Tokens) -> bool:
    """Return whether a comma parts only what is set before the main clause."""
    return head[0].key in FRONTED and not any(token.kind == "comma" for token in head)


def _reports(tokens: Tokens) -> bool:
    """Return whether somebody's words or thoughts are told: `claims that`, `believes`, `according to`."""
    keys = [token.key.split("+")[0] for token in tokens]
    following = [*(token.text.lower() for token in tokens[1:]), ""]
    return any(
        key in _REPORTING or (key in _SAYING_NOUNS and word == "that")
        for key, word in zip(keys, following, strict=True)
    )


def _names_a_speaker(tail: Tokens) -> bool:
    return _reports(tail) or any(token.key.split("+")[0] in _SAYING_NOUNS for token in tail)


def _restricts(tail: Tokens) -> bool:
    """Return whether what follows a clause limits it or puts its reader under an obligation."""
    binding = (token for token in tail if binds(token) and token.key not in ("can", "may"))
    return any(token.key in _LIMITING or token.key in ("always", "first") for token in tail) or any(binding)


def _limits_all(tail: Tokens) -> bool:
    """Return whether what is joined by "and" may limit what stands before it too."""
    return any(token.key in _LIMITING or token.key in ("always", "first") for token in tail)


def _is_remark(tail: Tokens, stop: Token) -> bool:
    """Return whether what stands behind a semicolon, colon or dash says something about what stands before it."""
    counted = [token for token in tail if token.counts]
    if len(counted) < 3 or _names_a_speaker(tail) or _begins(tail, _POINTING | _LIMITING - {"otherwise"}):
        return True
    if stop.text == ";":
        return tail[0].key in ("so", "so-that", "or", "as", "like", "≥", "≤")
    return tail[0].kind == "strict" and tail[0].key not in _ORDERING


def _is_call(head: Tokens) -> bool:
    return all(token.key.split("+")[0] in _CALLS for token in head)


def _begins(tokens: Tokens, words: frozenset[str] | set[str]) -> bool:
    return bool(tokens) and (tokens[0].key in words or tokens[0].text.lower() in words)


def _points(tokens: Tokens) -> bool:
    """Return whether one of the tokens stands for something that is said elsewhere."""
    return any(token.text.lower() in _POINTING for token in tokens)
