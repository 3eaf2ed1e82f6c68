"""The chart of deploy/helm as the real helm renders it, without Dagster's chart, which no package registry has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "citelock"
CASES = sorted(path.stem for path in (CHART / "ci").glob("*.yaml"))


def helm() -> str:
    """The program of the environment or the machine; skips where there is none, and fails in CI."""
    found = Path(sys.prefix) / "helm" / "helm"
    program = str(found) if found.exists() else shutil.which("helm") or os.environ.get("HELM", "")
    if not program:
        if os.environ.get("CI") == "true":
            pytest.fail("helm is not installed; python scripts/helm.py .venv/helm")
        pytest.skip("helm is not installed; python scripts/helm.py .venv/helm")
    return program


def chart_without_dependencies(folder: Path) -> Path:
    """A copy of the chart that names no other chart."""
    copied = folder / "citelock"
    shutil.copytree(CHART, copied)
    meta = yaml.safe_load((copied / "Chart.yaml").read_text())
    del meta["dependencies"]
    (copied / "Chart.yaml").write_text(yaml.safe_dump(meta))
    return copied


def run_helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *words], capture_output=True, text=True, timeout=60)


def rendered(chart: Path, case: str, *words: str) -> list[dict[str, Any]]:
    """The objects of a release with the values of one case."""
    run = run_helm("template", "citelock", str(chart), "--values", str(CHART / "ci" / f"{case}.yaml"), *words)
    assert run.returncode == 0, run.stderr
    return [each for each in yaml.safe_load_all(run.stdout) if each]
