"""The section `telemetry` of `config/app.yaml`: what is recorded of questions and of readers' verdicts.

Belongs here: its settings. Does not belong here: recording (`telemetry`).
"""

from __future__ import annotations

from datetime import date

from pydantic import Field

from rag_serving.config.sources import Section


class Telemetry(Section):
    """Records of questions and of readers' feedback."""

    enabled: bool = True
    """Record questions and feedback."""
    url: str | None = None
    """Database of telemetry and receipts, such as postgresql://user@host/name (password by PGPASSWORD); null:
    `serving.db` in the home folder. Servers that share it must share `CITELOCK_SECRET`, which signs receipts."""
    store_questions: bool = False
    """Store the text of questions, not only its keyed hash; otherwise only receipts contain it, encrypted."""
    retention_days: int = Field(90, ge=1)
    """Days after which rows are deleted."""
    reports_since: date | None = None
    """First day for which the Dagster UI can make a report; null: `retention_days` ago."""
