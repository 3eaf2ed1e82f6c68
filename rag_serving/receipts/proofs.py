"""The receipts of one tenant: who may see one, and whether it holds.

Belongs here: opening the generations that a receipt is compared with, and who may see it.
Does not belong here: the comparison (`replay`), where receipts lie (`store`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.protocols import ReaderView
from rag_serving.receipts.receipt import ReceiptError
from rag_serving.receipts.replay import changes, faults
from rag_serving.receipts.secrecy import Secrecy
from rag_serving.receipts.store import ReceiptStore


@dataclass(frozen=True)
class Proof:
    """What does not hold of a receipt, and what has changed on the pages since; a line each."""

    receipt_id: str
    faults: tuple[str, ...]
    changes: tuple[str, ...] = ()

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "receipt_id": self.receipt_id,
            "valid": not self.faults,
            "faults": list(self.faults),
            "changes": list(self.changes),
        }


class Proofs:
    """Shows and proves stored receipts. Safe to use from several threads."""

    def __init__(
        self, config: Config, tenant: str, published: CurrentGeneration, receipts: ReceiptStore, secrecy: Secrecy
    ) -> None:
        self._config = config
        self._tenant = tenant
        self._published = published
        self._receipts = receipts
        self._secrecy = secrecy

    def shown(self, principal: Principal, identifier: str) -> dict[str, Any]:
        """Return a stored receipt, shown to its asker or an operator who could read all of it and may still read its
        pages.

        Raises:
            ReceiptError: there is none, it was changed, its generation is gone, or the principal may not read all
                of it.
            UnpublishedError: there is no generation that says who may read what now.
        """
        receipt = self._receipts.get(identifier, self._tenant)
        if not self._is_of(principal, receipt):
            raise ReceiptError(f"receipt {identifier!r} is of another asker: the caller may not read it")
        with self._stored(str(receipt.get("generation"))) as then, self._published.acquire() as now:
            if not _is_open_to(receipt, then.for_reader(principal), now.for_reader(principal)):
                raise ReceiptError(f"receipt {identifier!r} has passages that the caller may not read")
        return self._secrecy.opened(receipt)

    def _is_of(self, principal: Principal, receipt: Mapping[str, Any]) -> bool:
        """Return whether a caller asked himself, or may see what others asked; of older receipts nobody knows who
        asked."""
        if "operator" in principal.roles or "asker" not in receipt:
            return True
        return bool(receipt["asker"] == self._secrecy.asker(principal))

    def prove(self, identifier: str) -> Proof:
        """Replay a stored receipt without any model.

        Raises:
            ReceiptError: there is no such receipt, it is no JSON, or its generation is gone.
        """
        stored = self._receipts.stored(identifier, self._tenant)
        fault, receipt = self._receipts.signature_fault(stored), stored.receipt()
        problems = [f"signature: {fault}"] if fault else []
        try:
            with self._stored(str(receipt.get("generation"))) as generation:
                problems += faults(self._secrecy.opened(receipt), generation, self._secrecy.question_fault)
        except ReceiptError as error:
            if not fault:
                raise
            problems.append(f"generation: {error}")
        return Proof(identifier, tuple(problems), () if problems else tuple(self._changes(receipt)))

    def _changes(self, receipt: Mapping[str, Any]) -> list[str]:
        try:
            with self._published.acquire() as now:
                return [] if now.id == receipt["generation"] else changes(receipt, now)
        except UnpublishedError as error:
            return [f"published: {error}"]

    @contextmanager
    def _stored(self, generation_id: str) -> Iterator[Generation]:
        """Yield a generation by its id, the published one or an older one that is still kept."""
        try:
            generation = Generation.open(Store(self._config.home), self._tenant, generation_id, self._config)
        except StoreError as error:
            raise ReceiptError(f"the receipt's generation cannot be opened: {error}") from error
        try:
            yield generation
        finally:
            generation.close()


def _is_open_to(receipt: Mapping[str, Any], then: ReaderView, now: ReaderView) -> bool:
    """Return whether a caller may see the receipt: all passages as they were, and their pages as they are.

    `then` is the view of the generation that the receipt names, `now` of the published one. A page that is no longer
    there is no longer shown.
    """
    return all(
        then.row_of(passage["chunk_id"]) is not None and now.has_page(passage["page_id"])
        for passage in receipt["passages"]
    )
