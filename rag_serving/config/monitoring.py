"""The section `monitoring` of `config/app.yaml`.

Belongs here: when a source counts as overdue, and who is told. Does not belong here: the other sections (`sections`).
"""

from __future__ import annotations

from pydantic import Field

from rag_serving.config.sources import Section


class Monitoring(Section):
    """Sources that fall behind, and who is told. Dagster's daemon looks every minute; nothing waits for it."""

    missed_syncs: int = Field(2, ge=1, le=100)
    """Ticks of its schedule without a complete sync after which a source is overdue."""
    stale_after_hours: float = Field(168, gt=0)
    """Hours without a complete sync after which a source that has no schedule is overdue."""
    alert_command: list[str] = Field([])
    """Command with its arguments, run when a sync or a publication fails, when a source is overdue or back, and when a
    model fails to write contexts or does again. It gets the event as JSON on standard input. Empty: none."""
    alert_url_env: str | None = None
    """Environment variable with the address of a webhook, which gets the event as JSON; Slack and Mattermost show its
    `text`. null: none."""
    alert_timeout_s: float = Field(5, gt=0, le=10)
    """Seconds after which an alert that was not taken is given up."""
