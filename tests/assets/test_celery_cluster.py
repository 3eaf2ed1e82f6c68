"""Builds by Celery workers: the same generation as in one process, whichever worker is killed.

Two workers over Debian's redis, with Dagster's storage in Postgres. CITELOCK_CLUSTER_KILLS is how often one is killed
while it has a step: once by default. With CITELOCK_CLUSTER_DATA pages of Confluence and a book take the place of the
tiny wiki, where they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.building import build
from support.celery_cluster import LOST_AFTER_S, started_cluster
from support.envelopes import Wiki
from support.postgres import Postgres

from evals.bench.cluster import Killer
from evals.bench.executors import build as build_by_cluster
from evals.bench.executors import configuration

KILLS = int(os.environ.get("CITELOCK_CLUSTER_KILLS", "1"))
IS_REAL = os.environ.get("CITELOCK_CLUSTER_DATA") == "1"
DATA = Path(__file__).parents[3] / "shared" / "data"
CELERY: dict[str, Any] = {"executor": "celery", "celery": {"lost_after_s": LOST_AFTER_S}}


def real_pages(folder: Path) -> dict[str, Any]:
    """Return the configuration of 300 pages of Confluence and a book."""
    if not (DATA / "cwiki").is_dir():
        pytest.skip("needs ../shared/data with cwiki and rust-book")
    return configuration(folder / "home", DATA.resolve(), "in_process")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_workers_make_the_generation_of_one_process_though_they_are_killed(
    tmp_path: Path, postgres: Postgres
) -> None:
    wiki = Wiki(tmp_path / "wiki")
    content = real_pages(tmp_path) if IS_REAL else yaml.safe_load(wiki.config_path.read_text())
    tenant = next(iter(content["tenants"]))
    wiki.config_path.write_text(yaml.safe_dump({**content, "home": str(tmp_path / "alone")}))
    build(wiki)
    alone = (tmp_path / "alone" / "tenants" / tenant / "current").read_text()

    wiki.config_path.write_text(yaml.safe_dump({**content, "orchestration": CELERY}))
    with started_cluster(tmp_path, wiki.config_path, postgres.database("steps")) as cluster:
        with Killer(cluster, KILLS, pause_s=1) as killer:
            build_by_cluster(cluster, Path(content["home"]), tenant, list(content["sources"]))
        assert killer.killed == KILLS
    assert (Path(content["home"]) / "tenants" / tenant / "current").read_text() == alone
