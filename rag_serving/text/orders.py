"""Orders to the assistant itself: to ignore its rules, to reveal them, to be somebody else. An order is recognized by
its position: at the beginning of a sentence or clause, or after words such as `please` and `can you`. A quoted one, or
one in a question about such words, is a mention and no order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from rapidfuzz.distance import OSA

from rag_serving.text.disguises import plain, readings, spelled_out
from rag_serving.text.patterns import patterns

_ANY_GAP = r"[^\w?]{1,6}"
_GAP = re.compile(_ANY_GAP)
_OTHER_LETTERS = r"[\u0370-\u1fff\u3000-\ud7ff\uf900-\ufffd\U00010000-\U0010ffff]"
_CLAUSE = (
    r"(?:\A|[.!?;:,\n…|>*#(){}\[\]~=/\\\"'«»–—-]"
    r"|(?<!\w)(?:and|then|but|so|or|also|please|now|plus|und|et|и)(?=\W))\W{0,4}"
)
_QUOTED = re.compile(
    r"\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|„[^“”\n]{0,400}[“”]|«[^»\n]{0,400}»|»[^«\n]{0,400}«|`[^`\n]{0,400}`"
    r"|「[^」\n]{0,400}」|『[^』\n]{0,400}』|(?<!\w)['‘](?=\w)[^‘’'\n]{0,400}(?<=[\w.!?])['’](?!\w)"
)

# Permitted text beside a quoted order that is meant to be followed: nothing that asks anything.
_FOLLOW = re.compile(
    r"(?:\W|\b(?:please|now|do|this|that|what|it|says?|follow|obey|execute|run|apply|perform|just|the|following|order|as"
    r"|instructions?|command|here|is|and|then|to|me|for|text|answer|read)\b){0,40}"
)
_ASKS = re.compile(
    r"\W{0,8}(?:(?:hi|hello|hey|please|so|and|but|also|ok)\W{1,4}){0,3}"
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|does|did|do|has|have|had|should|may|must|am|shall"
    r"|(?:can|could|will|would|do) (?!you\b|u\b)|explain|define|describe|tell me (?:about|what|how|why|whether)"
    r"|was|wer|wie|warum|wo|wann|welche\w?|darf|que|quel\w{0,3}|comment|pourquoi|qué|cómo|por qué|che|cosa|come)\b"
)
_MENTIONS = re.compile(
    r"\b(?:prompts?|phrases?|messages?|sentences?|words?|wordings?|requests?|commands?|attacks?|injections?|questions?"
    r"|inputs?|like|such as|says?|said|saying|tells?|telling|asks?|asking|reads?|writes?|types?|means?|called|e\.g"
    r"|for example|attempts?|when|if|whether|somebody|someone|users?|wenn|ob|wie|quand|si|cuando)\b"
)
# The start of an order after a question: `How do I restart, and ignore old messages` is none.
_RULES = re.compile(r"\b(?:you|your|ur|instruct\w{0,6}|prompts?|rules|guidelines|act|pretend|roleplay)\b|[^\W_a-z]")
_UNQUOTED = {ord(mark): " " for mark in "\"'“”„«»`「」『』‘’"}
# Such an ending announces that the next sentence is to be said.
_ANNOUNCES = re.compile(
    r"(?:\b(?:this|these words|the following|below|your (?:answer|reply|response)|listen)\W{0,4}|:\W{0,4})\Z"
)
# Of which two are in what is spelled out, one letter after the other, for an assistant.
_ORDERED = "ignore disregard forget instruction previous rules prompt assistant answer reply output tell your user"
_SPELLED = tuple(_ORDERED.split())
# Words that are read where a word is a slip away from them.
_WORDS_OF_ORDERS = """
your ignore ignoring disregard forget override bypass instruction instructions previous prompt system reveal guidelines
restrictions pretend above
"""
_LONG_WORD = re.compile(r"[a-z]{4,16}")
_SLIPPING = frozenset(_WORDS_OF_ORDERS.split())
_SENTENCE_END = re.compile(r"[.!?\n]")


def order_patterns(*names: str) -> tuple[str, ...]:
    """Return expressions of `phrases/orders.txt` in order; a space in them matches any gap between words."""
    return tuple(pattern.replace(" ", _ANY_GAP) for name in names for pattern in patterns("orders")[name])


@cache
def _question_orders() -> re.Pattern[str]:
    """Compile the orders in a question; this takes 0.05 s, and most questions have no sign of one."""
    openers, you, abroad = (order_patterns(name)[0] for name in ("OPENERS", "YOU", "OPENERS_ABROAD"))
    english = "|".join(order_patterns("ORDERS", "REQUESTS"))
    others = "|".join(order_patterns("ORDERS_ABROAD", "FORGET_ALL", "REVEAL", "ROLES"))
    return re.compile(
        rf"{_CLAUSE}{openers}{you}{openers}(?P<order>{english})|{_CLAUSE}{abroad}(?P<abroad>{others})"
        rf"|(?P<unspaced>{'|'.join(patterns('orders')['UNSPACED'])})"
    )


@cache
def _page_orders() -> re.Pattern[str]:
    """Compile the orders to an assistant in a page, where other imperatives are meant for people."""
    openers, you = (order_patterns(name)[0] for name in ("OPENERS", "YOU"))
    orders = "|".join(order_patterns("ORDERS", "ORDERS_ABROAD"))
    return re.compile(rf"{_CLAUSE}{openers}(?:{you}{openers})?(?P<order>{orders})")


@cache
def _addresses() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns("orders")["ADDRESSES"]))


@cache
def _may_address() -> re.Pattern[str]:
    return re.compile(patterns("orders")["MAY_ADDRESS"][0])


@cache
def _mentioned_orders() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(order_patterns('ORDERS', 'ORDERS_ABROAD'))})")


@cache
def _continued() -> re.Pattern[str]:
    verbs, elsewhere = order_patterns("OPENERS")[0], patterns("orders")["CONTINUED_ELSEWHERE"][0]
    return re.compile(rf"{_CLAUSE}{verbs}{patterns('orders')['CONTINUED'][0]}|{elsewhere}")


@cache
def _signs() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{order_patterns('SIGNS')[0]})|{_OTHER_LETTERS}", re.DOTALL)


@cache
def _stems(name: str) -> tuple[str, ...]:
    return tuple(patterns("orders")[name][0].split("|"))


def has_sign(text: str) -> bool:
    """Return whether a lower-case text has a sign that every order to an assistant has."""
    return any(stem in text for stem in _stems("SIGN_STEMS")) or _signs().search(text) is not None


def is_order(question: str) -> bool:
    """Return whether a question gives orders to the assistant instead of asking about the pages."""
    possible = readings(question)
    meant = _LONG_WORD.sub(lambda word: _meant(word[0]), possible[min(1, len(possible) - 1)])
    return any(map(_is_ordered, dict.fromkeys((*possible, meant))))


@lru_cache(maxsize=4096)
def orders_assistant(sentence: str) -> bool:
    """Return whether a sentence of a page is meant for an assistant that reads it, and not for people."""
    possible = readings(sentence)
    signed = [reading for reading in possible if has_sign(reading)]
    if any(_page_orders().search(_without_mentions(reading, _page_orders())) for reading in signed):
        return True
    lines = [line for reading in possible if _may_address().search(line := " ".join(reading.split()))]
    if any(_addresses().search(_without_mentions(line, _addresses())) for line in lines):
        return True
    return any(sum(word in run for word in _SPELLED) > 1 for run in spelled_out(sentence))


def directed(sentences: Sequence[str], is_ordered: bool = False) -> frozenset[int]:
    """Return the positions of one paragraph's sentences addressed to an assistant. Beside an order, every instruction
    to say or do something counts as its continuation, and so does the sentence that either announces. `is_ordered`: the
    paragraph is below an order."""
    orders = {place for place, sentence in enumerate(sentences) if orders_assistant(sentence)}
    if orders or is_ordered:
        orders |= {place for place, sentence in enumerate(sentences) if _continued().search(plain(sentence))}
    for place in range(len(sentences) - 1):
        if place in orders and announces(sentences[place]):
            orders.add(place + 1)
    return frozenset(orders)


def announces(sentence: str) -> bool:
    """Return whether an order announces that the words to say follow."""
    return _ANNOUNCES.search(plain(sentence)) is not None


def may_order(text: str) -> bool:
    """Return whether a text has a word that an order needs; most paragraphs have none, and are not searched further."""
    return bool(spelled_out(text)) or any(
        any(stem in words for stem in _stems("PAGE_STEMS")) or _may_address().search(" ".join(reading.split()))
        for reading in readings(text)
        for words in [_GAP.sub(" ", reading)]
    )


def mentions_of_orders(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a text that contain words of orders to an assistant, in any position."""
    shown = text.lower()
    if len(shown) == len(text):
        yield from (match.span() for match in _mentioned_orders().finditer(shown))


def _is_ordered(text: str) -> bool:
    if not has_sign(text):
        return False
    rest = _without_mentions(text, _question_orders())
    if _FOLLOW.fullmatch(rest):
        rest = text.translate(_UNQUOTED)
    return any(not _is_mentioned(rest, match) for match in _question_orders().finditer(rest))


def _without_mentions(text: str, orders: re.Pattern[str]) -> str:
    """Return the text without quoted orders; other quotations stay, without their marks."""

    def kept(quoted: re.Match[str]) -> str:
        return " " if orders.search(quoted[0][1:-1]) else f" {quoted[0][1:-1]} "

    return _QUOTED.sub(kept, text)


def _meant(word: str) -> str:
    if word in _SLIPPING:
        return word
    near = (known for known in _SLIPPING if abs(len(known) - len(word)) <= 1 and OSA.distance(known, word) == 1)
    return next((known for known in near if len(known) > 5 or sorted(known) == sorted(word)), word)


def _is_mentioned(text: str, match: re.Match[str]) -> bool:
    """Return whether an order is part of a question about such words: `What about prompts like ignore your rules?`."""
    start = max(match.start("order"), match.start("abroad"), match.start("unspaced"))
    ends = [end.end() for end in _SENTENCE_END.finditer(text, 0, start)]
    before = text[ends[-1] if ends else 0 : start]
    return bool(_ASKS.match(before) and (_MENTIONS.search(before) or not _RULES.search(text, start, match.end())))
