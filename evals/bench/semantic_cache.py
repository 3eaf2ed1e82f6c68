"""Measure how often the answer cache returns the answer of another question, and of the same one in other words.

    python -m evals.bench.semantic_cache [--pairs 2000] [--json]

Belongs here: pairs of questions generated from real ones, the cache's result for each, the similarity of their vectors.
Does not belong here: the cache (`rag_serving.caching`).

Pairs that must not meet differ in one number, one name, one other significant word, or in a negation or an opposite.
Pairs that may meet are other wordings of one question. For both the report compares the vectors alone at each threshold
with the cache.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from evals.bench.real_text import DATA
from rag_serving.caching.answers import AnswerCache, AnswerScope, CachedAnswer, Vector
from rag_serving.config.models import Embedding
from rag_serving.config.sections import Cache
from rag_serving.models import open_embedder
from rag_serving.models.protocols import Embedder
from rag_serving.records.answers import Answer
from rag_serving.records.passages import Lock
from rag_serving.text.analyzer import STOP_WORDS, stems
from rag_serving.text.question_types import is_claim

GOLD = Path(__file__).parents[1] / "gold"
THRESHOLDS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98)
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w])")
_NAME = re.compile(r"(?<=[a-z,] )(?:[A-Z][\w.-]*[a-z0-9]|[A-Z]{2,}\d*)(?=[ ?,.])")
_THING = re.compile(r"(?<![\w.'-])[a-z]{5,}(?![\w'-])")
_OPPOSITES = """
before after|first last|more less|most least|enable disable|enabled disabled|with without|allowed forbidden|all some
maximum minimum|start stop|include exclude|increase decrease|largest smallest|highest lowest|earliest latest|to from
above below|can cannot|always never|oldest newest|open close|accept reject|is isn't|was wasn't|does doesn't|did didn't
are aren't|were weren't|who whose|won lost|is was|do did|are were
"""
_TURNED = {
    word: other
    for line in _OPPOSITES.strip().splitlines()
    for pair in line.split("|")
    for word, other in (pair.split(), pair.split()[::-1])
}


@dataclass(frozen=True)
class QuestionPair:
    """Two questions, and how the second was made of the first."""

    kind: str
    first: str
    second: str


@dataclass(frozen=True)
class PairOutcome:
    """A pair, the cosine similarity of its vectors, and whether the second question got the first one's answer."""

    pair: QuestionPair
    cosine: float
    is_hit: bool


def questions(data: Path = DATA) -> list[str]:
    """Return questions by people or makers of test sets, each once, in a fixed order: those of the gold sets, and of
    the real data if present."""
    found = [*_gold(), *_squad(data), *_beir(data)]
    return list(dict.fromkeys(" ".join(text.split()) for text in found if 12 <= len(text) <= 300))


def false_pairs(asked: Sequence[str], count: int, seed: int = 0) -> list[QuestionPair]:
    """Return so many pairs of different questions at most, as even over the kinds as the questions allow."""
    chance = random.Random(seed)
    names = sorted({match[0] for text in asked for match in _NAME.finditer(text)})
    things = sorted({match[0] for text in asked for match in _THING.finditer(text)} - STOP_WORDS - _TURNED.keys())
    makers: dict[str, Callable[[str], str | None]] = {
        "number": lambda text: _another_number(text, chance),
        "name": lambda text: _another(_NAME, text, names, chance),
        "thing": lambda text: _another(_THING, text, things, chance),
        "opposite": lambda text: _opposite(text, chance),
        "order": lambda text: _exchanged(text, chance),
    }
    shuffled = list(asked)
    chance.shuffle(shuffled)
    made = {
        kind: [QuestionPair(kind, text, other) for text in shuffled if (other := make(text))]
        for kind, make in makers.items()
    }
    chosen: list[QuestionPair] = []
    while len(chosen) < count and any(made.values()):
        chosen += [pairs.pop() for pairs in made.values() if pairs]
    return [pair for pair in chosen if _plain(pair.first) != _plain(pair.second)][:count]


def true_pairs(asked: Sequence[str], count: int, seed: int = 0) -> list[QuestionPair]:
    """Return so many pairs of wordings of one question at most."""
    chance = random.Random(seed)
    shuffled = [text for text in asked if not is_claim(text)]
    chance.shuffle(shuffled)
    made: list[QuestionPair] = []
    for text in shuffled:
        made += [QuestionPair(kind, text, other) for kind, other in _wordings(text, chance) if other and other != text]
        if len(made) >= count:
            break
    return made[:count]


def outcomes(pairs: Sequence[QuestionPair], embedder: Embedder, settings: Cache | None = None) -> list[PairOutcome]:
    """Return the outcome of each pair: the cache has the answer to the first question when the second arrives."""
    settings = settings or Cache()
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.first, pair.second)))
    vectors = dict(zip(texts, (embedder.embed_query(text) for text in texts), strict=True))
    return [_outcome(pair, vectors[pair.first], vectors[pair.second], settings) for pair in pairs]


def rates(found: Sequence[PairOutcome]) -> dict[str, Any]:
    """Return pairs and hits in all and by kind, and the share that vectors alone would let through."""
    kinds = sorted({each.pair.kind for each in found})
    cosines = np.array([each.cosine for each in found])
    return {
        "pairs": len(found),
        "hits": sum(each.is_hit for each in found),
        "hit_rate": round(float(np.mean([each.is_hit for each in found])), 4),
        "kinds": {
            kind: {
                "pairs": sum(each.pair.kind == kind for each in found),
                "hits": sum(each.is_hit for each in found if each.pair.kind == kind),
            }
            for kind in kinds
        },
        "by_vectors_alone": {str(limit): round(float((cosines >= limit).mean()), 4) for limit in THRESHOLDS},
        "cosine_of_hits": _spread([each.cosine for each in found if each.is_hit]),
    }


def _spread(cosines: Sequence[float]) -> dict[str, float]:
    """Return the least of some similarities, and those below which 1 % and 5 % of them are."""
    if not cosines:
        return {}
    return {f"p{part}": round(float(np.percentile(cosines, part)), 3) for part in (0, 1, 5)}


def _outcome(pair: QuestionPair, first: Vector, second: Vector, settings: Cache) -> PairOutcome:
    cache, scope = AnswerCache(settings), AnswerScope("bench", "one", "g", frozenset(), {})
    answer = CachedAnswer(Answer("answered", "An answer."), {}, Lock(()))
    cache.put(scope, pair.first, answer, lambda: first)
    return PairOutcome(pair, float(first @ second), cache.get(scope, pair.second, lambda: second) is not None)


def _another_number(text: str, chance: random.Random) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return ""
    match = chance.choice(found)
    digits = list(match[0])
    place = chance.randrange(len(digits))
    digits[place] = chance.choice([digit for digit in "123456789" if digit != digits[place]])
    return text[: match.start()] + "".join(digits) + text[match.end() :]


def _another(pattern: re.Pattern[str], text: str, others: Sequence[str], chance: random.Random) -> str:
    found = [match for match in pattern.finditer(text) if match[0] not in STOP_WORDS]
    if not found or not others:
        return ""
    match = chance.choice(found)
    other = chance.choice(others)
    return "" if _is_same(other, match[0]) else text[: match.start()] + other + text[match.end() :]


def _opposite(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    places = [place for place, word in enumerate(words) if word.lower() in _TURNED]
    if not places:
        return ""
    place = chance.choice(places)
    other = _TURNED[words[place].lower()]
    words[place] = other.capitalize() if words[place][0].isupper() else other
    return " ".join(words)


def _exchanged(text: str, chance: random.Random) -> str:
    """Return a question with two things exchanged, so that its meaning changes."""
    found = [match for match in _THING.finditer(text) if match[0] not in STOP_WORDS]
    if len(found) < 2:
        return ""
    first, second = sorted(chance.sample(found, 2), key=lambda match: match.start())
    if _is_same(first[0], second[0]):
        return ""
    between = text[first.end() : second.start()]
    return text[: first.start()] + second[0] + between + first[0] + text[second.end() :]


def _wordings(text: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield wordings that ask for the same, each with its kind."""
    bare = text.rstrip(" ?.!")
    lower = text[0].lower() + text[1:]
    is_asked = re.match(r"(?:what|which|who|when|where|why|how)\b", lower)
    yield "case and marks", bare.lower() + chance.choice(["", " ?", "??"])
    yield "greeting", chance.choice(["Hi, ", "Hello! ", "Good morning, ", "Hey team, "]) + lower
    yield "polite", chance.choice(["Please, ", "Quick question: "]) + lower
    yield "thanks", text + chance.choice([" Thanks!", " Thank you in advance."])
    if is_asked and (moved := re.match(r"(what|who|where) (is|are|was|were) (.+)$", bare, re.IGNORECASE)):
        said = f"{moved[1].lower()} {moved[3]} {moved[2]}"
        yield "indirect", chance.choice(["Can you tell me ", "I'd like to know ", "Do you know "]) + said + "?"
        yield "contracted", f"{moved[1]}'s {moved[3]}?" if moved[2].lower() == "is" else ""
    if steps := re.match(r"how (?:do|can) (?:i|we|you) (.+)$", bare, re.IGNORECASE):
        yield "steps", chance.choice(["how to ", "How can we ", "What is the way to ", "Steps to "]) + steps[1]
    if owned := re.match(r"(.*) the ([a-z]+) of (?:the )?(\w+)$", bare):
        yield "genitive", f"{owned[1]} {owned[3]}'s {owned[2]}?"
    yield "keywords", keywords(text)
    yield "synonym", in_synonyms(text, chance)


def _is_same(word: str, other: str) -> bool:
    """Return whether two words are forms of one."""
    first, second = stems([_plain(word), _plain(other)])
    return first == second


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _gold() -> Iterator[str]:
    for path in sorted(GOLD.rglob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for question in (content.get("questions") if isinstance(content, dict) else None) or ():
            if isinstance(question, dict) and isinstance(question.get("question"), str):
                yield question["question"]


def _squad(data: Path) -> Iterator[str]:
    for path in sorted(data.glob("squad2/*.json")):
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                yield from (asked["question"] for asked in paragraph["qas"])


def _beir(data: Path) -> Iterator[str]:
    for path in sorted(data.glob("*/queries.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield str(json.loads(line)["text"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000, help="pairs of each sort")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    asked, embedder = questions(), open_embedder(Embedding())
    found = {
        "different questions": outcomes(false_pairs(asked, given.pairs), embedder),
        "the same question": outcomes(true_pairs(asked, given.pairs), embedder),
    }
    report = {"questions": len(asked), **{name: rates(each) for name, each in found.items()}}
    if given.json:
        print(json.dumps(report, indent=1))
        return
    print(f"{len(asked)} questions")
    for name, each in found.items():
        told = rates(each)
        print(f"{name}: {told['hits']} of {told['pairs']} pairs meet ({100 * told['hit_rate']:.1f} %)")
        for kind, counts in told["kinds"].items():
            print(f"  {kind}: {counts['hits']} of {counts['pairs']}")
        print(
            "  by vectors alone: "
            + ", ".join(f"≥ {at}: {100 * rate:.1f} %" for at, rate in told["by_vectors_alone"].items())
        )
    for outcome in found["different questions"]:
        if outcome.is_hit:
            print(f"FALSE {outcome.pair.kind}: {outcome.pair.first!r} / {outcome.pair.second!r} ({outcome.cosine:.3f})")


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
    """Return the words that carry a topic; empty if fewer than two are left."""
    kept = [word for word in _ENDING.sub("", question).lower().split() if word.strip(",;:()\"'") not in STOP_WORDS]
    return " ".join(word.strip(",;()\"'") for word in kept) if len(kept) > 1 else ""


def in_synonyms(question: str, chance: random.Random) -> str:
    """Return the question with one word in another; empty if no word has any."""
    found = list(_SYNONYM.finditer(question))
    if not found:
        return ""
    match = chance.choice(found)
    other = chance.choice(_SYNONYMS[match[0].lower()])
    return question[: match.start()] + other + question[match.end() :]


def misspelt(question: str, chance: random.Random) -> str:
    """Return the question with one or two typed errors, never in a name with digits or signs; empty if no word is
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


if __name__ == "__main__":
    main()
