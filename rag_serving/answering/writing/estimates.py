"""About how many tokens a text has, and texts cut to so many.

Belongs here: the estimate. Does not belong here: what is cut (`prompt`).
"""

from __future__ import annotations

CUT = "[... lines left out ...]"

# UTF-8 bytes a token has at least, on average, in prose and code of the languages that models know: servers do not
# share their tokenizers, and a prompt that is estimated too long only loses a passage.
_BYTES_PER_TOKEN = 3


def tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


def shortened(line: str, budget: int) -> str:
    """Return as much of a line as `budget` tokens hold, cut behind a word; empty where the budget is."""
    cut = line.encode()[: max(budget, 0) * _BYTES_PER_TOKEN].decode(errors="ignore")
    return cut.rstrip().rpartition(" ")[0] if " " in cut.strip() else cut.strip()
