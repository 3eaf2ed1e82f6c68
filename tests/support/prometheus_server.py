"""A real Prometheus on loopback, as Debian installs it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from support.waiting import status_of, wait_until


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def value(self, query: str) -> dict[str, float]:
        """What a query gives: value by the labels that are told, as JSON-like text."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=10).json()
        assert answer["status"] == "success", answer
        return {_labels(each["metric"]): float(each["value"][1]) for each in answer["data"]["result"]}

    def firing(self) -> dict[str, dict[str, Any]]:
        """The alerts that fire, by name."""
        alerts = httpx.get(f"{self.url}/api/v1/alerts", timeout=10).json()["data"]["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in alerts if alert["state"] == "firing"}

    def rules(self) -> dict[str, str]:
        """The health of each rule, by name."""
        groups = httpx.get(f"{self.url}/api/v1/rules", timeout=10).json()["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}


def _labels(metric: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(metric.items()) if not name.startswith("__"))


@contextmanager
def started_prometheus(config: dict[str, Any]) -> Iterator[Prometheus]:
    """A server with this configuration, until it is left; skips where it is not installed, and fails in CI."""
    program = shutil.which("prometheus")
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("Debian's prometheus is not installed")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [
            program,
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: process.poll() is None and status_of(f"{url}/-/ready") == 200)
            yield Prometheus(url)
        finally:
            process.kill()
            process.wait(20)
