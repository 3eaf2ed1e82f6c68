"""The section `monitoring` of `config/app.yaml`.

Belongs here: when a source counts as overdue, and who is told. Does not belong here: the other sections (`sections`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rag_serving.config.sources import Section


class Monitoring(Section):
    """Alerts about overdue sources, failed syncs and failed publications. Dagster's daemon checks every minute; no
    build waits for an alert."""

    missed_syncs: int = Field(2, ge=1, le=100)
    """Missed syncs in a row that make a source overdue."""
    stale_after_hours: float = Field(168, gt=0)
    """Hours without a sync that make an unscheduled source overdue."""
    alert_command: list[str] = Field([])
    """Command that gets alerts as JSON on standard input. Empty: none."""
    alert_url_env: str | None = None
    """Environment variable with a webhook for alerts. Slack and Mattermost show its `text`. null: none."""
    alert_timeout_s: ClassVar[float] = 5  # seconds after which an alert that was not accepted is abandoned
