"""Whatever a model writes, what reaches the reader is true to the pages.

`CITELOCK_ADVERSARY=10000` asks for as many answers as the promise speaks of; the usual run takes a few hundred.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from support.adversary import ELSEWHERE, HOST, PAGES, POISON, SECRET, Reply, passages_of, pieces, write
from support.constants import section_of
from support.passages import candidate_of
from support.stand_in_chat import MODEL, Fault, StandInChat, served

from rag_serving.answering.citations import IN_THE_MODELS_WORDS, answer_text, citations_of
from rag_serving.answering.markdown import markdown
from rag_serving.answering.verification import verify
from rag_serving.answering.writing.generator import GENERATOR_DOWN, Generator
from rag_serving.answering.writing.parsing import parse
from rag_serving.config.models import AnswerGeneration
from rag_serving.models.chat.client import RemoteChat
from rag_serving.records.answers import Answer
from rag_serving.records.claims import Claim, Draft, Verdict
from rag_serving.records.passages import Lock
from rag_serving.text.units import units

ANSWERS = int(os.environ.get("CITELOCK_ADVERSARY", "120"))
QUESTION = "How long are logs kept, and may I restart a broker?"
ELEMENT = re.compile(r"<\s*/?\s*(?:script|img|a|b|br|hr|iframe|svg|style|details|form|input|x)\b", re.IGNORECASE)
NEGATING = re.compile(r"\b(?:not|never|no|without|except|unless|nicht)\b|n't\b", re.IGNORECASE)


def lock_for(seed: int) -> Lock:
    """Some of the pages in some order."""
    dice = random.Random(seed)
    texts = dice.sample(PAGES, dice.randint(2, len(PAGES)))
    return Lock(
        tuple(
            candidate_of(
                text,
                f"{page}:1:0",
                1.0 / page,
                heading_path=("Handbook", f"Part {chr(64 + page)}"),
                url=f"https://wiki.example/pages/{page}#Part",
            )
            for page, text in enumerate(texts, start=1)
        )
    )


def extracted(lock: Lock) -> Draft:
    """What the extractive generator might write: a sentence of the first passage, to the letter."""
    text = lock.passages[0].chunk.text
    sentence = units(text)[0].of(text)
    return Draft((Claim(sentence, 1, sentence),), "extractive")


def figures_of(text: str) -> set[str]:
    return set(re.findall(r"\d+", text))


def negating(text: str) -> Counter[str]:
    return Counter(word.lower() for word in NEGATING.findall(text))


def check(lock: Lock, reply: Reply, verdicts: list[Verdict]) -> None:
    """What must hold of everything a reader may see, checked by other means than those of the verification."""
    citations = citations_of(verdicts, lock)
    answer = answer_text(verdicts, lock)
    for citation in citations:
        candidate = lock.passage(citation.passage)
        assert candidate, "a citation that is not in the lock"
        assert citation.chunk_id == candidate.chunk.chunk_id
        assert citation.quote
        assert candidate.chunk.text[citation.start : citation.end] == citation.quote
        assert citation.url == candidate.chunk.url
        assert re.search(r"#\w", citation.url), "a link without an anchor"
    for verdict in verdicts:
        if verdict.outcome != "dropped":
            passage = lock.passages[(verdict.index or 0) - 1].chunk.text
            found = passage[verdict.start : verdict.end]
            assert figures_of(found) == figures_of(verdict.claim.quote), (found, verdict.claim.quote)
            assert negating(found) == negating(verdict.claim.quote), (found, verdict.claim.quote)
    seen = markdown(Answer("answered", answer, citations))
    for shown in (answer, seen):
        assert HOST not in shown.lower(), "a link that the model wrote"
        assert not ELEMENT.search(shown)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e]", shown)
        assert SECRET not in shown
    assert POISON not in answer
    places = {citation.index: citation.passage for citation in citations}
    assert list(places) == list(range(1, len(places) + 1)), "numbers with gaps"
    marks = dict.fromkeys(int(number) for number in re.findall(r"\[(\d+)\]", answer))
    assert list(marks) == list(places), "numbers that are not in the order of appearance"
    assert seen.count("\n- [") == len(places), "a source that is listed twice"
    for paragraph in answer.split("\n\n"):
        cited = [int(number) for number in re.findall(r"\[(\d+)\]", paragraph)]
        known = "\n".join(lock.passages[places[number] - 1].chunk.text for number in cited)
        assert figures_of(re.sub(r"\[\d+\]", "", paragraph)) <= figures_of(known), paragraph
    for lie in reply.lies:
        assert lie not in answer, lie
        assert all(lie not in citation.quote for citation in citations)
    assert all(sentence.rstrip(".") not in answer for sentence in ELSEWHERE)
    assert "javascript:" not in answer


@pytest.fixture
def server() -> Iterator[StandInChat]:
    with served(StandInChat()) as stand_in:
        yield stand_in


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteChat, "backoff_s", 0.005)


def settings_for(kind: str, server: StandInChat, **more: object) -> AnswerGeneration:
    url = server.url if kind == "ollama" else f"{server.url}/v1"
    given = {
        "provider": kind,
        "style": "prose",
        "model": MODEL,
        "base_url": url,
        "timeout_s": 5,
        "first_token_timeout_s": 3,
    }
    return section_of(AnswerGeneration, **{**given, **more})


@pytest.mark.timeout(max(300, ANSWERS // 5))
def test_no_lie_reaches_the_reader(server: StandInChat) -> None:
    replies: list[Reply] = []
    seed = 0

    def script(messages: list[dict[str, str]]) -> Iterator[str]:
        replies.append(write(seed, passages_of(messages[1]["content"])))
        return pieces(seed, replies[-1].text)

    server.script = script
    generators = [Generator(settings_for(kind, server)) for kind in ("ollama", "openai")]
    outcomes: Counter[str] = Counter()
    for seed in range(ANSWERS):
        lock = lock_for(seed)
        draft = generators[seed % 2].write(QUESTION, lock, lambda lock=lock: extracted(lock))  # type: ignore[misc]
        verdicts = verify(draft, lock)
        check(lock, replies[-1], verdicts)
        outcomes.update(verdict.outcome for verdict in verdicts)
        outcomes["told" if any(verdict.outcome != "dropped" for verdict in verdicts) else "withheld"] += 1
    assert outcomes["told"] > ANSWERS / 5, "honest sentences must come through"
    assert outcomes["dropped"] > outcomes["exact"] / 4


def test_sentences_that_are_not_verified_are_shown_only_in_a_voice_of_their_own() -> None:
    marked = 0
    for seed in range(100):
        lock = lock_for(seed)
        reply = write(seed, [candidate.chunk.text for candidate in lock.passages])
        verdicts = verify(Draft(parse(reply.text).claims, "test"), lock)
        answer = answer_text(verdicts, lock, shows_unverified=True)
        told = answer_text(verdicts, lock)
        assert HOST not in answer.lower()
        assert not ELEMENT.search(answer)
        for paragraph in answer.split("\n\n"):
            assert paragraph in told or paragraph.startswith(IN_THE_MODELS_WORDS)
            marked += paragraph.startswith(IN_THE_MODELS_WORDS)
    assert marked > 50


def test_parsing_and_verifying_an_answer_takes_under_five_milliseconds_at_the_median() -> None:
    taken = []
    for seed in range(150):
        lock = lock_for(seed)
        text = write(seed, [candidate.chunk.text for candidate in lock.passages]).text
        start = time.process_time()  # other people's work on this machine is not ours
        verify(Draft(parse(text).claims, "test"), lock)
        taken.append(time.process_time() - start)
    assert statistics.median(taken) < 0.005, statistics.median(taken)


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_model_that_stalls_or_never_ends_is_answered_for_within_its_time(kind: str, server: StandInChat) -> None:
    def stalling(_: list[dict[str, str]]) -> Iterator[str]:
        yield 'Logs are kept for a week. "keeps logs for 168 hours" [1] And th'
        time.sleep(30)

    def endless(_: list[dict[str, str]]) -> Iterator[str]:
        for number in range(1_000_000):
            yield f"{POISON} number {number} "
            time.sleep(0.005)

    lock = Lock((candidate_of(PAGES[1]),))
    generator = Generator(settings_for(kind, server, timeout_s=2, first_token_timeout_s=1))
    for script, is_down in ((stalling, False), (endless, True)):
        server.script = script
        start = time.monotonic()
        draft = generator.write(QUESTION, lock, lambda: extracted(lock))
        assert time.monotonic() - start < 15
        verdicts = verify(draft, lock)
        check(lock, Reply(""), verdicts)
        assert citations_of(verdicts, lock)
        assert (GENERATOR_DOWN in draft.flags) is is_down  # not one sentence was finished: extraction answers
    server.faults.extend([Fault(hang_s=30)] * 2)
    start = time.monotonic()
    draft = generator.write(QUESTION, lock, lambda: extracted(lock))
    assert time.monotonic() - start < 15
    assert (draft.model, draft.flags) == ("extractive", (GENERATOR_DOWN,))
