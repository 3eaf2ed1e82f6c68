"""Other wordings of a question, by rule: as keywords, in synonyms, with typed errors.

Belongs here: rules that keep what is asked for. Does not belong here: where questions come from.
Every choice is drawn from the question itself and a seed, so that the same pages give the same questions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise

from rag_serving.text.analyzer import STOP_WORDS

_PLAIN = re.compile(r"[a-z]{5,}")
_ENDING = re.compile(r"[?!.\s]+$")
_HOW = re.compile(r"^how (?:do|can) (?:i|we|you) ", re.IGNORECASE)
_HOW_ELSE = ("how to ", "how can I ", "how do we ", "what's the way to ", "steps to ", "I need to ", "how would I ")
_WHAT = re.compile(r"^what (?:is|are) ", re.IGNORECASE)
_WHAT_ELSE = ("what's ", "tell me ", "whats ", "explain ")
_VERBS = {
    "install": ("set up",),
    "set up": ("configure", "install"),
    "configure": ("set up",),
    "remove": ("delete", "get rid of"),
    "delete": ("remove", "get rid of"),
    "create": ("make", "add"),
    "add": ("create",),
    "start": ("launch", "bring up"),
    "stop": ("shut down",),
    "run": ("execute", "start"),
    "execute": ("run",),
    "choose": ("pick", "select", "decide on"),
    "select": ("choose", "pick"),
    "change": ("modify", "edit"),
    "modify": ("change",),
    "fix": ("solve", "repair"),
    "troubleshoot": ("debug", "fix problems with"),
    "build": ("compile",),
    "use": ("work with",),
    "upgrade": ("update",),
    "get": ("obtain",),
    "handle": ("deal with",),
    "ask for": ("request",),
    "request": ("ask for",),
    "define": ("declare", "specify"),
    "write": ("make", "create"),
    "test": ("check", "try out"),
    "check": ("verify", "test"),
    "improve": ("make better",),
    "find": ("look up",),
    "avoid": ("prevent",),
}
_NOUNS = {
    "maximum": ("max", "highest"),
    "minimum": ("min", "lowest"),
    "documentation": ("docs",),
    "configuration": ("config", "settings"),
    "parameters": ("options",),
    "directory": ("folder",),
    "repository": ("repo",),
    "requirements": ("prerequisites",),
    "prerequisites": ("requirements",),
    "allowed": ("permitted", "ok"),
    "required": ("needed",),
    "limit": ("maximum",),
    "limits": ("maximum",),
    "rejected": ("discarded",),
    "alternatives": ("other options",),
    "proposed": ("suggested",),
    "motivation": ("reason",),
}
_SYNONYMS = {**_VERBS, **_NOUNS}
_SYNONYM = re.compile(
    rf"(?<=^how do I )({'|'.join(_VERBS)})(?= )|(?<![\w.-])({'|'.join(_NOUNS)})(?![\w.-])", re.IGNORECASE
)
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {one: other for row in _KEYS for one, other in pairwise(row)}


def rewordings(question: str, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield other wordings, each with the name of its rule; rules that change nothing yield nothing."""
    chance = random.Random(f"{seed}:{question}")
    seen = {question}
    for name, reworded in (
        ("opening", _another_opening(question, chance)),
        ("plain", _ENDING.sub("", question).lower()),
        ("keywords", keywords(question)),
        ("synonym", in_synonyms(question, chance)),
        ("misspelt", misspelt(_ENDING.sub("", question).lower(), chance)),
    ):
        if reworded and reworded not in seen:
            seen.add(reworded)
            yield name, reworded


def keywords(question: str) -> str:
    """Return the words that carry a topic; empty where fewer than two are left."""
    kept = [word for word in _ENDING.sub("", question).lower().split() if word.strip(",;:()\"'") not in STOP_WORDS]
    return " ".join(word.strip(",;()\"'") for word in kept) if len(kept) > 1 else ""


def in_synonyms(question: str, chance: random.Random) -> str:
    """Return the question with one word in another; empty where no word has any."""
    found = list(_SYNONYM.finditer(question))
    if not found:
        return ""
    match = chance.choice(found)
    other = chance.choice(_SYNONYMS[match[0].lower()])
    return question[: match.start()] + other + question[match.end() :]


def misspelt(question: str, chance: random.Random) -> str:
    """Return the question with one or two typed errors, never in a name with digits or signs; empty where no word is
    long enough."""
    words = question.split(" ")
    places = [place for place, word in enumerate(words) if _PLAIN.fullmatch(word) and word not in STOP_WORDS]
    if not places:
        return ""
    for place in chance.sample(places, min(len(places), chance.choice((1, 1, 2)))):
        words[place] = typo(words[place], chance)
    return " ".join(words)


def typo(word: str, chance: random.Random) -> str:
    """Return a word of five letters or more with one error behind its first letter."""
    place = chance.randrange(1, len(word) - 1)
    before, here, after = word[:place], word[place], word[place + 1 :]
    return chance.choice(
        (
            before + after,
            before + here + here + after,
            before + after[0] + here + after[1:],
            before + chance.choice(_NEIGHBOURS.get(here, here)) + after,
        )
    )


def _another_opening(question: str, chance: random.Random) -> str:
    for opening, others in ((_HOW, _HOW_ELSE), (_WHAT, _WHAT_ELSE)):
        if match := opening.match(question):
            return chance.choice(others) + _ENDING.sub("", question[match.end() :])
    return ""
