"""Everything Dagster knows of this project.

Belongs here: putting assets, jobs, schedules, sensors and resources together.
Does not belong here: any of them. Loading reads the configuration (which schedules there are) and nothing else; a
source that is misspelt there costs its own schedule, and the UI comes up to say so.
"""

import logging
from pathlib import Path
from typing import Any

import dagster as dg

from rag_assets import assets
from rag_assets.jobs import ingest, publish, report, report_day
from rag_assets.progress import LogReporter
from rag_assets.resources import Installation
from rag_assets.schedules import report_yesterday, schedules
from rag_assets.sensors import publish_when_sources_changed, register_partitions, report_when_published
from rag_serving.config import load_usable

LOCATION = "citelock"
"""Name of the code location in `workspace.yaml`."""


def build_defs(config_path: Path | None = None, **resources: Any) -> dg.Definitions:
    """The project's definitions.

    Args:
        config_path: the configuration; else CITELOCK_CONFIG, else config/app.yaml.
        resources: resources to put in place of the usual ones.

    Raises:
        ConfigError: the configuration cannot be used; the message is one line.
    """
    config, faults = load_usable(config_path)
    for fault in faults.values():
        logging.getLogger(__name__).warning("%s; this source has no schedule until that is mended", fault)
    usual = {
        "installation": Installation(config_path=str(config_path) if config_path else ""),
        "reporter": LogReporter(),
    }
    return dg.Definitions(
        assets=dg.load_assets_from_package_module(assets),
        jobs=[ingest, publish, report, report_day],
        schedules=[*schedules(config), report_yesterday],
        sensors=[register_partitions, publish_when_sources_changed, report_when_published],
        resources={**usual, **resources},
        # Steps of one run share a process: they hand on files, and a process each would cost seconds each.
        executor=dg.in_process_executor,
    )


defs = build_defs()
