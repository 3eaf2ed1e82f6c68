"""How much of its cases a test runs by day: a share of the examples of the profile (`conftest.py`), some parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def examples(share: float) -> int:
    """Return this share of the profile's examples, one at least."""
    return max(1, round(share * settings().max_examples))


def by_day(named: Iterable[str], cases: Iterable[str]) -> list[Any]:
    """Return the cases as parameters of a test; those that are not named are of the kind of one that is, for the night.

    Raises:
        ValueError: a name is no case.
    """
    names, every = set(named), list(cases)
    if unknown := names.difference(every):
        raise ValueError(f"no cases: {sorted(unknown)}")
    return [pytest.param(case, marks=() if case in names else pytest.mark.nightly) for case in every]
