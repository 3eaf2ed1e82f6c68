"""About how many tokens a text has, and texts cut to so many.

Belongs here: the estimate. Does not belong here: what is cut (`prompt`).
"""

from __future__ import annotations

import re

CUT = "[... lines left out ...]"

# UTF-8 bytes that a token has at least, on average, in prose of the languages that models know: servers do not share
# their tokenizers, and a prompt that is estimated too long only loses a passage.
_BYTES_PER_TOKEN = 3
# In code and tables signs are many, and some tokenizers give each sign and each digit a token of its own.
_PIECE = re.compile(r"[^\W\d_]{1,6}|\d|_|[^\w\s]")


def tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many than too few."""
    return max(-(-len(text.encode()) // _BYTES_PER_TOKEN), sum(1 for _ in _PIECE.finditer(text)))


def shortened(line: str, budget: int) -> str:
    """Return as much of a line as `budget` tokens hold, cut behind a word; empty where the budget is."""
    cut = line.encode()[: max(budget, 0) * _BYTES_PER_TOKEN].decode(errors="ignore")
    pieces = [piece.end() for piece in _PIECE.finditer(cut)]
    if len(pieces) > budget:
        cut = cut[: pieces[budget - 1]]
    return cut.rstrip().rpartition(" ")[0] if " " in cut.strip() else cut.strip()
