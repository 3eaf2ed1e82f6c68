"""What Dagster loads."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml
from support.envelopes import Wiki

from rag_assets.definitions import build_defs
from rag_assets.metadata import column_schema
from rag_assets.partitions import register
from rag_assets.resources import Installation
from rag_assets.sensors import publish_when_sources_changed, register_partitions, report_when_published, why_skipped
from rag_serving.artifacts.schema import TABLES
from rag_serving.config.loading import ConfigError, load_config

ROOT = Path(__file__).parents[2]


def test_the_definitions_are_loadable(wiki: Wiki) -> None:
    dg.Definitions.validate_loadable(build_defs(wiki.config_path))


def test_every_asset_says_what_it_is_and_who_owns_it(wiki: Wiki) -> None:
    for spec in build_defs(wiki.config_path).resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.owners, spec.key
        assert spec.group_name in {"ingest", "publish", "reports"}


def test_the_graph_goes_from_pages_to_the_published_generation(wiki: Wiki) -> None:
    specs = {spec.key.to_user_string(): spec for spec in build_defs(wiki.config_path).resolve_all_asset_specs()}
    deps = {
        name: {dep.asset_key.to_user_string() for dep in spec.deps}
        for name, spec in specs.items()
        if spec.group_name != "reports"
    }
    assert deps == {
        "pages": set(),
        "sections": {"pages"},
        "chunks": {"pages", "sections"},
        "dedup_map": {"chunks"},
        "contexts": {"dedup_map"},
        "embeddings": {"contexts"},
        "lexical_index": {"contexts"},
        "dense_index": {"embeddings"},
        "generation": {"dense_index", "lexical_index"},
        "eval_report": {"generation"},
        "published_generation": {"eval_report"},
    }


def test_a_schedule_stands_for_each_source_that_wants_one(wiki: Wiki) -> None:
    wiki.configure(sources={"my-eng": wiki.source("eng", schedule="0 3 * * *"), "ops": wiki.source("ops")})
    defs = build_defs(wiki.config_path)
    schedule = defs.resolve_schedule_def("ingest_my__eng")
    assert schedule.cron_schedule == "0 3 * * *"
    assert [schedule.name for schedule in defs.schedules or []] == ["ingest_my__eng", "report_yesterday"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"eng": {"schedule": "0 4 * * *"}}, "ingest_eng"),
        ({"eng": {}}, "ingest_eng"),
        ({"eng": {"schedule": "0 3 * * *"}, "ops": {"schedule": "0 5 * * *"}}, "ingest_ops"),
        ({"eng": {"schedule": "0 3 * * *"}}, None),
    ],
)
def test_the_sensor_says_which_schedules_dagster_has_to_load_again(
    wiki: Wiki, changed: dict[str, dict[str, str]], told: str | None
) -> None:
    wiki.configure(sources={"eng": wiki.source("eng", schedule="0 3 * * *")})
    loaded = build_defs(wiki.config_path).get_repository_def()
    wiki.configure(sources={key: wiki.source(key, **settings) for key, settings in changed.items()})
    installation = Installation(config_path=str(wiki.config_path))
    with dg.DagsterInstance.ephemeral() as instance:
        register(instance, load_config(wiki.config_path))
        context = dg.build_sensor_context(instance=instance, repository_def=loaded)
        result = register_partitions(context, installation=installation)
    assert isinstance(result, dg.SkipReason)
    needed = f'use "Reload definitions" for changed schedules: {told}' if told else "nothing changed"
    assert result.skip_message == needed


def test_a_new_source_is_synced_by_its_schedule_before_dagster_has_loaded_it(
    built_wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build_defs(built_wiki.config_path).get_repository_def()
    sources = {"eng": built_wiki.source("eng", schedule="0 3 * * *"), "ops": built_wiki.source("ops")}
    built_wiki.configure(sources={**sources, "new": built_wiki.source("new", schedule="0 3 * * *")})
    synced = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("rag_assets.sensors.last_sync", lambda _, key: synced if key != "new" else None)

    def started(loaded: dg.RepositoryDefinition) -> list[tuple[str | None, str | None]]:
        context = dg.build_sensor_context(instance=instance, repository_def=loaded)
        result = register_partitions(context, installation=Installation(config_path=str(built_wiki.config_path)))
        requests = result.run_requests if isinstance(result, dg.SensorResult) else None
        return [(one.partition_key, one.run_key) for one in requests or ()]

    with dg.DagsterInstance.ephemeral() as instance:
        register(instance, load_config(built_wiki.config_path))
        ((key, run_key),) = started(before)
        assert (key, (run_key or "").endswith("T03:00:00+00:00")) == ("eng", True)
        assert started(build_defs(built_wiki.config_path).get_repository_def()) == []  # its schedule does it
        synced = datetime.now(UTC)
        assert started(before) == []


def test_no_asset_waits_for_a_report(wiki: Wiki) -> None:
    specs = list(build_defs(wiki.config_path).resolve_all_asset_specs())
    reports = {spec.key for spec in specs if spec.group_name == "reports"}
    assert {key.to_user_string() for key in reports} >= {"telemetry_report", "dedup_report"}
    assert not [spec.key for spec in specs if reports & {dep.asset_key for dep in spec.deps}]


def test_a_broken_configuration_is_told_in_one_line(wiki: Wiki) -> None:
    wiki.configure(retrival={})
    with pytest.raises(ConfigError, match="unknown key 'retrival'; did you mean 'retrieval'"):
        build_defs(wiki.config_path)


def test_the_workspace_and_dg_name_the_same_location() -> None:
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text(encoding="utf-8"))
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["dg"]["project"]
    module = workspace["load_from"][0]["python_module"]
    assert module["location_name"] == project["code_location_name"]
    assert module["module_name"] == project["defs_module"]


def test_the_instance_settings_are_valid_and_send_no_telemetry(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_bytes((ROOT / "dagster_home" / "dagster.yaml").read_bytes())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.telemetry_enabled
        assert instance.get_concurrency_config().pool_config.default_pool_limit == 2


def test_dg_finds_nothing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dagster.yaml").write_bytes((ROOT / "dagster_home" / "dagster.yaml").read_bytes())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    dg_command = Path(sys.executable).parent / "dg"
    result = subprocess.run([dg_command, "check", "defs"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING" not in result.stderr


def test_a_faulty_source_costs_its_own_schedule_and_not_the_code_location(
    wiki: Wiki, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_TOKEN_OF_OPS", "a variable that only the faulty source names")
    good = wiki.source("eng", schedule="0 3 * * *")
    bad = {
        "kind": "confluence",
        "tenant": "demo",
        "base_url": "https://wiki.example",
        "space": "OPS",
        "auth": {"kind": "bearer", "token_env": "CITELOCK_TOKEN_OF_OPS"},
        "schedule": "every hour",
    }
    wiki.configure(sources={"eng": good, "ops": bad, "lost": {"kind": "wiki"}})
    defs = build_defs(wiki.config_path)
    assert [schedule.name for schedule in defs.schedules or []] == ["ingest_eng", "report_yesterday"]
    assert {record.getMessage().split(": ")[1] for record in caplog.records} == {"sources.ops.schedule", "sources.lost"}


def test_nothing_is_decided_on_a_configuration_that_cannot_be_read(wiki: Wiki) -> None:
    wiki.configure(sources={"eng": wiki.source("eng"), "ops": wiki.source("ops", schedule="every hour")})
    installation = Installation(config_path=str(wiki.config_path))
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("sources", ["eng", "ops"])
        for sensor in (register_partitions, publish_when_sources_changed, report_when_published):
            result = sensor(dg.build_sensor_context(instance=instance), installation=installation)
            assert isinstance(result, dg.SkipReason)
            assert "sources.ops.schedule: 'every hour' is not a cron expression" in str(result.skip_message)


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        ({}, "the configuration has no source 'eng' any more; use \"Reload definitions\""),
        ({"eng": {}}, "the configuration has no schedule for source 'eng' any more"),
        ({"eng": {"schedule": "0 3 * * *"}}, "source 'eng' is not registered yet"),
        ({"eng": {"schedule": "0 3 * *"}}, "is not a cron expression"),
    ],
)
def test_a_schedule_that_has_no_source_skips_and_says_why(
    wiki: Wiki, sources: dict[str, dict[str, str]], reason: str
) -> None:
    wiki.configure(sources={key: wiki.source(key, **settings) for key, settings in sources.items()})
    with dg.DagsterInstance.ephemeral() as instance:
        assert reason in str(why_skipped(instance, Installation(config_path=str(wiki.config_path)), "eng"))


def test_every_column_of_every_table_says_what_stands_in_it() -> None:
    for table in TABLES.values():
        columns = column_schema(table).columns
        assert [column.name for column in columns] == table.columns.names
        assert all(column.description for column in columns)


def test_every_asset_has_a_code_version_and_every_check_the_partitions_of_its_asset(wiki: Wiki) -> None:
    defs = build_defs(wiki.config_path)
    partitions = {}
    for spec in defs.resolve_all_asset_specs():
        assert spec.code_version, spec.key
        partitions[spec.key] = spec.partitions_def
    specs = [
        spec for asset in defs.assets or () if isinstance(asset, dg.AssetsDefinition) for spec in asset.check_specs
    ]
    assert len(specs) >= 19
    for spec in specs:
        assert spec.partitions_def == partitions[spec.asset_key], spec.name


def test_the_runner_of_builds_reads_no_configuration_but_the_one_it_is_given_and_imports_no_library_of_a_cluster(
    tmp_path: Path,
) -> None:
    code = (
        "import rag_assets.build.runner, sys; from rag_assets.definitions import open_executor; "
        "from rag_serving.config.loading import parse_config; "
        "open_executor(parse_config({})); print({'celery', 'docker', 'kubernetes'} & {*sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, "set()\n"), result.stderr
