"""Dagster's own chart as far as our values use it: the names of its values, and the dagster.yaml that it writes.

The chart itself is in no package registry. These names were read from its templates and its schema (helm/dagster of
Dagster's repository, with `concurrency.enabled` and `retryOnAssetOrOpFailure`, as in 1.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_POD = {
    "affinity", "annotations", "env", "envConfigMaps", "envSecrets", "image", "labels", "livenessProbe", "nodeSelector",
    "podSecurityContext", "readinessProbe", "resources", "schedulerName", "securityContext", "startupProbe",
    "tolerations", "volumeMounts", "volumes",
}  # fmt: skip
MONITORING = {
    "enabled": "enabled",
    "startTimeoutSeconds": "start_timeout_seconds",
    "cancelTimeoutSeconds": "cancel_timeout_seconds",
    "maxRuntimeSeconds": "max_runtime_seconds",
    "maxResumeRunAttempts": "max_resume_run_attempts",
    "pollIntervalSeconds": "poll_interval_seconds",
    "freeSlotsAfterRunEndSeconds": "free_slots_after_run_end_seconds",
}
RETRIES = {"enabled": "enabled", "maxRetries": "max_retries", "retryOnAssetOrOpFailure": "retry_on_asset_or_op_failure"}
LAUNCHER = {
    "loadInclusterConfig": "load_incluster_config",
    "kubeconfigFile": "kubeconfig_file",
    "jobNamespace": "job_namespace",
    "imagePullPolicy": "image_pull_policy",
    "image": "job_image",
    "envConfigMaps": "env_config_maps",
    "envSecrets": "env_secrets",
    "envVars": "env_vars",
    "volumeMounts": "volume_mounts",
    "volumes": "volumes",
    "labels": "labels",
    "resources": "resources",
    "failPodOnRunFailure": "fail_pod_on_run_failure",
    "schedulerName": "scheduler_name",
    "securityContext": "security_context",
    "runK8sConfig": "run_k8s_config",
}
RUN_POD = {
    "containerConfig": "container_config",
    "podSpecConfig": "pod_spec_config",
    "podTemplateSpecMetadata": "pod_template_spec_metadata",
    "jobSpecConfig": "job_spec_config",
    "jobMetadata": "job_metadata",
}
NAMES: dict[str, set[str]] = {
    "": {
        "additionalInstanceConfig", "busybox", "computeLogManager", "concurrency", "dagster-user-deployments",
        "dagsterDaemon", "dagsterWebserver", "enabled", "flower", "generateCeleryConfigSecret",
        "generatePostgresqlPasswordSecret", "global", "imagePullSecrets", "ingress", "migrate", "postgresql",
        "pythonLogs", "rabbitmq", "redis", "retention", "runLauncher", "scheduler", "serviceAccount", "telemetry",
    },
    "dagsterWebserver": _POD
    | {"dbPoolRecycle", "dbStatementTimeout", "deploymentLabels", "enableReadOnly", "logLevel", "nameOverride"}
    | {"pathPrefix", "replicaCount", "service", "workspace"},
    "dagsterDaemon": _POD
    | {"deploymentLabels", "enabled", "heartbeatTolerance", "runCoordinator", "runMonitoring", "runRetries"}
    | {"schedules", "sensors"},
    "dagsterDaemon.runCoordinator": {"enabled", "type", "config"},
    "dagsterDaemon.runCoordinator.config": {"queuedRunCoordinator", "customRunCoordinator"},
    "dagsterDaemon.runCoordinator.config.customRunCoordinator": {"module", "class", "config"},
    "dagsterDaemon.runMonitoring": set(MONITORING),
    "dagsterDaemon.runRetries": set(RETRIES),
    "retention": {"enabled", "sensor", "schedule", "autoMaterialize"},
    "retention.sensor": {"purgeAfterDays"},
    "retention.schedule": {"purgeAfterDays"},
    "runLauncher": {"type", "config"},
    "runLauncher.config": {"celeryK8sRunLauncher", "customRunLauncher", "k8sRunLauncher"},
    "runLauncher.config.k8sRunLauncher": set(LAUNCHER),
    "runLauncher.config.k8sRunLauncher.runK8sConfig": set(RUN_POD),
    "dagster-user-deployments": {"enabled", "enableSubchart", "imagePullSecrets", "deployments"},
}  # fmt: skip
DEPLOYMENT = _POD | {"codeServerArgs", "dagsterApiGrpcArgs", "includeConfigInLaunchedRuns", "name", "port"}


def at(values: Mapping[str, Any], path: str) -> Any:
    """The values under a path of names joined by dots; an empty mapping where there are none."""
    for name in filter(None, path.split(".")):
        values = values.get(name, {})
    return values


def unknown_names(values: Mapping[str, Any]) -> list[str]:
    """The names in our values that the chart does not read, and drops in silence."""
    found = [f"{path}.{name}".lstrip(".") for path, known in NAMES.items() for name in set(at(values, path)) - known]
    for deployment in values["dagster-user-deployments"]["deployments"]:
        found += [f"deployments.{name}" for name in set(deployment) - DEPLOYMENT]
    return sorted(found)


def instance(values: Mapping[str, Any]) -> dict[str, Any]:
    """The dagster.yaml that the chart writes from our values, without the storage."""
    daemon, launcher = values["dagsterDaemon"], at(values, "runLauncher.config.k8sRunLauncher")
    days = {name: {"purge_after_days": values["retention"][name]["purgeAfterDays"]} for name in ("sensor", "schedule")}
    return {
        "run_coordinator": daemon["runCoordinator"]["config"]["customRunCoordinator"],
        "run_launcher": {"module": "dagster_k8s", "class": "K8sRunLauncher", "config": _launcher(launcher)},
        "run_monitoring": _renamed(daemon["runMonitoring"], MONITORING),
        "run_retries": _renamed(daemon["runRetries"], RETRIES),
        "telemetry": values["telemetry"],
        "retention": days if values["retention"]["enabled"] else {},
        **values["additionalInstanceConfig"],
    }


def _launcher(values: Mapping[str, Any]) -> dict[str, Any]:
    config = _renamed(values, LAUNCHER)
    config["env_secrets"] = [each["name"] for each in values["envSecrets"]]
    config["run_k8s_config"] = _renamed(values["runK8sConfig"], RUN_POD)
    names = {"service_account_name": "citelock-dagster", "instance_config_map": "citelock-dagster-instance"}
    return {**config, **names, "postgres_password_secret": "citelock-dagster-postgres", "job_namespace": "citelock"}


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[key]: value for key, value in values.items() if key in names}
