"""A receipt outlives the page's readers: it is shown only to who may still read what it quotes."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from brute_force import Judge, pages_told
from built_wiki import WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki, marker_of, restricted_wiki

from rag_serving.access.principals import Principal
from rag_serving.pipeline import Pipeline
from rag_serving.receipts.receipt import ReceiptError

ANYBODY, INSIDER = Principal(TENANT), Principal(TENANT, None, frozenset({"insiders"}))
OPERATOR = Principal(TENANT, None, frozenset({"insiders"}), frozenset({"operator"}))


def opened(home: Path, wiki: Wiki) -> Pipeline:
    return Pipeline.open(publish_wiki(home, wiki), TENANT, WordEmbedder())


def with_restriction(wiki: Wiki, page_ids: frozenset[str], group: str) -> Wiki:
    """The same wiki after somebody restricted these pages to a group."""
    changed = copy.deepcopy(wiki)
    for one in [one for found in changed.envelopes.values() for one in found if one["id"] in page_ids]:
        one["restrictions"]["read"]["restrictions"]["group"]["results"] = [{"type": "group", "name": group}]
    return changed


def test_a_receipt_is_no_longer_shown_to_who_may_no_longer_read_its_pages(tmp_path: Path, seed: int) -> None:
    wiki = restricted_wiki(200, seed + 4000)
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
