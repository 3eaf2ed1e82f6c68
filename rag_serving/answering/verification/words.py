"""The words of a sentence as tokens that can be compared: by lemma, by value, or to the letter.

Belongs here: tokens, what kind each is, which word a token stands for.
Does not belong here: the order of tokens (`clauses`), whether a sentence is carried by a passage (`support`).

A word of ordinary English is compared by its lemma (simplemma) or by its group in `synonyms.txt`. A *strict* word
(negation, modality, quantity, comparison, condition, cause, time, direction) is compared by itself. A figure is
compared by value and unit, a name (`max.poll.records`, `--yes`, `HBL-4012`) to the letter. A *free* word carries no
meaning that its sentence would lose: articles, forms of "be" in the present, generic pronouns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from typing import Literal

from rag_serving.answering.verification.phrases import PHRASES
from rag_serving.text.figures import SPELLED, UNIT_NAMES, figure_value
from rag_serving.text.normalization import folded
from rag_serving.text.polarity_words import NEGATIONS

Kind = Literal["word", "strict", "figure", "name", "free", "comma", "stop"]
How = Literal["exact", "inflection", "synonym", "figure"]


@dataclass(frozen=True)
class Token:
    """One token; `key` is what it is compared by, `start` and `end` are offsets in the text it was read from."""

    text: str
    key: str
    kind: Kind
    start: int
    end: int

    @property
    def counts(self) -> bool:
        """Whether the token has to be matched by one of the passage."""
        return self.kind not in ("free", "comma", "stop")


# Words that a paraphrase may add or leave out: they change neither who does what nor when, how much, or whether.
_FREE = """
a an the is are am be been has have do does will it its they their them he his she her him you your
yourself itself themselves this that these those there here which who whom also then please however moreover
furthermore additionally indeed simply namely
"""
# Words that may be left out but not added.
_DROPPABLE = "now just very really quite basically actually easily automatically own"
# Words that have to be there themselves: no synonym, no inflection, none lost, none added.
_STRICT = """
cannot nowhere hardly barely scarcely
must shall should may might can could would ought need needs needed require requires required optional mandatory
recommended deprecated allow allows allowed permit permits permitted forbid forbids forbidden prohibit prohibited
deny denies denied able unable possible impossible supposed
all any every some few many much most several both either whole entire only alone even almost nearly about around
approximately exactly roughly another other others else same different
more less fewer least greater larger smaller higher lower bigger faster slower longer shorter better worse best worst
earlier later sooner latest earliest newer older newest oldest first last next previous former latter once twice
always sometimes usually often rarely seldom typically normally generally occasionally frequently regularly forever
daily weekly monthly yearly hourly nightly today tomorrow yesterday now already still yet soon immediately eventually
currently formerly again
if unless when whenever while until till before after since because therefore thus hence so otherwise although though
whereas whether except provided once than as like
and or but
in on at of to for by with from into onto over under above below between among within during through throughout per
against toward towards via up down out off across behind beside besides beyond inside outside upon along near
was were had did going
true false yes on off enable enables enabled enabling disable disables disabled disabling
open opens opened close closes closed start starts started stop stops stopped add adds added remove removes removed
include includes included exclude excludes excluded accept accepts accepted reject rejects rejected
increase increases increased decrease decreases decreased minimum maximum min max
i we us our my me mine ours he his she her him it they them its their will being
zero one half hundred thousand million
"""
_FREE_WORDS = frozenset(_FREE.split())
DROPPABLE = frozenset(_DROPPABLE.split())
_STRICT_WORDS = NEGATIONS | frozenset(_STRICT.split())

_STRICT_GROUPS = {"they": "it", "their": "its", "each": "every", "till": "until", "whenever": "when"}
_STRICT_GROUPS |= {"entire": "whole", "anybody": "anyone", "merely": "only", "solely": "only", "though": "although"}
_STRICT_GROUPS |= {"via": "through", "upon": "on", "permitted": "allowed", "prohibited": "forbidden"}
_STRICT_GROUPS |= {"permits": "allow", "allows": "allow", "permit": "allow", "compulsory": "mandatory"}
_STRICT_GROUPS |= {"requires": "need", "require": "need", "needs": "need", "required": "needed"}
_AGREEING_VERBS = "enable disable open close start stop add remove include exclude accept reject increase decrease"
_STRICT_GROUPS |= {f"{verb}s": verb for verb in _AGREEING_VERBS.split()}  # agreement with the subject changes nothing
_CONTRACTED = re.compile(r"(could|do|does|did|is|are|was|were|has|have|had|must|should|would|need)n't")
_PRONOUN_VERB = re.compile(r"(it|they|you|we|that|there|he|she)'(re|ve|ll|s)")
_WONT = {"won't": ("will", "not"), "can't": ("can", "not"), "cannot": ("can", "not"), "shan't": ("shall", "not")}

_PIECE = re.compile(r"\S+")
_PLAIN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?(?:-[^\W\d_]+)*")
_NUMBER = re.compile(r"([<>≤≥=~±+-]?[$€£]?)(\d+(?:[.,:]\d+)*)(?:-?([^\W\d_]+|[%‰°€$£]))?")
_ORDINAL = frozenset({"st", "nd", "rd", "th"})
_OPENING, _CLOSING = "\"'`*_([{«„“‘「『|", "\"'`*_)]}»“”’」』|"
_QUOTATION = frozenset('"«„“”»')
_COMMAS, _STOPS = ",", ".!?…;:"
_CURRENCIES, _SCALES = frozenset("€$£"), frozenset({"million", "billion", "thousand"})
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}")


def tokens(text: str) -> list[Token]:
    """Return the tokens of a sentence in order."""
    return _joined([replace(t, key=_key(t.key)) if t.kind == "word" else t for t in _read(text)])


def tokens_as_written(text: str) -> list[Token]:
    """Return the same with ordinary words as they are written: the dictionary takes 0.2 s to load."""
    return _joined(_read(text))


def _read(text: str) -> list[Token]:
    """Return the tokens of a sentence one by one, ordinary words in lower case."""
    return [token for piece in _PIECE.finditer(text) for token in _of_piece(piece[0], piece.start())]


def _joined(words: list[Token]) -> list[Token]:
    """Return the tokens with those as one that mean one thing together."""
    return _with_one_must(_with_possession(list(_with_units(_with_phrases(words)))))


def _with_possession(words: list[Token]) -> list[Token]:
    """Return the tokens with "has" as a verb of its own where no participle follows: to have is not to be."""
    for at, token in enumerate(words):
        if token.text.lower() in ("has", "have") and token.kind == "free":
            behind = (t for t in words[at + 1 :] if not is_negative(t) and not t.text.lower().endswith("ly"))
            if not _is_participle(next(behind, None)):
                words[at] = replace(token, kind="word", key="have")
    return words


def _is_participle(token: Token | None) -> bool:
    if token is None or token.kind not in ("word", "free"):
        return False
    lower = token.text.lower()
    return (
        lower in ("been", "also") or lower.endswith("ed") or (token.key != lower and not lower.endswith(("s", "ing")))
    )


def _with_one_must(words: list[Token]) -> list[Token]:
    """Return the tokens with "has to" as "must"; under a negation they are not the same."""
    if any(is_negative(token) for token in words):
        return words
    return [replace(token, key="must") if token.key == "have-to" else token for token in words]


def is_negative(token: Token) -> bool:
    """Return whether a token negates."""
    return token.key in NEGATIONS or token.key == "no-longer"


def compare(said: Token, stands: Token) -> How | None:
    """Return how a token of a sentence is carried by a token of a passage, or None."""
    if said.key == stands.key and said.kind == stands.kind:
        if said.kind == "figure":
            return "figure"
        return "exact" if said.text.lower() == stands.text.lower() else "inflection"
    if said.kind == stands.kind == "word":
        return "synonym" if group_of(said.key.split("+")[0]) == group_of(stands.key.split("+")[0]) else None
    return None


def group_of(word: str) -> str:
    """Return the first word of the group of synonyms that a word in its dictionary form is in, or the word itself."""
    return synonym_groups().get(word, word)


@cache
def synonym_groups() -> dict[str, str]:
    """Return the first word of its group for each word of the thesaurus; `pick_up` is a verb and its particle."""
    lines = resources.files(__package__).joinpath("synonyms.txt").read_text("utf-8").splitlines()
    kept = [line.split() for line in lines if line and not line.startswith("#")]
    return {lemma(word): lemma(words[0]) for words in kept for word in words}


@lru_cache(maxsize=20_000)
def lemma(word: str) -> str:
    """Return the dictionary form of an English word in lower case; an unknown word stays as it is."""
    import simplemma  # its rules of all languages take 0.03 s: verbatim sentences need none

    if "_" in word:
        return word
    base_form: str = simplemma.lemmatize(word, lang="en")
    return base_form.lower()


def _of_piece(piece: str, at: int) -> Iterator[Token]:
    """Yield the tokens of what white space parts: brackets and marks around it are no tokens, commas and stops are."""
    start, end = 0, len(piece)
    while start < end and piece[start] in _OPENING:
        start += 1
    if "(" in piece[:start]:
        yield Token("(", ",", "comma", at, at + start)
    tail = end
    while tail > start and (piece[tail - 1] in _CLOSING or piece[tail - 1] in _COMMAS + _STOPS):
        tail -= 1
    core = piece[start:tail]
    if piece[start - 1 : start] in _QUOTATION and piece[tail : tail + 1] in _QUOTATION and start and core:
        yield Token(core, f'"{core.lower()}"', "name", at + start, at + tail)  # a word that is mentioned, not used
        core = ""
    if (
        core and piece[tail : tail + 1] == "." and "." in core and len(core) < 5 and core[0].isalpha()
    ):  # e.g., i.e., U.S.
        core, tail = core + ".", tail + 1
    if core in ("-", "–", "—", "--"):
        yield Token(core, ";", "stop", at + start, at + tail)
    elif core:
        yield from _of_core(core, at + start)
    for position in range(tail, end):
        mark = piece[position]
        if mark in _COMMAS or mark == ")":
            yield Token(mark, ",", "comma", at + position, at + position + 1)
        elif mark in _STOPS:
            yield Token(mark, mark, "stop", at + position, at + position + 1)


def _of_core(core: str, at: int) -> Iterator[Token]:
    lower = folded(core).lower()
    end = at + len(core)
    if lower in _WONT:
        for word in _WONT[lower]:
            yield _word(core, word, at, end)
    elif contracted := _CONTRACTED.fullmatch(lower):
        yield _word(contracted[1], contracted[1], at, end)
        yield _word("not", "not", at, end)
    elif joined := _PRONOUN_VERB.fullmatch(lower):
        yield _word(core, joined[1], at, end)
        verb = {"re": "are", "ve": "have", "ll": "will", "s": "is"}[joined[2]]
        yield _word(verb, verb, at, end)
    elif number := _NUMBER.fullmatch(lower):
        yield from _of_number(core, number, at)
    elif _PLAIN.fullmatch(lower) and not (_CAMEL.search(core) and not core.isupper()):
        yield _word(core, lower.removesuffix("'s").removesuffix("s'"), at, end)
    elif "/" in core and not any(c in core for c in ".-_:@\\#") and all(part.isalpha() for part in core.split("/")):
        for part in re.finditer(r"[^/]+", core):
            yield _word(part[0], part[0].lower(), at + part.start(), at + part.end())
    else:
        yield Token(core, core if _is_cased(core) else lower, "name", at, end)


def _is_cased(core: str) -> bool:
    """Return whether case matters: file names, options, identifiers."""
    return any(c in core for c in "/_.-=:@\\$#") or bool(_CAMEL.search(core))


def _of_number(core: str, number: re.Match[str], at: int) -> Iterator[Token]:
    sign, value, unit = number[1], figure_value(number[2]), number[3] or ""
    if unit in _ORDINAL:
        yield Token(core, f"{value}.", "figure", at, at + len(core))
        return
    money = UNIT_NAMES.get(sign[-1:], "")
    sign = sign.rstrip("$€£")
    known = UNIT_NAMES.get(unit, money)
    yield Token(core, f"{sign}{value} {known}".strip(), "figure", at, at + len(core))
    if unit and unit not in UNIT_NAMES:
        yield Token(core, unit, "name", at, at + len(core))


def _word(text: str, lower: str, start: int, end: int) -> Token:
    if lower in _STRICT_GROUPS:
        return Token(text, _STRICT_GROUPS[lower], "strict", start, end)
    if lower in SPELLED and lower != "one":
        return Token(text, SPELLED[lower], "figure", start, end)
    if lower in _STRICT_WORDS:
        return Token(text, lower, "strict", start, end)
    if lower in _FREE_WORDS:
        return Token(text, lower, "free", start, end)
    return Token(text, lower, "word", start, end)


def _key(lower: str) -> str:
    """Return the lemma of a word; a comparative or superlative stays itself, so that none is read as the positive."""
    base = lemma(lower)
    if base == lower and len(lower) > 4 and lower.endswith("s") and not lower.endswith(("ss", "us", "is")):
        return lower[:-1]  # a word that the dictionary does not have: "plugins"
    if base != lower and lower.endswith(("er", "est")) and not lower.startswith(base):
        return lower
    if base != lower and lower in {base + "er", base + "est", base + "r", base + "st"}:
        return lower
    return base


def _with_phrases(pieces: list[Token]) -> Iterator[Token]:
    """Yield the tokens with each phrase that means one thing as one token."""
    position = 0
    while position < len(pieces):
        for words, key in PHRASES.get(pieces[position].text.lower(), ()):
            members = pieces[position : position + len(words)]
            if [member.text.lower() for member in members] == words:
                kind: Kind = "strict" if key else "free"
                text = " ".join(member.text for member in members)
                yield Token(text, key, kind, members[0].start, members[-1].end)
                position += len(words)
                break
        else:
            yield pieces[position]
            position += 1


def _with_units(words: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens with each figure, what it is counted in, and the unit on either side of it as one token."""
    waiting = list(words)
    at = 0
    while at < len(waiting):
        token, rest = waiting[at], waiting[at + 1 :]
        currency = UNIT_NAMES.get(token.text.lower(), "") if token.kind in ("word", "name") else ""
        if currency in _CURRENCIES and rest and _is_bare(rest[0]):
            joined = replace(rest[0], text=f"{token.text} {rest[0].text}", start=token.start)
            figure, used = _scaled(joined, rest[1:])
            yield replace(figure, key=f"{figure.key} {currency}")
            at += 2 + used
        elif _is_bare(token):
            figure, used = _scaled(token, rest)
            figure, more = _measured(figure, rest[used:])
            yield figure
            at += 1 + used + more
        else:
            yield token
            at += 1


def _is_bare(token: Token) -> bool:
    return token.kind == "figure" and " " not in token.key and not token.key.endswith(".")


def _scaled(figure: Token, rest: list[Token]) -> tuple[Token, int]:
    """Return a figure with the "million" behind it, and how many tokens that took."""
    if not rest or rest[0].text.lower() not in _SCALES:
        return figure, 0
    text = f"{figure.text} {rest[0].text}"
    return replace(figure, text=text, key=f"{figure.key}-{rest[0].text.lower()}", end=rest[0].end), 1


def _measured(figure: Token, rest: list[Token]) -> tuple[Token, int]:
    """Return a figure with the unit behind it, and how many tokens that took."""
    name = rest[0].text.lower() if rest else ""
    if name not in UNIT_NAMES or rest[0].kind not in ("word", "name", "free"):
        return figure, 0
    text, key = f"{figure.text} {rest[0].text}", f"{figure.key} {UNIT_NAMES[name]}"
    return replace(figure, text=text, key=key, end=rest[0].end), 1
