"""The section `monitoring` of `config/app.yaml`.

Belongs here: when a source counts as overdue, and who is told. Does not belong here: the other sections (`sections`).
"""

from __future__ import annotations

from pydantic import Field

from rag_serving.config.sources import Section


class Monitoring(Section):
    """Alerts about overdue sources, failed syncs and failed publications. Dagster's daemon checks every minute; no
    build waits for an alert."""

    missed_syncs: int = Field(2, ge=1, le=100)
    """Scheduled syncs in a row without a complete one after which a source is overdue."""
    stale_after_hours: float = Field(168, gt=0)
    """Hours without a complete sync after which a source without a schedule is overdue."""
    alert_command: list[str] = Field([])
    """Command with its arguments, run when a sync or a publication fails, when a source becomes overdue or recovers,
    and when a model fails to write contexts or recovers. It gets the event as JSON on standard input. Empty: none."""
    alert_url_env: str | None = None
    """Environment variable with the address of a webhook that receives the event as JSON; Slack and Mattermost show its
    `text`. null: none."""
    alert_timeout_s: float = Field(5, gt=0, le=10)
    """Seconds after which an alert that was not accepted is abandoned."""
