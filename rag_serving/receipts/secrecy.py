"""Who asked and what, as a receipt holds it: for who has the installation's secret alone.

Belongs here: the keyed digest of the asker, the question encrypted. Does not belong here: who may see a receipt
(`proofs`), signatures (`receipt`).

A question is needed to replay its verdicts, so it is not only hashed: it is encrypted with a stream of HMAC-SHA256
blocks whose nonce is the question's own keyed digest (the synthetic nonce of RFC 5297). Opening it compares the digest.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SecretError, derived_key
from rag_serving.receipts.receipt import ReceiptError, text_hash

KEY_PURPOSE = "receipt secrecy"
_HASH_CHARS = 32


class Secrecy:
    """Keyed digests and encrypted questions of one installation."""

    def __init__(self, home: Path, keep_questions: bool = False) -> None:
        """`keep_questions`: their text stands in receipts as it was asked."""
        self._home, self._keep_questions = home, keep_questions

    def fields(self, principal: Principal, question: str) -> dict[str, Any]:
        """What a receipt says of who asked what.

        Raises:
            ReceiptError: the installation's secret cannot be used.
        """
        digest = self._digest("question", question)
        stated = {"question": question} if self._keep_questions else {"question": None, "sealed": self._seal(question)}
        return {**stated, "question_hash": digest, "asker": self.asker(principal)}

    def asker(self, principal: Principal) -> str:
        """The keyed digest of a user, or of the groups of callers without a name.

        Raises:
            ReceiptError: the installation's secret cannot be used.
        """
        groups = [] if principal.user else sorted(principal.groups)
        return self._digest("asker", json.dumps([principal.tenant, principal.user, groups]))

    def opened(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """A receipt with its question in words; None where it was not asked with this installation's secret.

        Raises:
            ReceiptError: the installation's secret cannot be used.
        """
        if receipt.get("question") is not None or not isinstance(receipt.get("sealed"), str):
            return dict(receipt)
        return {**receipt, "question": self._unseal(receipt["sealed"], str(receipt.get("question_hash")))}

    def question_fault(self, receipt: Mapping[str, Any]) -> str | None:
        """Why the question of an opened receipt is not the one that was hashed, or None."""
        question = receipt["question"]
        if question is None:
            return "question: it cannot be read, because the installation's secret is another one"
        expected = self._digest("question", question) if "asker" in receipt else text_hash(question)
        return None if receipt["question_hash"] == expected else "question: it is not the one that was hashed"

    def _seal(self, question: str) -> str:
        content = question.encode("utf-8", "surrogatepass")
        return b64encode(self._mixed(content, self._digest("question", question))).decode()

    def _unseal(self, sealed: str, digest: str) -> str | None:
        try:
            question = self._mixed(b64decode(sealed), digest).decode("utf-8", "surrogatepass")
        except ValueError:
            return None
        return question if self._digest("question", question) == digest else None

    def _mixed(self, content: bytes, nonce: str) -> bytes:
        return bytes(one ^ other for one, other in zip(content, self._stream(nonce), strict=False))

    def _stream(self, nonce: str) -> Iterator[int]:
        key, number = self._key(), 0
        while True:
            yield from hmac.new(key, f"stream\0{nonce}\0{number}".encode(), hashlib.sha256).digest()
            number += 1

    def _digest(self, what: str, text: str) -> str:
        content = f"{what}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key(), content, hashlib.sha256).hexdigest()[:_HASH_CHARS]

    def _key(self) -> bytes:
        try:
            return derived_key(self._home, KEY_PURPOSE)
        except SecretError as error:
            raise ReceiptError(str(error)) from error
