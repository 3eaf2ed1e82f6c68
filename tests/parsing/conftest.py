from __future__ import annotations

import pytest
from support import remembered


@pytest.fixture(autouse=True)
def readers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reader of a test starts its process: what it costs, what it is given, and how it ends is tested."""
    monkeypatch.setattr(remembered, "READERS", ())
