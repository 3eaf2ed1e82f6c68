"""Why a run failed, in one line.

Belongs here: reading Dagster's events of failed steps. Does not belong here: what is done about it.
"""

from __future__ import annotations

import dagster as dg

UNKNOWN = "the run failed; its log shows why"


def step_failure(event: dg.DagsterEvent) -> str | None:
    """Return the reason of a step's failure: what the step said, else its error."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return f"{event.step_key}: {data.user_failure_data.description}"
    if data.error is not None:
        error = data.error.cause or data.error
        return f"{event.step_key}: {' '.join(error.message.split())}"
    return None
