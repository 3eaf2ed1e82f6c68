"""What `make test` leaves to the night is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tiers import NIGHTLY, ONE_STORE, READERS_OF_ONE_STORE

ROOT = Path(__file__).parents[1]
FILES = {path.name: path for folder in ("tests", "plugins") for path in (ROOT / folder).rglob("test_*.py")}


@pytest.mark.parametrize("name", [*NIGHTLY, *sorted(ONE_STORE), *READERS_OF_ONE_STORE])
def test_a_test_of_the_night_is_one(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"def {test.partition('[')[0]}" in FILES[file].read_text(encoding="utf-8")
