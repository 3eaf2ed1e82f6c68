"""What is made from the list of metrics: the list in docs/monitoring.md and Grafana's dashboard in deploy/monitoring.

`python scripts/generate_monitoring.py` writes them; `--check` fails where they are not what the code says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from rag_serving.rerank_service.api import SIDECAR_SERIES
from rag_serving.telemetry.metrics import BUCKETS_S, TENANT, Series, all_series

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- begin metrics -->\n", "<!-- end metrics -->\n"
WIDTH, HEIGHT, COLUMNS = 8, 7, 24
UNITS = {
    "count": "short",
    "seconds": "s",
    "timestamp": "s",  # panels show the age
    "ratio": "percentunit",
    "currency": "short",
    "budget": "short",
    "flag": "bool_yes_no",
}
RATE_UNITS = {"count": "reqps", "currency": "short"}


def reference(page: str) -> str:
    """Return docs/monitoring.md with the list of every series: its type, labels and meaning."""
    before, begin, rest = page.partition(BEGIN)
    listed = [
        *_listed(all_series().values()),
        f"\nBuckets end at {', '.join(f'{bound:g}' for bound in BUCKETS_S)} seconds.\n",
        "\n### The reranker sidecar\n\n`/metrics` of `citelock rerank-service`, without the label `tenant`.\n\n",
        *_listed(SIDECAR_SERIES.values()),
    ]
    return "".join([before, begin, *listed, END, rest.partition(END)[2]])


def _listed(series: Iterable[Series]) -> Iterator[str]:
    for each in series:
        labels = ", ".join(f"`{label}`" + f" ({values})" * bool(values) for label, values in each.labels.items())
        mark = " †" * each.of_operators
        yield f"- `{each.full_name}`{mark} {each.kind}{f' by {labels}' if labels else ''}: {each.text}\n"


def dashboard() -> str:
    """deploy/monitoring/dashboard.json: a row for each group of metrics, a panel for each metric."""
    panels: list[dict[str, Any]] = []
    top = 0
    listed = [*all_series().values(), *SIDECAR_SERIES.values()]
    groups = list(dict.fromkeys(each.group for each in listed))
    ordered = sorted(listed, key=lambda each: groups.index(each.group))
    for group, members in groupby(ordered, key=lambda each: each.group):
        panels.append(
            {"type": "row", "title": group, "collapsed": False, "gridPos": _place(0, top, COLUMNS, 1), "panels": []}
        )
        top += 1
        for number, each in enumerate(members):
            left = number * WIDTH % COLUMNS
            panels.append(_panel(each, left, top))
            top += HEIGHT if left + WIDTH == COLUMNS else 0
        top += HEIGHT if left + WIDTH < COLUMNS else 0
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    content = {
        "title": "Citelock",
        "uid": "citelock",
        "description": "Made by scripts/generate_monitoring.py from the list of metrics.",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "tags": ["citelock"],
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}, _tenants()]
        },
        "panels": panels,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _tenants() -> dict[str, Any]:
    return {
        "name": TENANT,
        "label": "Tenant",
        "type": "query",
        "datasource": _source(),
        "query": {"query": f"label_values(citelock_generation_state, {TENANT})", "refId": "tenants"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${source}"}


def _panel(series: Series, left: int, top: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "expr": query, "legendFormat": legend, "datasource": _source()}
        for number, (query, legend) in enumerate(queries_of(series).items())
    ]
    return {
        "type": "timeseries",
        "title": title_of(series),
        "description": series.text.replace("`", ""),
        "datasource": _source(),
        "gridPos": _place(left, top, WIDTH, HEIGHT),
        "fieldConfig": {
            "defaults": {"unit": (RATE_UNITS if series.kind == "counter" else UNITS)[series.unit], "min": 0},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def title_of(series: Series) -> str:
    """Return the name of a panel: what of the metric it shows."""
    words = series.name.removesuffix("_timestamp_seconds").removesuffix("_seconds").removesuffix("_info")
    name = words.replace("_", " ").capitalize()
    if series.unit == "timestamp":
        return f"{name}: age"
    if series.kind == "counter":
        return f"{name} a second"
    return f"{name}: p50, p95" if series.kind == "histogram" else name


def queries_of(series: Series) -> Mapping[str, str]:
    """Return the queries of a panel with the legend of each. What each server reads of the same state is not added up;
    what its processes count is."""
    labels = series.all_labels
    legend = " ".join(f"{{{{{label}}}}}" for label in labels) or series.name
    chosen = f'{{{TENANT}=~"$tenant"}}' if series.has_tenant else ""
    by = f" by ({', '.join(labels)})" if labels else ""
    if series.kind == "counter":
        return {f"sum{by} (rate({series.full_name}{chosen}[$__rate_interval]))": legend}
    if series.kind == "histogram":
        bucket = f"sum by ({', '.join((*labels, 'le'))}) (rate({series.full_name}_bucket{chosen}[$__rate_interval]))"
        return {
            f"histogram_quantile({share}, {bucket})": f"{name} {legend}"
            for share, name in ((0.5, "p50"), (0.95, "p95"))
        }
    if series.unit == "timestamp":
        return {f"time() - max{by} ({series.full_name}{chosen})": legend}
    return {f"{'sum' if series.is_summed else 'max'}{by} ({series.full_name}{chosen})": legend}


def main() -> int:
    page = ROOT / "docs" / "monitoring.md"
    text = page.read_text(encoding="utf-8") if page.exists() else BEGIN + END
    made = {page: reference(text), ROOT / "deploy" / "monitoring" / "dashboard.json": dashboard()}
    stale = []
    for path, text in made.items():
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        print(f"{', '.join(stale)}: not what the code says; run `make docs`", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
