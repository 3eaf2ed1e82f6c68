"""Which rows hold which terms and how often: counted part by part of the rows, then put together.

Belongs here: arrays of numbers. Does not belong here: what a term is, what they are written as (`lexical_writer`,
`keyword_writer`).

A part keeps eight bytes for each row of each term; the texts that it was counted from are forgotten. Terms are numbered
as they come, and by their order among all only when all parts are there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
Borders = NDArray[np.int64]

PART = 25_000
"""Rows that are counted at once: 4 million words of some 150 each."""


class Part(NamedTuple):
    """The terms of some rows in ascending order of their numbers; rows and counts of each, rows ascending."""

    terms: Numbers
    starts: Borders  # [terms + 1]
    rows: Numbers
    counts: Numbers


class Postings(NamedTuple):
    """Rows and counts of every term by its place; those of term i are `[starts[i]:starts[i+1]]`."""

    starts: Borders
    rows: Numbers
    counts: Numbers


def counted(terms: Numbers, owners: Numbers, first_row: int) -> Part:
    """Return how often each term stands in each row, of one term number and one row (from 0) for each occurrence."""
    width = int(owners[-1]) + 1 if len(owners) else 1
    keys = terms.astype(np.int64) * width + owners
    keys.sort()
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(begins, append=len(keys)).astype(np.int32)
    own, rows = np.divmod(keys[begins], width)
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    rows += first_row
    return Part(own[starts].astype(np.int32), np.append(starts, len(own)), rows.astype(np.int32), counts)


def merged(parts: list[Part], places: Numbers) -> Postings:
    """Return the postings of all parts, whose rows follow each other; the list is empty after it.

    `places`: where each term number stands in the order of the terms.
    """
    lengths = np.zeros(len(places), np.int64)
    for part in parts:
        lengths[places[part.terms]] += np.diff(part.starts)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    rows, counts = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
    free = starts[:-1].copy()
    parts.reverse()
    while parts:
        part = parts.pop()
        own, sizes = places[part.terms], np.diff(part.starts)
        targets = np.repeat(free[own] - part.starts[:-1], sizes) + np.arange(len(part.rows))
        rows[targets], counts[targets] = part.rows, part.counts
        free[own] += sizes
    return Postings(starts, rows, counts)
