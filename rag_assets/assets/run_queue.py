"""The run queue: builds wait for builds of the same source or tenant, never for a report.

`dagster.yaml` names the class.

A limit on the partition alone, which every run has as a tag, makes `publish` of a tenant wait for its reports.
"""

from __future__ import annotations

import dagster as dg

WRITES = "citelock/writes"
"""The source or tenant whose tables a run writes: one run at a time for each, and so many in all."""
REPORTS = "citelock/reports"
"""A run that reads what others wrote: few at a time, beside the builds, and behind them in the queue."""

BUILD_JOBS, REPORT_JOBS = frozenset({"ingest", "publish"}), frozenset({"report", "report_day"})
PARTITION, PRIORITY = "dagster/partition", "dagster/priority"


def queue_tags(groups: frozenset[str], partition: str | None) -> dict[str, str]:
    """Return the tags of a run that materializes assets of these groups (jobs of builds have their group's name)."""
    builds = sorted(groups & BUILD_JOBS)
    if builds:
        return {WRITES: ".".join([*builds, *([partition] if partition else [])])}
    return {REPORTS: "yes", PRIORITY: "-1"} if groups else {}


class RunQueue(dg.QueuedRunCoordinator):
    """Dagster's queue; runs are tagged when a schedule, a sensor, a backfill or a person submits them."""

    def submit_run(self, context: dg.SubmitRunContext) -> dg.DagsterRun:
        run = context.dagster_run
        tags = queue_tags(_groups(context), run.tags.get(PARTITION))
        kept = {PRIORITY: run.tags[PRIORITY]} if PRIORITY in run.tags else {}
        self._instance.add_run_tags(run.run_id, {**tags, **kept})
        return super().submit_run(context)


def _groups(context: dg.SubmitRunContext) -> frozenset[str]:
    run = context.dagster_run
    if run.job_name in BUILD_JOBS:
        return frozenset({run.job_name})
    if run.job_name in REPORT_JOBS:
        return frozenset({"reports"})
    graph = context.workspace.asset_graph
    known = (graph.get(key) for key in run.asset_selection or () if graph.has(key))
    return frozenset(node.group_name for node in known if node.group_name)
