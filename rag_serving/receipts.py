"""Receipts: what an answer was made of, so that it can be proved later without any model.

A receipt is a JSON document in canonical form; its id is the digest of that form. Verifying replays it against the
stored generation: every passage still has the text that was hashed, every quote stands in it at the noted offsets.

Belongs here: making, storing (SQLite) and verifying receipts.
Does not belong here: verifying a model's quotes (`verify`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_serving.generation import Generation
from rag_serving.records import Answer, Citation, Draft, Filters, Lock, Verdict
from rag_serving.schema import GENERATION_CHUNKS

VERSION = 1
ID_CHARS = 32

_TABLE = """
CREATE TABLE IF NOT EXISTS receipts
(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, created_at TEXT NOT NULL, content TEXT NOT NULL)
"""
_BUSY_S = 2.0


class ReceiptError(Exception):
    """A receipt cannot be stored, found or read; the message says why."""


def make_receipt(
    tenant: str,
    question: str,
    answer: Answer,
    lock: Lock,
    verdicts: Sequence[Verdict],
    draft: Draft,
    filters: Filters | None = None,
) -> dict[str, Any]:
    """The receipt of an answer: no text of a page but the quotes, nothing about who asked."""
    return {
        "version": VERSION,
        "tenant": tenant,
        "created_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "generation": answer.generation,
        "question": question,
        "question_hash": text_hash(question),
        "filters": filters.payload() if filters else {},
        "status": answer.status,
        "answer": answer.answer,
        "generator": draft.model,
        "usage": draft.usage.payload() if draft.usage else None,
        "notes": list(draft.notes),
        "chunk_schema": GENERATION_CHUNKS.version,
        "passages": [_passage(index, lock) for index in range(1, len(lock) + 1)],
        "citations": [_citation(citation) for citation in answer.citations],
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "flags": list(answer.flags),
        "timings_ms": dict(answer.timings_ms),
    }


def canonical(receipt: Mapping[str, Any]) -> str:
    """The one JSON text of a receipt: keys sorted, no white space, no escapes beyond JSON's own."""
    return json.dumps(receipt, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def receipt_id(receipt: Mapping[str, Any]) -> str:
    """The digest of the canonical form: a receipt that was changed has another id."""
    return hashlib.sha256(canonical(receipt).encode()).hexdigest()[:ID_CHARS]


def text_hash(text: str) -> str:
    """The digest that chunks carry of their text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_open_to(
    receipt: Mapping[str, Any],
    then: Generation,
    classes_then: frozenset[str],
    now: Generation,
    classes_now: frozenset[str],
) -> bool:
    """Whether a caller may see the receipt: all passages as they were, and their pages as they are.

    `then` is the generation that the receipt names, `now` the published one; the classes are those that the caller
    satisfies in each. A page that is no longer there is no longer shown.
    """
    for passage in receipt["passages"]:
        row = then.row_of(passage["chunk_id"])
        if row is None or then.readers_of(row) not in classes_then:
            return False
        if classes_now.isdisjoint(now.readers_of_page(passage["page_id"])):
            return False
    return True


def faults(identifier: str, receipt: Mapping[str, Any], generation: Generation) -> list[str]:
    """What does not hold of a receipt, a line each; empty when it is proved.

    `generation` is the stored generation that the receipt names.
    """
    if receipt_id(receipt) != identifier:
        return ["the receipt was changed after it was stored: its digest is not its id"]
    if receipt.get("version") != VERSION:
        return [f"the receipt has version {receipt.get('version')!r}, this program reads version {VERSION}"]
    found = []
    if receipt["question_hash"] != text_hash(receipt["question"]):
        found.append("the question is not the one that was hashed")
    texts = {}
    for passage in receipt["passages"]:
        row = generation.row_of(passage["chunk_id"])
        chunk = None if row is None else generation.chunk(row)
        if chunk is None:
            found.append(f"passage [{passage['index']}]: chunk {passage['chunk_id']} is not in the generation")
        elif text_hash(chunk.text) != passage["text_hash"] or chunk.version != passage["page_version"]:
            found.append(f"passage [{passage['index']}]: chunk {passage['chunk_id']} has another text or version")
        else:
            texts[passage["index"]] = passage["chunk_id"], chunk.text
    return [*found, *_citation_faults(receipt["citations"], texts)]


def _citation_faults(citations: Sequence[Mapping[str, Any]], texts: Mapping[int, tuple[str, str]]) -> list[str]:
    found = []
    for citation in citations:
        chunk_id, text = texts.get(citation["index"], ("", ""))
        if chunk_id != citation["chunk_id"]:
            found.append(f"citation [{citation['index']}]: chunk {citation['chunk_id']} was not in the lock")
        elif not citation["quote"] or text[citation["start"] : citation["end"]] != citation["quote"]:
            found.append(f"citation [{citation['index']}]: the quote does not stand at its offsets")
        elif "#" not in citation["url"]:
            found.append(f"citation [{citation['index']}]: the link has no anchor")
    return found


class ReceiptStore:
    """Receipts in a SQLite database in WAL mode. Safe to use from several threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None

    def put(self, receipt: Mapping[str, Any]) -> str:
        """Store a receipt and give its id.

        Raises:
            ReceiptError: the database cannot be written.
        """
        identifier = receipt_id(receipt)
        row = (identifier, receipt["tenant"], receipt["created_at"], canonical(receipt))
        with self._lock:
            try:
                connection = self._open()
                with connection:
                    connection.execute("INSERT OR IGNORE INTO receipts VALUES (?, ?, ?, ?)", row)
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise ReceiptError(f"{self._path} cannot be written ({error})") from error
        return identifier

    def get(self, identifier: str, tenant: str) -> dict[str, Any]:
        """The receipt of this id and tenant.

        Raises:
            ReceiptError: there is none, or the database cannot be read.
        """
        if not self._path.is_file():
            raise ReceiptError(f"no receipt {identifier!r}: nothing was asked of this home yet")
        try:
            with closing(
                sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
            ) as reader:
                query = "SELECT content FROM receipts WHERE id = ? AND tenant = ?"
                found = reader.execute(query, (identifier, tenant)).fetchone()
        except sqlite3.Error as error:
            raise ReceiptError(f"{self._path} cannot be read ({error})") from error
        if found is None:
            raise ReceiptError(f"tenant {tenant!r} has no receipt {identifier!r}")
        try:
            content: dict[str, Any] = json.loads(found[0])
        except ValueError as error:
            raise ReceiptError(f"receipt {identifier!r} is not valid JSON ({error})") from error
        return content

    def close(self) -> None:
        with self._lock:
            self._close()

    def _open(self) -> sqlite3.Connection:
        """The one writing connection; made anew where the file was deleted under it."""
        if self._writer is None or not self._path.exists():
            self._close()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = sqlite3.connect(self._path, timeout=_BUSY_S, check_same_thread=False)
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.execute("PRAGMA synchronous=NORMAL")
            self._writer.execute(_TABLE)
        return self._writer

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _citation(citation: Citation) -> dict[str, Any]:
    """A citation without its other places: who may read the receipt may not be who may read those."""
    return {name: value for name, value in citation.payload().items() if name != "also_at"}


def _passage(index: int, lock: Lock) -> dict[str, Any]:
    chunk = lock.passages[index - 1].chunk
    return {
        "index": index,
        "chunk_id": chunk.chunk_id,
        "page_id": chunk.page_id,
        "page_version": chunk.version,
        "text_hash": text_hash(chunk.text),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "cited": verdict.claim.index,
        "quote": verdict.claim.quote,
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "index": verdict.index,
    }
