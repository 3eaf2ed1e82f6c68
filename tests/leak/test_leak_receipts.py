"""A receipt outlives the page's readers: it is shown only to who may still read what it quotes."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brute_force import Judge, pages_told
from built_wiki import WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki, marker_of, restricted_wiki, some_principal

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.receipts.receipt import ReceiptError
from rag_serving.records.answers import Answer

ANYBODY, INSIDER = Principal(TENANT), Principal(TENANT, None, frozenset({"insiders"}))
OPERATOR = Principal(TENANT, None, frozenset({"insiders"}), frozenset({"operator"}))


def opened(home: Path, wiki: Wiki) -> Pipeline:
    return Pipeline.open(publish_wiki(home, wiki), TENANT, WordEmbedder())


SHARES = 10
Size = Callable[[int], int]


def test_a_shared_receipt_is_seen_by_whoever_may_read_all_its_pages(tmp_path: Path, seed: int, size: Size) -> None:
    wiki, dice = restricted_wiki(size(200), seed + 4100), random.Random(f"shares {seed}")
    judge, pipeline = Judge(wiki), opened(tmp_path, wiki)
    seen = hidden = 0
    for _ in range(SHARES):
        asker, target = some_principal(dice), dice.choice(judge.page_ids)
        answer = pipeline.ask(asker, f"What is the {marker_of(target)} rule?", explain=True)
        identifier, pages = answer.receipt_id or "", pages_read(answer)
        pipeline.proofs.share(asker, identifier)
        for who in (some_principal(dice), some_principal(dice), ANYBODY):
            may = all(judge.may_read(who, page) for page in pages)
            assert (shown(pipeline, who, identifier) is not None) == may, f"{who} and {pages} of {asker}"
            seen, hidden = seen + may, hidden + (not may)
            told = shown(pipeline, who, identifier) or {}
            assert all(judge.may_read(who, page) for page in pages_told({**told, "question": ""}) if page in pages)
    assert seen > SHARES / 4
    assert hidden > SHARES / 4
    pipeline.close()


def pages_read(answer: Answer) -> set[str]:
    """The pages of the passages that an answer was made from."""
    return {str(passage["page_id"]) for passage in answer.passages or ()}


def shown(pipeline: Pipeline, who: Principal, identifier: str) -> dict[str, Any] | None:
    """What somebody gets of a receipt, whether he asks for it or for its proof; None: it is not there for him."""
    try:
        return {**pipeline.receipt(who, identifier), "proof": pipeline.proof(identifier, who).payload()}
    except ReceiptError:
        with pytest.raises(ReceiptError):
            pipeline.proof(identifier, who)
        return None


def with_restriction(wiki: Wiki, page_ids: frozenset[str], group: str) -> Wiki:
    """The same wiki after somebody restricted these pages to a group."""
    changed = copy.deepcopy(wiki)
    for one in [one for found in changed.envelopes.values() for one in found if one["id"] in page_ids]:
        one["restrictions"]["read"]["restrictions"]["group"]["results"] = [{"type": "group", "name": group}]
    return changed


def test_a_receipt_is_no_longer_shown_to_who_may_no_longer_read_its_pages(
    tmp_path: Path, seed: int, size: Size
) -> None:
    wiki = restricted_wiki(size(200), seed + 4000)
    judge = Judge(wiki)
    target = next(page for page in reversed(judge.page_ids) if judge.may_read(ANYBODY, page))
    pipeline = opened(tmp_path, wiki)
    answer = pipeline.ask(ANYBODY, f"What is the {marker_of(target)} rule?", explain=True)
    identifier, passages = answer.receipt_id or "", pages_told(answer.payload())
    assert pipeline.receipt(ANYBODY, identifier)["passages"]
    pipeline.close()

    restricted = opened(tmp_path, with_restriction(wiki, passages, "insiders"))
    assert restricted.receipt(OPERATOR, identifier)["passages"]
    for who in (ANYBODY, INSIDER):  # the one who asked may no longer read it, the other did not ask
        with pytest.raises(ReceiptError):
            restricted.receipt(who, identifier)
    assert restricted.proof(identifier).faults == ()
    restricted.close()

    purged = opened(tmp_path, wiki.without(passages))
    for who in (ANYBODY, INSIDER, OPERATOR):
        with pytest.raises(ReceiptError):
            purged.receipt(who, identifier)
    purged.close()
