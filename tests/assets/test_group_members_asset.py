"""The asset `pages` leaves the members of groups where questions find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from sources.stand_in_confluence import StandIn
from sources.stand_in_site import page

from rag_assets.definitions import build_defs
from rag_assets.partitions import register
from rag_serving.access.group_members import Memberships
from rag_serving.access.principals import Principal
from rag_serving.config.loading import load_config

QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.mark.parametrize("flavor", ["cloud", "datacenter"])
def test_who_is_in_a_group_now_is_known_after_the_sync(flavor: Any, tmp_path: Path) -> None:
    config_path = tmp_path / "app.yaml"
    with StandIn(flavor) as wiki, dg.DagsterInstance.ephemeral() as instance:
        live = {"kind": "confluence", "tenant": "acme", "base_url": wiki.url, "space": "ENG", "groups": True}
        content = {
            "home": str(tmp_path / "home"),
            "tenants": {"acme": {}},
            "sources": {"eng": {**live, "readers": "everyone", "max_requests_per_s": 1000}},
            "serving": {"groups": "synced"},
        }
        config_path.write_text(yaml.safe_dump(content))
        wiki.site.put(page(1, groups=["ops"]))
        config, defs = load_config(config_path), build_defs(config_path)
        register(instance, config)
        memberships, ann = Memberships(config), "id-ann" if flavor == "cloud" else "ann"
        for members in ([], ["ann"], ["bob"]):
            wiki.site.groups["ops"] = members
            result = dg.materialize(
                list(defs.assets or ()),  # type: ignore[arg-type]
                selection=["pages"],
                partition_key="eng",
                instance=instance,
                resources=defs.resources,
                run_config=QUIET,
            )
            assert result.success
            groups = memberships.with_groups(Principal("acme", ann)).groups
            assert groups == ({"ops"} if "ann" in members else set())
