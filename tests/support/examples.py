"""How many examples a test draws that needs more, or fewer, than the profile says (`conftest.py`)."""

from __future__ import annotations

from hypothesis import settings


def examples(share: float) -> int:
    """Return this share of the profile's examples, one at least."""
    return max(1, round(share * settings().max_examples))
