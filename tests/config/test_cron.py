"""Cron expressions of sources."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.sources import check_cron, last_ticks


@pytest.mark.parametrize("expression", ["*/15 * * * *", "@hourly", "0 9-17 * * 1-5", "0 0 29 2 *", "30 3 * * mon"])
def test_what_dagster_follows_is_accepted(expression: str) -> None:
    from dagster import ScheduleDefinition

    assert check_cron(expression) == expression
    ScheduleDefinition(name="ticks", job_name="ingest", cron_schedule=expression)


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * *", "61 * * * *", "0 25 * * *", "every hour", "0 0 31 4 *", "*/0 * * * *", "1," * 5000],
)
def test_what_never_ticks_is_refused_in_one_line_that_names_the_source(expression: str) -> None:
    source = {"kind": "confluence_dump", "tenant": "a", "path": "x", "schedule": expression}
    with pytest.raises(ConfigError, match=r"^configuration: sources\.s\.schedule: ") as caught:
        parse_config({"tenants": {"a": {}}, "sources": {"s": source}})
    assert "minute hour day month weekday" in str(caught.value)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_the_last_ticks_come_newest_first_and_skip_the_weekend() -> None:
    monday = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)
    ticks = last_ticks("0 9-10 * * 1-5", monday, 3)
    assert [tick.isoformat() for tick in ticks] == [
        "2026-03-02T10:00:00+00:00",
        "2026-03-02T09:00:00+00:00",
        "2026-02-27T10:00:00+00:00",
    ]
