"""The Dagster definitions of a tiny wiki on an instance that is forgotten afterwards."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rag_assets.definitions import build_defs
from rag_assets.partitions import register
from rag_assets.resources import Installation
from rag_assets.sensors import publish_when_sources_changed
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config
from support.envelopes import Wiki

QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class Project:
    """The definitions of a tiny wiki on an ephemeral instance."""

    def __init__(self, wiki: Wiki, instance: dg.DagsterInstance) -> None:
        self.wiki, self.instance = wiki, instance
        self.defs = build_defs(wiki.config_path)
        self.store = Store(wiki.home)
        self.installation = Installation(config_path=str(wiki.config_path))
        register(instance, load_config(wiki.config_path))

    def run(self, job: str, partition: str, **tags: str) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            partition_key=partition,
            raise_on_error=False,
            run_config=QUIET,
            tags={f"citelock/{name}": value for name, value in tags.items()},
        )

    def materialize(self, *assets: str) -> dg.ExecuteInProcessResult:
        """Materialize some assets of the tenant, as a person does from the asset graph."""
        return dg.materialize(
            list(self.defs.assets or ()),  # type: ignore[arg-type]
            selection=list(assets),
            partition_key="demo",
            instance=self.instance,
            resources=self.defs.resources,
            run_config=QUIET,
            raise_on_error=False,
        )

    def build(self) -> dict[str, dict[str, Any]]:
        """Run both jobs for everything; the metadata of the assets."""
        return _metadata(self.run("ingest", "eng"), self.run("ingest", "ops"), self.run("publish", "demo"))

    def publish(self) -> dict[str, dict[str, Any]]:
        """Run the job `publish`; the metadata of its assets."""
        return _metadata(self.run("publish", "demo"))

    def sensor_context(self, cursor: str | None = None) -> dg.SensorEvaluationContext:
        return dg.build_sensor_context(instance=self.instance, cursor=cursor)

    def tick(self, cursor: str | None = None) -> dg.SensorResult:
        result = publish_when_sources_changed(self.sensor_context(cursor), installation=self.installation)
        assert isinstance(result, dg.SensorResult)
        return result


def _metadata(*results: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    assert all(result.success for result in results)
    return {
        event.asset_key.to_user_string(): {name: value.value for name, value in materialization.metadata.items()}
        for result in results
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
        and (materialization := event.step_materialization_data.materialization) is not None
    }
