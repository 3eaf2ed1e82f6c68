"""Reading order of what stands on a slide, by position.

Belongs here: the order of boxes. Does not belong here: reading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Placed(NamedTuple, Generic[T]):
    """Something on a slide: left, top and height in any one unit; one without a place stands where the file has it."""

    what: T
    x: float
    y: float
    height: float


def in_reading_order(items: Sequence[Placed[T]], slide_height: float) -> list[T]:
    """Return them in rows from top to bottom, each from left to right.

    A row ends below the middle of its first item, at most a twelfth of the slide below its top.
    """
    ordered = sorted(items, key=lambda item: (item.y, item.x))
    rows: list[list[Placed[T]]] = []
    end = float("-inf")
    for item in ordered:
        if item.y >= end:
            rows.append([])
            end = item.y + max(min(item.height / 2, slide_height / 12), 1)
        rows[-1].append(item)
    return [item.what for row in rows for item in sorted(row, key=lambda each: (each.x, each.y))]
