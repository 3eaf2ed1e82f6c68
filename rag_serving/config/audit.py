"""The section `audit` of `config/app.yaml`.

Belongs here: whether an audit log is kept, and what of a person stands in it. Does not belong here: the other sections
(`sections`), what personal data is (`privacy`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rag_serving.config.sources import Section


class Audit(Section):
    """The audit log: a signed, append-only chain of rows for each tenant, in the database of `telemetry.url`.
    Needs `citelock[governance]`."""

    mode: Literal["off", "best_effort", "required"] = "off"
    """`off`: no log. `best_effort`: rows that cannot be written are counted, and the count is logged when the database
    is back. `required`: what cannot be logged is refused (503 AUDIT_UNAVAILABLE) before an answer is given."""
    user: Literal["hash", "id", "none"] = "hash"
    """How a row identifies the user: `hash`, a pseudonym that only the installation can link to the user; `id`, also
    the user id, encrypted; `none`, not at all. `citelock forget` removes the link of the first two."""
    store_queries: bool = False
    """Store questions, encrypted and redacted."""
    retention_days: int = Field(730, ge=1)
    """Days that rows are kept. The cut is signed, and the rest still verifies."""
