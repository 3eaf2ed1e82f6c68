"""Receipts: the sources of an answer, so that it can be proved later without any model. A receipt is a JSON document in
canonical form. Its id is the digest of that form; its signature is a keyed digest (HMAC-SHA256, RFC 2104) of its stored
row, so that write access to the database does not allow forging one. A question is needed to replay its verdicts, so it
is not only hashed but encrypted. It opens only in its own receipt: it is bound to the tenant, the time, the generation,
the asker and the question's digest. (The id is a digest of the whole receipt, the encrypted question included: nothing
inside can be bound to that.)"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_serving.access.principals import Principal
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.verification import VerificationRules
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.secret import SealError, SecretError, derived_key, seal, unseal
from rag_serving.escaping.redaction import RedactedError, redacted
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.claims import Verdict
from rag_serving.records.passages import Lock
from rag_serving.tracing import coarse

VERSION = 10
# Of version 2 a citation's `index` is its place in the lock, and no quote was shortened. Before version 4 sentences
# were not compared with their passages word by word. Before version 5 questions were encrypted by a stream of HMAC;
# before version 6 fewer sentences were carried, before version 7 there was no outcome, before version 8 no digest of a
# file, and quotes that OCR read were said to be exact; before version 9 rules that are gone compared each sentence with
# its passages; before version 10 there were no sets.
READ_VERSIONS = (2, 3, 4, 5, 6, 7, 8, 9, 10)
ID_CHARS = 32


class ReceiptError(RedactedError):
    """A receipt cannot be stored, found or read; the message says why."""


class ReceiptsAwayError(ReceiptError):
    """The database of receipts cannot be reached now."""


class NotTheAskerError(ReceiptError):
    """A receipt is of somebody else, who alone may do this with it."""


def make_receipt(tenant: str, written: AnswerTrace, rules: VerificationRules) -> dict[str, Any]:
    """Return the receipt of an answer: of pages only claims and quotes, and nothing about the asker. `rules` are those
    of the verdicts."""
    answer, lock, draft = written.answer, written.lock, written.draft
    proof = dict(written.certificate) if written.certificate else {}
    return {
        **({"readers": proof.pop("readers"), "set": proof} if proof else {}),
        **({"differences": list(written.differences)} if written.differences else {}),
        "version": VERSION,
        "tenant": tenant,
        "created_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "generation": answer.generation,
        "question": written.question,
        "question_hash": text_hash(written.question),
        "filters": written.filters.payload() if written.filters else {},
        "status": answer.status,
        "outcome": answer.outcome,
        "confidence": answer.gates.get("confidence"),
        "threshold": answer.gates.get("min_confidence"),
        "reason": answer.refusal.reason if answer.refusal else None,
        "answer": answer.answer,
        "generator": draft.model,
        "usage": draft.usage.payload() if draft.usage else None,
        "notes": [redacted(note) for note in draft.notes],
        "chunk_schema": GENERATION_CHUNKS.version,
        "passages": [_passage(index, lock, written.files) for index in range(1, len(lock) + 1)],
        "citations": [_citation(citation) for citation in answer.citations],
        "rules": dict(vars(rules)),
        "verdicts": [_verdict(verdict) for verdict in written.verdicts],
        "withdrawn": [_verdict(verdict) for verdict in written.withdrawn],
        "flags": list(answer.flags),
        "timings_ms": coarse(answer.timings_ms),
    }


def repeated_receipt(first: Mapping[str, Any], question: str, answer: Answer) -> dict[str, Any]:
    """Return the receipt of a reused answer: its sources are the first one's, and no model was called."""
    return {
        **first,
        "created_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "question": question,
        "question_hash": text_hash(question),
        "usage": None,
        "flags": list(answer.flags),
        "timings_ms": coarse(answer.timings_ms),
    }


def canonical(receipt: Mapping[str, Any]) -> str:
    """Return the one JSON text of a receipt: keys sorted, no white space, no escapes beyond JSON's own."""
    return json.dumps(receipt, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def receipt_id(receipt: Mapping[str, Any]) -> str:
    """Return the digest of the canonical form: a receipt that was changed has another id."""
    return hashlib.sha256(canonical(receipt).encode()).hexdigest()[:ID_CHARS]


def signature(key: bytes, *fields: str) -> str:
    """Return the keyed digest of a receipt's row: id, tenant, time and content as they are stored."""
    return hmac.new(key, canonical({"row": fields}).encode(), hashlib.sha256).hexdigest()


def text_hash(text: str) -> str:
    """Return the digest that chunks carry of their text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _citation(citation: Citation) -> dict[str, Any]:
    """Return a citation with the number shown (`index`) and its place in the lock (`passage`), without its other
    places: who may read the receipt may not be who may read those."""
    shown = {name: value for name, value in citation.payload().items() if name != "also_at"}
    return {**shown, "passage": citation.passage}


def _passage(index: int, lock: Lock, files: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    chunk = lock.passages[index - 1].chunk
    file = files.get(chunk.page_id)
    return {
        **({"file": dict(file)} if file else {}),
        "index": index,
        "chunk_id": chunk.chunk_id,
        "page_id": chunk.page_id,
        "page_version": chunk.version,
        "text_hash": text_hash(chunk.text),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    return {
        "sentence": claim.text,
        "cited": claim.index,
        "quote": claim.quote,
        "others": list(claim.others),
        "shown": verdict.told,
        "selected": claim.is_selected,
        **{name: getattr(verdict, name) for name in ("outcome", "reason", "support", "index", "start", "end")},
    }


KEY_PURPOSE = "receipt secrecy"
_SEALING_PURPOSE = "receipt questions"
_HASH_CHARS = 32
_SEALED_BY_STREAM = 4
"""The last version of receipts whose questions are no `artifacts.sealing.seal`."""
_BESIDE = ("tenant", "created_at", "generation", "asker", "question_hash")


class Secrecy:
    """Keyed digests and encrypted questions of one installation."""

    def __init__(self, home: Path, keep_questions: bool = False) -> None:
        """`keep_questions`: store their text in receipts as it was typed."""
        self._home, self._keep_questions = home, keep_questions

    def kept(self, principal: Principal, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new receipt in its stored form: with its asker, and its question encrypted unless kept. Raises
        ReceiptError: the installation's secret cannot be used."""
        question = str(receipt["question"])
        kept = {**receipt, "question_hash": self._digest("question", question), "asker": self.asker(principal)}
        if self._keep_questions:
            return kept
        sealed = seal(self._key(_SEALING_PURPOSE), question, _beside(kept))
        return {**kept, "question": None, "sealed": sealed}

    def asker(self, principal: Principal) -> str:
        """Return the keyed digest of a user, or of the groups of callers without a name. Raises ReceiptError: the
        installation's secret cannot be used."""
        groups = [] if principal.user else sorted(principal.groups)
        return self._digest("asker", json.dumps([principal.tenant, principal.user, groups]))

    def opened(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """Return a receipt with its question in words; None if it cannot be read (`question_fault` says why). Raises
        ReceiptError: the installation's secret cannot be used."""
        if receipt.get("question") is not None or not isinstance(receipt.get("sealed"), str):
            return dict(receipt)
        try:
            return {**receipt, "question": self._unsealed(receipt)}
        except SealError:
            return dict(receipt)

    def question_fault(self, receipt: Mapping[str, Any]) -> str | None:
        """Return why the question of an opened receipt is not the one that was hashed, or None."""
        question = receipt["question"]
        if question is None:
            try:
                self._unsealed(receipt)
            except SealError as error:
                return f"question: {error}"
            return "question: it is not in the receipt"
        expected = self._digest("question", question) if "asker" in receipt else text_hash(question)
        return None if receipt["question_hash"] == expected else "question: it is not the one that was hashed"

    def _unsealed(self, receipt: Mapping[str, Any]) -> str:
        """Return the question of a receipt of any version. Raises SealError: it cannot be read; ReceiptError: the
        installation's secret cannot be used."""
        sealed, digest = str(receipt.get("sealed")), str(receipt.get("question_hash"))
        if receipt.get("version") not in range(_SEALED_BY_STREAM + 1):
            return unseal(self._key(_SEALING_PURPOSE), sealed, _beside(receipt))
        question = unseal_stream(self._key(), sealed, digest)
        if question is None or self._digest("question", question) != digest:
            raise SealError("it cannot be read, because the installation's secret is another one, or it was altered")
        return question

    def _digest(self, what: str, text: str) -> str:
        content = f"{what}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key(), content, hashlib.sha256).hexdigest()[:_HASH_CHARS]

    def _key(self, purpose: str = KEY_PURPOSE) -> bytes:
        try:
            return derived_key(self._home, purpose)
        except SecretError as error:
            raise ReceiptError(str(error)) from error


def _beside(receipt: Mapping[str, Any]) -> bytes:
    """Return the data that an encrypted question is bound to."""
    return canonical({"question of": {name: receipt.get(name) for name in _BESIDE}}).encode("utf-8", "surrogatepass")


def unseal_stream(key: bytes, sealed: str, digest: str) -> str | None:
    """Return a text that an older program sealed with a stream of HMAC-SHA256 blocks; None if it is not readable. The
    caller compares the text with its `digest`: this form has no tag of its own."""
    try:
        content = b64decode(sealed)
        return bytes(one ^ other for one, other in zip(content, _stream(key, digest), strict=False)).decode(
            "utf-8", "surrogatepass"
        )
    except ValueError:
        return None


def _stream(key: bytes, nonce: str) -> Iterator[int]:
    number = 0
    while True:
        yield from hmac.new(key, f"stream\0{nonce}\0{number}".encode(), hashlib.sha256).digest()
        number += 1
