"""What the tests of the assets share."""

from __future__ import annotations

from pathlib import Path

import pytest
from envelopes import Wiki


@pytest.fixture
def wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wiki:
    """A tiny wiki; nothing of the surroundings reaches the build of it."""
    for name in ("DAGSTER_HOME", "CITELOCK_HOME", "CITELOCK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return Wiki(tmp_path)
