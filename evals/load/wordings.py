"""The same question in many texts, so that no cache answers a load.

The calm server gets every wording, and its answer is compared. A numbered question has a new text; its answer is
compared with the pages alone (`proofs`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

_FRAMES = ("{}", "Please tell me: {}", "{} Thanks in advance.", "I would like to know: {}")
MOST_WORDINGS = len(_FRAMES)
NUMBERED_SHARE = 0.1
"""Of the requests of a load, those with a numbered question."""


def worded(questions: Sequence[str], count: int) -> tuple[str, ...]:
    """Return each question in `count` wordings, at most `MOST_WORDINGS`; the first one is the question itself."""
    return tuple(frame.format(question) for question in questions for frame in _FRAMES[:count])


def numbered(question: str, dice: random.Random) -> str:
    """Return the question with a number of its own."""
    return f"{question} (case {dice.randrange(10**9)})"
