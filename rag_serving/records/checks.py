"""A text that was checked against the pages: its claims and what the pages say of each.

Belongs here: plain immutable records and their JSON shapes. Does not belong here: reaching verdicts (`checking`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rag_serving.records.answers import Citation

ClaimVerdict = Literal["verbatim", "otherwise", "closest", "absent", "no_claim"]
"""It stands on a page word for word; a page has another value; the unit that comes closest, for the reader to judge;
nothing of it is in the pages; it states nothing."""
VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)


@dataclass(frozen=True)
class CheckedClaim:
    """A claim of a text, what the pages say of it, and where. `page_says`: their words, whole."""

    text: str
    start: int
    end: int
    verdict: ClaimVerdict
    citation: Citation | None = None
    page_says: str | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        shape: dict[str, Any] = {name: getattr(self, name) for name in ("text", "start", "end", "verdict")}
        if self.citation:
            shape |= {"citation": self.citation.payload(), "page_says": self.page_says}
        return shape


@dataclass(frozen=True)
class CheckedQuote:
    """A quote that was given for a text: `verbatim` if a page has it, exactly or but for a slip, or `absent`."""

    quote: str
    verdict: ClaimVerdict
    citation: Citation | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        cited = {"citation": self.citation.payload()} if self.citation else {}
        return {"quote": self.quote, "verdict": self.verdict, **cited}


@dataclass(frozen=True)
class Checked:
    """A text as it was checked, with the quotes that were given for it."""

    claims: tuple[CheckedClaim, ...] = ()
    quotes: tuple[CheckedQuote, ...] = ()
    generation: str = ""
    receipt_id: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, int]:
        """Return how many claims have each verdict."""
        counts = Counter(claim.verdict for claim in self.claims)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "claims": [claim.payload() for claim in self.claims],
            **({"quotes": [quote.payload() for quote in self.quotes]} if self.quotes else {}),
            "summary": self.summary,
            "generation": self.generation,
            "receipt_id": self.receipt_id,
            "flags": list(self.flags),
        }
