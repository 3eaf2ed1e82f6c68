"""A real Prometheus scrapes a real server of two processes, by the rules that are shipped."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.command_line import write_config
from support.prometheus_server import Prometheus, started_prometheus
from support.server_process import Server, serving
from support.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
EXPECTED = {"CitelockBreakerOpen", "CitelockSourceOverdue", "CitelockNotFound"}
COUNTED = "{__name__=~'citelock_(questions_total|breaker_state|source_overdue)'}"
QUESTION = {"question": "Which colour has the moon of the planet Zorblax?"}


def at_once(rules: dict[str, Any]) -> dict[str, Any]:
    """The shipped rules, evaluated four times a second, with alerts that wait for nothing."""
    for group in rules["groups"]:
        group["interval"] = "250ms"
        for rule in group["rules"]:
            rule.pop("for", None)
    return rules


def scraping(port: int, folder: Path) -> dict[str, Any]:
    """The shipped configuration, of a server on this port and without a token."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(at_once(yaml.safe_load((FOLDER / "rules.yaml").read_text()))))
    config: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s"}  # one that fails ends all series
    config["rule_files"] = [str(folder / "rules.yaml")]
    (job,) = (job for job in config["scrape_configs"] if job["job_name"] == "citelock-acme")
    del job["authorization"]
    job["static_configs"][0]["targets"] = [f"127.0.0.1:{port}"]
    config["scrape_configs"] = [job]
    return config


def more_of(closed_port: int, folder: Path) -> str:
    """A sidecar that nobody runs, and a source that was never synced."""
    return f"""
reranker: {{url: "http://127.0.0.1:{closed_port}/rerank"}}
sources:
  eng: {{kind: files, tenant: acme, path: {folder}, readers: everyone}}
"""


def nothing(url: str) -> str:
    """The status of a question that no page answers."""
    return str(httpx.post(f"{url}/v1/ask", json=QUESTION, timeout=60, verify=False).json()["status"])


def test_rules_are_evaluated_and_alerts_fire(
    copied_wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # refuses connections as long as it does not listen, and is nobody else's
        config = write_config(tmp_path, copied_wiki, more_of(nobody.getsockname()[1], tmp_path))
        with serving(config, monkeypatch) as server, started_prometheus(scraping(server.port, tmp_path)) as prometheus:
            check(server, prometheus)


def check(server: Server, prometheus: Prometheus) -> None:
    asked = "sum(citelock_questions_total)"
    # Of nine answers one of two processes makes five, after which its breaker is open: the sidecar is away, and what is
    # not found is not reranked. What is counted for the first time is no increase yet.
    assert [server.ask() for _ in range(9)] == ["answered"] * 9
    assert [nothing(server.url) for _ in range(2)] == ["not_found"] * 2
    wait_until(lambda: sum(prometheus.value(asked).values()) == 11)
    assert {nothing(server.url) for _ in range(30)} == {"not_found"}
    wait_until(lambda: sum(prometheus.value(asked).values()) == 41)
    with suppress(AssertionError):
        wait_until(lambda: set(prometheus.firing()) >= EXPECTED)
    assert set(prometheus.firing()) >= EXPECTED, prometheus.value(COUNTED)
    assert set(prometheus.firing()) - EXPECTED <= {"CitelockSlow"}  # where the machine is busy
    summary = prometheus.firing()["CitelockSourceOverdue"]["annotations"]["summary"]
    assert summary == "Source eng of acme has had no complete sync for too long."
    assert set(prometheus.rules().values()) == {"ok"}
    (share,) = prometheus.value("citelock:not_found:ratio_rate1h").values()
    assert share > 0.9
    (age,) = prometheus.value("citelock:generation_age:seconds").values()
    assert 0 < age < 3600
    assert prometheus.value("citelock:stage_seconds:p95_rate5m").keys() >= {"stage=total,tenant=acme"}
    assert prometheus.value("sum(citelock_generation_state) by (state) > 0") == {"state=published": 2.0}
