"""Claims that the database believes hold for no moment longer than was asked for."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citelock_stores.postgres.sessions import MARGIN_S, ClaimSigner
from rag_serving.access.principals import Principal

ANN = Principal("acme", "ann", frozenset({"staff"}))


@given(now=st.floats(1.7e9, 2.2e9), minutes=st.integers(1, 60))
def test_claims_end_when_they_were_asked_to_end(now: float, minutes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now)
        signed = ClaimSigner(b"k" * 32).until(ANN, minutes * 60)
        longer = ClaimSigner(b"k" * 32).for_reader(ANN, minutes * 60)
    end = now + minutes * 60
    assert end - 0.002 < json.loads(signed.claims)["exp"] <= end + 1e-6
    assert end + MARGIN_S - 0.002 < json.loads(longer.claims)["exp"] <= end + MARGIN_S + 1e-6
