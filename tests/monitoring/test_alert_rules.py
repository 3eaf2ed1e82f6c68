"""Rules, dashboard and runbook say the same as the program's list of metrics, and Prometheus takes them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.promql import Selector, grouped_labels, selectors

from rag_serving.rerank_service.api import SIDECAR_SERIES, Meters
from rag_serving.telemetry.metrics import Series, all_series
from scripts import generate_monitoring

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
TARGET = {"job", "instance"}
KNOWN = {series.full_name: series for series in (*all_series().values(), *SIDECAR_SERIES.values())}
SUFFIXES = ("_bucket", "_sum", "_count")


def groups() -> list[dict[str, Any]]:
    content = yaml.safe_load((FOLDER / "rules.yaml").read_text())
    return list(content["groups"])


RULES = [rule for group in groups() for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in RULES if "record" in rule}
PANELS = [panel for panel in json.loads(generate_monitoring.dashboard())["panels"] if panel["type"] != "row"]
SHOWN = {target["expr"] for panel in PANELS for target in panel["targets"]}


def as_promql(expression: str) -> str:
    """An expression of the dashboard with a value for Grafana's own variable."""
    return expression.replace("$__rate_interval", "5m")


EXPRESSIONS = sorted({str(rule["expr"]) for rule in RULES} | {as_promql(expression) for expression in SHOWN})


def series_of(selector: Selector) -> Series | None:
    """What a selector names in the list; None where that is recorded, or Prometheus' own `up`."""
    if selector.metric in RECORDED or selector.metric == "up":
        return None
    name = next((selector.metric.removesuffix(s) for s in SUFFIXES if selector.metric.endswith(s)), selector.metric)
    found = KNOWN.get(selector.metric) or KNOWN.get(name)
    assert found is not None, f"{selector.metric} is no metric of the list"
    assert (found.kind == "histogram") == (selector.metric != found.full_name), selector.metric
    return found


def labels_of(metric: str) -> set[str]:
    """The labels that samples of a metric, or of what is recorded, can have."""
    if metric == "up":
        return {"job", "instance", "tenant"}
    if metric in RECORDED:
        return grouped_labels(RECORDED[metric]["expr"]) - {"le"}
    series = series_of(Selector(metric, frozenset(), (), False))
    assert series
    return {*series.all_labels, *TARGET, *(["le"] if series.kind == "histogram" else [])}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_of_an_expression_exists(expression: str) -> None:
    found = selectors(expression)
    assert found
    for selector in found:
        assert selector.labels <= labels_of(selector.metric), selector
    reachable = set().union(*(labels_of(selector.metric) for selector in found))
    assert grouped_labels(expression) <= reachable


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_are_asked_for_their_rate_and_gauges_for_their_value(expression: str) -> None:
    for selector in selectors(expression):
        series = series_of(selector)
        if series is None:
            continue
        is_rate = selector.is_range and {"rate", "increase"} & set(selector.within)
        assert bool(is_rate) == (series.kind != "gauge"), selector
        if series.kind == "histogram":
            assert selector.metric.endswith("_bucket")
            assert "histogram_quantile" in selector.within


def test_what_is_recorded_is_named_by_its_unit() -> None:
    """https://prometheus.io/docs/practices/rules/: level:metric:operations"""
    for name, rule in RECORDED.items():
        expression = rule["expr"]
        units = {series.unit for selector in selectors(expression) if (series := series_of(selector))}
        if name.endswith(":seconds") or "seconds" in name:
            assert units <= {"timestamp", "seconds"}, name
            assert ("time()" in expression) == (units == {"timestamp"})
        elif "ratio" in name:
            assert " / " in expression
            assert len(units) == 1, name
        else:
            assert re.fullmatch(r"citelock:\w+:rate\d+[mhd]", name)
        for window in re.findall(r"\[(\w+)\]", expression):
            assert name.endswith(f"rate{window}"), name


def test_what_is_recorded_stands_before_what_uses_it_in_its_group() -> None:
    for group in groups():
        known: set[str] = set()
        for rule in group["rules"]:
            used = {selector.metric for selector in selectors(rule["expr"])} & set(RECORDED)
            assert used <= known, rule
            known |= {rule["record"]} if "record" in rule else set()


def test_every_alert_says_how_bad_it_is_and_where_to_read_on() -> None:
    entries = re.findall(r"^### (Citelock\w+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert sorted(entries) == sorted(ALERTS)  # no entry without an alert either
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"
        summary = rule["annotations"]["summary"]
        assert summary.endswith(".")
        named = set(re.findall(r"\$labels\.(\w+)", summary))
        reachable = set().union(*(labels_of(selector.metric) for selector in selectors(rule["expr"])))
        assert named <= reachable, name


def test_every_entry_of_the_runbook_says_where_to_look_and_what_to_do() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text().partition("\n## Alerts\n")[2].partition("\n## ")[0]
    for entry in text.split("\n### ")[1:]:
        assert re.fullmatch(r"\w+\n\n- .*?\n- Look: .*?\n- Fix: .*?\n*", entry, re.DOTALL), entry


def test_every_alert_is_tested_when_it_fires_and_when_it_does_not() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    cases = {case["alertname"]: [] for test in tests for case in test.get("alert_rule_test", ())}
    for test in tests:
        for case in test.get("alert_rule_test", ()):
            cases[case["alertname"]].append(bool(case["exp_alerts"]))
    assert {name: sorted(fires) for name, fires in cases.items()} == {name: [False, True] for name in ALERTS}
    series = {entry["series"] for test in tests for entry in test["input_series"]}
    for name in series:
        (selector,) = selectors(name)
        assert selector.labels <= labels_of(selector.metric), name


def promtool(*arguments: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "promtool (Debian's prometheus) is not installed"
        )
    done = subprocess.run([program, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules_and_the_example() -> None:
    promtool("check", "rules", "rules.yaml")
    promtool("check", "config", "--syntax-only", "prometheus.yaml")


def test_every_alert_fires_when_it_should() -> None:
    promtool("test", "rules", "alerts_test.yaml")


def test_the_dashboard_has_a_panel_for_every_metric_in_its_unit() -> None:
    shown = {series.full_name: panel for panel in PANELS for target in panel["targets"]
             for selector in selectors(as_promql(target["expr"])) if (series := series_of(selector))}  # fmt: skip
    assert set(shown) == set(KNOWN)
    for name, panel in shown.items():
        series = KNOWN[name]
        unit = panel["fieldConfig"]["defaults"]["unit"]
        assert (unit == "s") == (series.unit in {"seconds", "timestamp"}), name
        assert (unit == "percentunit") == (series.unit == "ratio"), name
        assert (unit == "reqps") == (series.kind == "counter" and series.unit == "count"), name
        for target in panel["targets"]:
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(series.all_labels)


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = json.loads(generate_monitoring.dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= generate_monitoring.COLUMNS
        taken |= cells


def test_units_and_names_of_the_list_agree() -> None:
    for name, series in KNOWN.items():
        if series.kind != "counter" and "seconds" in name:
            assert series.unit == ("timestamp" if name.endswith("_timestamp_seconds") else "seconds")
        assert name.endswith("_ratio") == (series.unit == "ratio")
        assert series.text.endswith(".")


def test_the_sidecars_metrics_are_those_of_the_list() -> None:
    meters = Meters()
    meters.requests.labels("200").inc()
    text = meters.exposition().decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    kinds = {name: kind for name, kind in kinds.items() if not name.endswith("_created")}
    assert kinds == {series.full_name: series.kind for series in SIDECAR_SERIES.values()}


def test_what_is_generated_is_what_the_code_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate_monitoring.py", "--check"])
    assert generate_monitoring.main() == 0
    monkeypatch.setattr(generate_monitoring, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate_monitoring.py"])
    assert generate_monitoring.main() == 0
    monkeypatch.setattr(sys, "argv", ["generate_monitoring.py", "--check"])
    board = tmp_path / "deploy" / "monitoring" / "dashboard.json"
    board.write_text(board.read_text().replace("citelock_claims_total", "citelock_claim_total"))
    assert generate_monitoring.main() == 1
    assert "dashboard.json" in capsys.readouterr().err


def test_a_metric_that_nobody_has_is_seen() -> None:
    with pytest.raises(AssertionError, match="no metric"):
        series_of(selectors("rate(citelock_question_total[5m])")[0])
    assert not selectors('citelock_claims_total{tennant="a"}')[0].labels <= labels_of("citelock_claims_total")
