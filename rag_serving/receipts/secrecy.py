"""Asker and question in a receipt: readable with the installation's secret alone.

Belongs here: the keyed digest of the asker, the question encrypted. Does not belong here: access to a receipt
(`proofs`), signatures (`receipt`), the cipher (`artifacts.secret`).

A question is needed to replay its verdicts, so it is not only hashed but encrypted. It opens only in its own receipt:
it is bound to the tenant, the time, the generation, the asker and the question's digest. (The id is a digest of the
whole receipt, the encrypted question included: nothing inside can be bound to that.)
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SealError, SecretError, derived_key, seal, unseal
from rag_serving.receipts.receipt import ReceiptError, canonical, text_hash

KEY_PURPOSE = "receipt secrecy"
_SEALING_PURPOSE = "receipt questions"
_HASH_CHARS = 32
_SEALED_BY_STREAM = 4
"""The last version of receipts whose questions are no `artifacts.secret.seal`."""
_BESIDE = ("tenant", "created_at", "generation", "asker", "question_hash")


class Secrecy:
    """Keyed digests and encrypted questions of one installation."""

    def __init__(self, home: Path, keep_questions: bool = False) -> None:
        """`keep_questions`: store their text in receipts as it was typed."""
        self._home, self._keep_questions = home, keep_questions

    def kept(self, principal: Principal, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new receipt in its stored form: with its asker, and its question encrypted unless kept.

        Raises:
            ReceiptError: the installation's secret cannot be used.
        """
        question = str(receipt["question"])
        kept = {**receipt, "question_hash": self._digest("question", question), "asker": self.asker(principal)}
        if self._keep_questions:
            return kept
        sealed = seal(self._key(_SEALING_PURPOSE), question, _beside(kept))
        return {**kept, "question": None, "sealed": sealed}

    def asker(self, principal: Principal) -> str:
        """Return the keyed digest of a user, or of the groups of callers without a name.

        Raises:
            ReceiptError: the installation's secret cannot be used.
        """
        groups = [] if principal.user else sorted(principal.groups)
        return self._digest("asker", json.dumps([principal.tenant, principal.user, groups]))

    def opened(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """Return a receipt with its question in words; None if it cannot be read (`question_fault` says why).

        Raises:
            ReceiptError: the installation's secret cannot be used.
        """
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
            return f"question: {self._why_unread(receipt)}"
        expected = self._digest("question", question) if "asker" in receipt else text_hash(question)
        return None if receipt["question_hash"] == expected else "question: it is not the one that was hashed"

    def _why_unread(self, receipt: Mapping[str, Any]) -> str:
        try:
            self._unsealed(receipt)
        except SealError as error:
            return str(error)
        return "it is not in the receipt"

    def _unsealed(self, receipt: Mapping[str, Any]) -> str:
        """Return the question of a receipt of any version.

        Raises:
            SealError: it cannot be read.
            ReceiptError: the installation's secret cannot be used.
        """
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
    """Return a text that an older program sealed with a stream of HMAC-SHA256 blocks; None if it is not readable.

    The caller compares the text with its `digest`: this form has no tag of its own.
    """
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
