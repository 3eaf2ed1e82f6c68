"""An encrypted question opens with its secret in its own receipt, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import PREFIX, SealError, seal, unseal
from rag_serving.receipts.receipt import Secrecy

SECRET, OTHER = bytes(range(32)), bytes(32)
TEXTS = st.text(st.characters(codec=None))
ANN, BOB = Principal("acme", "ann"), Principal("acme", "bob")


@given(TEXTS, st.binary())
def test_a_text_comes_back_and_no_two_seals_are_alike(text: str, beside: bytes) -> None:
    one, other = seal(SECRET, text, beside), seal(SECRET, text, beside)
    assert one != other
    assert unseal(SECRET, one, beside) == unseal(SECRET, other, beside) == text


@given(TEXTS, st.data())
def test_no_bit_can_be_turned_and_no_byte_left_out(text: str, data: st.DataObject) -> None:
    content = bytearray(b64decode(seal(SECRET, text, b"here").removeprefix(PREFIX)))
    place = data.draw(st.integers(0, len(content) - 1))
    turned = bytes([*content[:place], content[place] ^ 1 << data.draw(st.integers(0, 7)), *content[place + 1 :]])
    for damaged in (turned, content[:place], content + b"\0"):
        with pytest.raises(SealError) as refused:
            unseal(SECRET, PREFIX + b64encode(damaged).decode(), b"here")
        assert "\n" not in str(refused.value)


@given(st.text(max_size=80))
def test_whatever_is_no_sealed_text_is_refused(text: str) -> None:
    for sealed in (text, PREFIX + text, seal(SECRET, "?", b"").removeprefix(PREFIX), seal(SECRET, "?", b"") + "\n"):
        with pytest.raises(SealError):
            unseal(SECRET, sealed, b"")


def test_another_secret_is_named_and_another_place_refused() -> None:
    sealed = seal(SECRET, "Who may know?", b"here")
    with pytest.raises(SealError, match="the installation's secret is another one"):
        unseal(OTHER, sealed, b"here")
    with pytest.raises(SealError, match="it was altered, or belongs elsewhere"):
        unseal(SECRET, sealed, b"there")


def receipt(**fields: Any) -> dict[str, Any]:
    common = {"version": 5, "tenant": "acme", "created_at": "2026-11-22T12:00:00.000+00:00", "generation": "g1"}
    return {**common, "question": "May I restart a broker?", **fields}


def test_a_question_opens_in_its_own_receipt_alone(tmp_path: Path) -> None:
    secrecy = Secrecy(tmp_path)
    kept = secrecy.kept(ANN, receipt())
    assert secrecy.opened(kept)["question"] == receipt()["question"]
    others = [
        secrecy.kept(BOB, receipt()),
        secrecy.kept(ANN, receipt(tenant="other")),
        secrecy.kept(ANN, receipt(created_at="2026-11-22T12:00:00.001+00:00")),
        secrecy.kept(ANN, receipt(generation="g2")),
        secrecy.kept(ANN, receipt(question="May I?")),
        {**kept, "version": 4},
    ]
    for other in others:
        swapped = secrecy.opened({**other, "sealed": kept["sealed"]})
        assert swapped["question"] is None
        assert "altered" in str(secrecy.question_fault(swapped))
    assert "form that this program does not know" in str(secrecy.question_fault({**kept, "sealed": None}))


def test_a_receipt_of_an_older_program_still_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_SECRET", "an-older-secret-of-32-characters")
    older = receipt(
        version=4,
        question=None,
        asker="6318b8abd59cd11b43d094808a6f68cb",
        question_hash="bdc5ca489667e8a2704afdfca05965e6",
        sealed="bbGg/AB0/erStwMcJ3+5nZwPg+aa08Mr",
    )
    opened = Secrecy(tmp_path).opened(older)
    assert opened["question"] == "Größe of a \ud800 broker?"
    assert Secrecy(tmp_path).question_fault(opened) is None
    monkeypatch.setenv("CITELOCK_SECRET", "another-secret-of-32-characters!")
    assert "the installation's secret is another one" in str(Secrecy(tmp_path).question_fault(older))


def test_the_cipher_is_loaded_when_a_receipt_is_made_and_not_before() -> None:
    program = "import sys, rag_serving.ask, rag_serving.cli.main; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
