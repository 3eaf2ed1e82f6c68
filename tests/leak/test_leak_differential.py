"""A principal receives to the last bit what it would receive if the pages that it may not read had never been written.

Not even a score, a count or an order tells of them. Only what names a build is left out: timings, the generation's id,
and the receipt's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brute_force import Judge
from partial_wikis import SECRET, received, some_query
from restricted_wiki import Wiki, restricted_wiki, some_principal
from sharing_wiki import sharing_wiki

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.ask import Pipeline
from rag_serving.receipts.receipt import ReceiptError
from rag_serving.records.queries import Filters
from rag_serving.retrieval.hybrid import Mode

QUERIES = 30
_OF_THE_BUILD = frozenset({"timings_ms", "generation", "receipt_id", "created_at", "sealed", "signature", "id"})


@pytest.fixture(scope="module", params=["of their own", "of others"])
def wiki(seed: int, size: Callable[[int], int], request: pytest.FixtureRequest) -> Wiki:
    """Pages of text of their own, and such as show text of others."""
    is_shared = request.param == "of others"
    return sharing_wiki(size(200), seed + 1000) if is_shared else restricted_wiki(size(300), seed + 1000)


@pytest.fixture(scope="module")
def whole(wiki: Wiki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """All of the wiki, whose receipts name their asker by the same secret as those of a part of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_ENV, SECRET)
        opened = received(tmp_path_factory.mktemp("whole"), wiki)
        yield opened
        opened.close()


@pytest.mark.parametrize("mode", ["keyword_documents", "keyword_chunks"])
def test_hidden_pages_change_nothing_of_what_keywords_find(
    tmp_path: Path, wiki: Wiki, whole: Pipeline, seed: int, mode: Mode
) -> None:
    dice = random.Random(f"keywords {seed} {mode}")
    judge, who = Judge(wiki), some_principal(dice)
    hidden = judge.unreadable(who)
    assert hidden
    rest = received(tmp_path, wiki.without(hidden))
    whole.mode = rest.mode = mode
    try:
        for _ in range(QUERIES):
            query = some_query(dice, judge)
            for got, wanted in zip(answers(whole, who, query, None), answers(rest, who, query, None), strict=True):
                assert got == wanted, f"{who} asked {query!r}"
    finally:
        whole.mode = None
        rest.close()


@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.nightly) for number in (1, 2))])
def test_hidden_pages_might_as_well_not_exist(
    tmp_path: Path, wiki: Wiki, whole: Pipeline, seed: int, number: int
) -> None:
    dice = random.Random(f"differential {seed} {number}")
    judge, who = Judge(wiki), some_principal(dice)
    hidden = judge.unreadable(who)
    assert hidden
    rest = received(tmp_path, wiki.without(hidden))
    for _ in range(QUERIES):
        query = some_query(dice, judge)
        filters = Filters(space=("OPEN",)) if dice.random() < 0.3 else None
        for got, wanted in zip(answers(whole, who, query, filters), answers(rest, who, query, filters), strict=True):
            assert got == wanted, f"{who} asked {query!r}"
    rest.close()


def answers(pipeline: Pipeline, who: Principal, query: str, filters: Filters | None) -> list[str]:
    """Everything that one question brings, as JSON text."""
    answer = pipeline.ask(who, query, filters, explain=True)
    payloads = [
        pipeline.search(who, query, 50, filters, explain=True).payload(),
        answer.payload(),
        _receipt(pipeline, who, answer.receipt_id or ""),
    ]
    return [json.dumps(_of_the_pages(payload), sort_keys=True) for payload in payloads]


def _receipt(pipeline: Pipeline, who: Principal, receipt_id: str) -> dict[str, Any]:
    """What is shown of a receipt; nothing to whom none can be shown."""
    try:
        return pipeline.receipt(who, receipt_id)
    except ReceiptError:
        return {}


def _of_the_pages(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in _OF_THE_BUILD}
