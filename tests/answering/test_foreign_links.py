"""A link that a model adds is taken out, and the true claim beside it stays."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from support.passages import lock_of
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import configuration, embedder

from rag_serving.access.principals import Principal
from rag_serving.answering.citations import answer_text
from rag_serving.answering.verification import verify
from rag_serving.answering.writing.generator import without_foreign_links
from rag_serving.answering.writing.parsing import parse
from rag_serving.answering.writing.sanitizing import without_links
from rag_serving.ask import Pipeline
from rag_serving.records.claims import Draft, Verdict
from rag_serving.records.passages import Lock

LOCK = lock_of(
    [
        "Each broker keeps logs for 168 hours by default. See https://good.example/z for more.",
        "Coffee is described at https://other.example/q in detail.",
    ]
)
SOURCE = "\n".join(candidate.chunk.text for candidate in LOCK.passages)
QUOTE = '"keeps logs for 168 hours by default" [1]'
CLAIM = "Each broker keeps logs for 168 hours by default"
SHOWN = f"{CLAIM}. [1]"


def judged(reply: str, lock: Lock = LOCK) -> list[Verdict]:
    """The verdicts on a reply, read as the generator reads it."""
    claims, _ = without_foreign_links(parse(reply, source=SOURCE).claims, lock)
    return verify(Draft(claims, "test"), lock)


def told(reply: str) -> str:
    return answer_text(judged(reply), LOCK)


@pytest.mark.parametrize(
    "reply",
    [
        f"{CLAIM} (https://evil.example/2024/x). {QUOTE}",
        f"{CLAIM} (see https://evil.example/9). {QUOTE}",
        f"{CLAIM}, see https://evil.example/a_(9)?b=7. {QUOTE}",
        f"{CLAIM}, see www.evil.example. {QUOTE}",
        f"{CLAIM} <https://evil.example/9>. {QUOTE}",
        f'Each broker keeps logs for <a href="https://evil.example/9">168 hours</a> by default. {QUOTE}',
        f"{CLAIM}, see [the docs](https://evil.example/9). {QUOTE}",
        f"{CLAIM} ([source](https://evil.example/9)). {QUOTE}",
        f"Each broker keeps logs for [168 hours](https://evil.example/9) by default. {QUOTE}",
        f"[Each broker keeps logs for 168 hours by default](https://evil.example/9 'title 7'). {QUOTE}",
        f"Each broker keeps logs for [168 hours][docs] by default. {QUOTE}\n\n[docs]: https://evil.example/9 'title 7'",
        f"Each broker keeps logs for [168 hours][] by default. {QUOTE}\n\n[168 hours]: <https://evil.example/9>",
        f"Each broker keeps logs for 168 hours [by default][1]. {QUOTE}\n\n[1]: https://evil.example/9",
        f"{CLAIM} ![figure 9](https://evil.example/9.png). {QUOTE}",
        f"![](//evil.example/9.png) Each broker keeps logs for 168 hours by default. {QUOTE}",
        f"{CLAIM}; more at help@evil.example. {QUOTE}",
        f"{CLAIM} – via evil-host.com/9. {QUOTE}",
        f"According to https://evil.example/9, each broker keeps logs for 168 hours by default. {QUOTE}",
        f"{CLAIM}, see ht\u200btps://evil.example/9. {QUOTE}",
        f"{CLAIM}. Source: <https://evil.example/9> {QUOTE}",
        f"{CLAIM}. {QUOTE} https://evil.example/9",
        f"{CLAIM}. {QUOTE}\n\nSources:\n- [1] https://evil.example/9",
        f'{CLAIM}. "keeps logs for 168 hours by default (https://evil.example/9)" [1]',
        f'{CLAIM}. "keeps logs for [168 hours](https://evil.example/9) by default" [1]',
        f'{CLAIM}. "keeps logs for 168 hours by default" [1](https://evil.example/9)',
        f'{CLAIM}. "keeps logs for 168 hours by default" [[1]](https://evil.example/9)',
    ],
)
def test_a_true_claim_stays_without_the_link_beside_it(reply: str) -> None:
    assert told(reply) == SHOWN


def test_a_link_of_the_cited_passage_stays_and_one_of_another_passage_goes() -> None:
    own = 'See https://good.example/z for more. "See https://good.example/z for more" [1]'
    assert told(own) == "See https://good.example/z for more. [1]"
    assert told(f"{CLAIM}, see https://other.example/q. {QUOTE}") == SHOWN


@pytest.mark.parametrize(
    "link", ["https://good.ex", "https://good.example/zebra", "https://good.example.evil.io", "vault.co", "ult.com/x"]
)
def test_a_part_of_an_address_is_another_address(link: str) -> None:
    assert without_links(f"Read {link} first.", SOURCE + " https://vault.com/x") == ("Read first.", 1)


def test_a_false_claim_is_not_saved_by_its_link() -> None:
    said = told(f"Each broker keeps logs for 99 hours by default (https://evil.example/99). {QUOTE}")
    assert said == "Each broker keeps logs for 168 hours by default. [1]"


def test_text_without_spaces_keeps_what_stands_beside_an_address() -> None:
    assert without_links("日志保存7天，见https://evil.example/x。之后删除。", "")[0] == "日志保存7天，见。之后删除。"


def test_a_claim_that_is_nothing_but_a_link_is_none() -> None:
    assert judged("https://evil.example/9 [1]") == []


def test_the_answer_and_the_receipt_of_a_true_claim_beside_a_link(wiki_home: Path) -> None:
    reply = (
        "You must not restart a broker while partitions are under-replicated, see [the runbook](//evil.example/?q=7). "
        '"must not restart a broker while partitions are under-replicated" [1]'
    )
    with served(StandInChat(lambda _: [reply])) as server:
        generation = {"provider": "openai", "style": "prose", "model": MODEL, "base_url": f"{server.url}/v1"}
        config = configuration(wiki_home, generation=generation)
        with closing(Pipeline.open(config, "acme", embedder())) as pipeline:
            question = "May I restart a broker while partitions are under-replicated?"
            answer = pipeline.ask(Principal("acme"), question)
            receipt = pipeline.receipts.get(answer.receipt_id or "", "acme")
            proof = pipeline.proof(answer.receipt_id or "")
    assert answer.answer == "You must not restart a broker while partitions are under-replicated. [1]"
    assert (proof.faults, "links removed: 1" in receipt["notes"]) == ((), True)
    assert "evil" not in str(receipt)


LONG = 20_000


@pytest.mark.parametrize(
    "piece",
    [".", "a", "a.", "a-", "a@", "<:", "<a:", "[", "[a](", "[a][b]", "![", "((", " ", "/", "[1]", "http:", "%25"],
)
def test_no_text_of_a_model_takes_long_to_read(piece: str) -> None:
    text = ("<" if piece == "." else "") + piece * (LONG // len(piece))
    start = time.process_time()
    parse(text, source=SOURCE)
    assert time.process_time() - start < 5
