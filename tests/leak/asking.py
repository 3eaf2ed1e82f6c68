"""Random principals with random questions, and what the answers tell of pages that they may not read."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from brute_force import Judge, Texts, pages_told
from restricted_wiki import marker_of, name_of, sentence, some_principal

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.models.protocols import Embedder
from rag_serving.receipts.receipt import ReceiptError
from rag_serving.records.queries import Filters
from rag_serving.retrieval.search import search_candidates
from rag_serving.retrieval.stages import SearchOptions

Payload = Mapping[str, Any]
Fault = Callable[[Principal, object], list[str]]

_SHARES = {"search": 500, "filtered": 200, "dense": 130, "lexical": 120, "ask": 47, "receipt": 3}


def told_by_markers(judge: Judge) -> Fault:
    """Which pages a payload tells of that the principal may not read, by their ids and markers."""

    def faults(who: Principal, payload: object) -> list[str]:
        return [page_id for page_id in pages_told(payload) if not judge.may_read(who, page_id)]

    return faults


def told_by_words(judge: Judge, texts: Texts) -> Fault:
    """Which words of a payload stand only on pages that the principal may not read."""

    def faults(who: Principal, payload: object) -> list[str]:
        told = texts.owners_told(payload)
        return [run for run, owners in told if not any(judge.may_read(who, owner) for owner in owners)]

    return faults


@dataclass
class Asker:
    """Asks one wiki's pipeline, pair by pair, the same for the same seed."""

    pipeline: Pipeline
    embedder: Embedder
    judge: Judge
    faults: Fault
    dice: random.Random
    principal: Callable[[random.Random], Principal] = some_principal
    asked: Counter[str] = field(default_factory=Counter)
    receipts: list[str] = field(default_factory=list)

    def leaks(self, pairs: int) -> Iterator[str]:
        """A line for each leak among so many (principal, query) pairs."""
        for _ in range(pairs):
            yield from self.leaks_of(self.dice.choice(self.judge.page_ids))

    def leaks_of(self, target: str) -> Iterator[str]:
        """Ask about one page as some principal; a line for each leak."""
        who, query = self.principal(self.dice), self.query(target)
        kind = self.dice.choices(list(_SHARES), list(_SHARES.values()))[0]
        self.asked[kind] += 1
        self.asked["about a page that may not be read"] += not self.judge.may_read(who, target)
        payload = without_echo(self.payload(kind, who, query, target), query)
        self.asked["results"] += len(payload.get("results") or payload.get("citations") or ())
        for fault in self.faults(who, payload):
            yield f"{kind} {query!r} by {who} tells of {fault}"

    def query(self, target: str) -> str:
        """Words that would find the target: its title, its own text, its id; or only common words."""
        page = self.judge.envelope(target)
        body = re.sub(r"<[^>]*>", " ", page["body"]["storage"]["value"]).split()
        at = self.dice.randrange(max(1, len(body) - 12))
        verbatim = " ".join(body[at : at + 12])
        kinds = [page["title"], verbatim, f"What is the {marker_or_title(page)} rule?", target, sentence(self.dice, 4)]
        if self.dice.random() < 0.4:
            kinds = asked_precisely(self.dice, page, verbatim)
        return str(self.dice.choice(kinds)) or target

    def payload(self, kind: str, who: Principal, query: str, target: str) -> Payload:
        """What the principal receives, without the words of the question itself."""
        if kind in ("dense", "lexical"):
            return self._in_one_mode(kind, who, query)
        if kind == "ask":
            answer = self.pipeline.ask(who, query, explain=self.dice.random() < 0.5)
            self.receipts.append(answer.receipt_id or "")
            return answer.payload()
        if kind == "receipt":
            return self._receipt(who, query)
        filters = self._filters(target) if kind == "filtered" else None
        return self.pipeline.search(who, query, self.dice.choice([1, 5, 10, 10, 30]), filters, explain=True).payload()

    def _in_one_mode(self, mode: Any, who: Principal, query: str) -> Payload:
        settings = self.pipeline.config.retrieval
        with self.pipeline.published.acquire() as generation:
            options = SearchOptions(settings, mode, 20)
            search = search_candidates(generation.for_reader(who), self.embedder, query, options)
            return {"results": [found.result() for found in search.context.passages.candidates(search.ranking)]}

    def _filters(self, target: str) -> Filters:
        page = self.judge.envelope(target)
        labels = tuple(one["name"] for one in page["metadata"]["labels"]["results"])
        return self.dice.choice(
            [
                Filters(space=(page["space"]["key"],)),
                Filters(title=tuple(page["title"].split()[-1:])),
                Filters(labels=labels[:1]),
                Filters(space=(page["space"]["key"],), labels=labels[:1]),
            ]
        )

    def _receipt(self, who: Principal, query: str) -> Payload:
        """The receipt of an answer that somebody else was given, without the question that they asked."""
        if not self.receipts:
            other = self.principal(self.dice)
            self.receipts.append(self.pipeline.ask(other, query).receipt_id or "")
        try:
            receipt = self.pipeline.receipt(who, self.dice.choice(self.receipts))
        except ReceiptError:
            return {}
        self.asked["receipts shown"] += 1
        return {name: value for name, value in receipt.items() if name not in ("question", "filters")}


def asked_precisely(dice: random.Random, page: Payload, verbatim: str) -> list[str]:
    """Questions with operators, quoted phrases, scopes in words and misspelt words, all about one page."""
    labels = [one["name"] for one in page["metadata"]["labels"]["results"]] or ["howto"]
    title, space = page["title"], page["space"]["key"]
    return [
        f'title:"{title}" {sentence(dice, 2)}',
        f"{sentence(dice, 3)} space:{space.lower()} label:{labels[0]}",
        f"{sentence(dice, 3)} in space {space}",
        f"{sentence(dice, 3)} labelled {labels[0]}",
        f"{sentence(dice, 3)} in the {title}",
        f'"{" ".join(verbatim.split()[:4])}"',
        *(f"{misspelt(dice, name_of(page['id']))} {sentence(dice, 1)}" for _ in range(3)),
        misspelt(dice, title),
    ]


def misspelt(dice: random.Random, text: str) -> str:
    """With one letter of the first word lost, another, or at its neighbour's place."""
    at = dice.randrange(1, 4)
    before, here, after = text[:at], text[at : at + 1], text[at + 1 :]
    return dice.choice([before + after, before + "e" + after, before + after[:1] + here + after[1:]])


def without_echo(payload: Payload, query: str) -> Payload:
    """The payload without what its notes, options and reasons, and how the query was read, only repeat of the query."""
    asked = set(re.findall(r"\w+", query.lower()))

    def without(text: str) -> str:
        return re.sub(r"\w+", lambda word: "" if word[0].lower() in asked else word[0], text)

    rest = dict(payload)
    if notes := payload.get("notes"):
        rest["notes"] = [without(note) for note in notes]
    if read := payload.get("query"):
        rest["query"] = without(json.dumps(read, ensure_ascii=False))
    if told := payload.get("clarification"):  # a word that was read as another is offered as it was typed
        options = [
            {name: without(text) if isinstance(text, str) else text for name, text in option.items()}
            if option["kind"] == "spelling"
            else option
            for option in told["options"]
        ]
        rest["clarification"] = {"text": without(told["text"]), "options": options}
    if why := payload.get("why"):  # reasons name words of the query; titles, ids and headings stay
        passages = [
            {**each, "why": without(each["why"]), "reasons": without(json.dumps(each["reasons"], ensure_ascii=False))}
            for each in why["passages"]
        ]
        rest["why"] = {**why, "passages": passages}
    return rest


def marker_or_title(page: Payload) -> str:
    """What nothing but this page is called."""
    return marker_of(page["id"]) if page["id"].startswith("8800") else str(page["title"])
