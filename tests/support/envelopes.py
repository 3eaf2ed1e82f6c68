"""A tiny wiki of REST envelopes, written by the test that uses it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

SECTION = "<h2>{heading}</h2><p>{text}</p>"
DEPLOY = SECTION.format(
    heading="Rolling out", text="Run the release pipeline and watch the canary for ten minutes."
) + SECTION.format(heading="Rolling back", text="To roll back a release, run the rollback pipeline.")
BACKUP = SECTION.format(heading="Nightly backup", text="Backups of the database start at two in the morning.")
PAGER = SECTION.format(heading="On call", text="The pager goes to whoever is on call this week.")


def envelope(page_id: str, title: str, body: str, version: int = 1, labels: Sequence[str] = ()) -> dict[str, Any]:
    """A page as REST v1 returns it."""
    return {
        "id": page_id,
        "type": "page",
        "status": "current",
        "title": title,
        "space": {"key": "ENG", "name": "Engineering"},
        "version": {"number": version, "when": f"2026-03-{version:02d}T08:00:00.000Z"},
        "ancestors": [],
        "metadata": {"labels": {"results": [{"name": label} for label in labels]}},
        "body": {"storage": {"value": body, "representation": "storage"}},
        "_links": {"webui": f"/display/ENG/{page_id}", "base": "https://wiki.example"},
    }


class Wiki:
    """Two sources of one tenant, a configuration for them, and a home of their own."""

    def __init__(self, folder: Path, pages_at: Path | None = None) -> None:
        """Write the wiki into a folder; the configuration names its pages below `pages_at`, by default that folder."""
        self._at(folder, pages_at)
        self.write("eng", envelope("101", "Deploy guide", DEPLOY))
        self.write("eng", envelope("102", "Backup guide", BACKUP))
        self.write("ops", envelope("201", "Pager guide", PAGER))
        self.configure()

    @classmethod
    def copy(cls, built: Path, folder: Path) -> Wiki:
        """Copy a wiki that was built, whose configuration names its pages below the working directory.

        The folder of its pages is a setting that tables depend on: as an absolute one it would be another.
        """
        wiki = cls.__new__(cls)
        wiki._at(folder, Path())
        shutil.copytree(built, folder, dirs_exist_ok=True)
        wiki.configure()
        return wiki

    def _at(self, folder: Path, pages_at: Path | None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.config_path = folder / "app.yaml"
        self._pages_at = folder if pages_at is None else pages_at

    def configure(self, **settings: Any) -> None:
        """Write the configuration, with these top-level keys over the usual ones."""
        content = {
            "home": str(self.home),
            "tenants": {"demo": {}},
            "sources": {key: self.source(key) for key in ("eng", "ops")},
            **settings,
        }
        self.config_path.write_text(yaml.safe_dump(content), encoding="utf-8")

    def source(self, key: str, **settings: Any) -> dict[str, Any]:
        usual = {"kind": "confluence_dump", "tenant": "demo", "path": str(self._pages_at / key), "readers": "everyone"}
        return {**usual, **settings}

    def write(self, source: str, page: dict[str, Any]) -> None:
        path = self.folder / source / f"{page['id']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(page), encoding="utf-8")

    def delete(self, source: str, page_id: str) -> None:
        (self.folder / source / f"{page_id}.json").unlink()


TWIN_TEXT = (
    "Before the failover the engineer on call tells the harbour master, stops the scheduler, and waits until the "
    "replica has caught up with the primary. Then the old primary is fenced, or two berth plans exist."
)
TWIN = SECTION.format(heading="Promote a replica", text=TWIN_TEXT)


def write_twins(wiki: Wiki) -> None:
    """Write a page of two sections into both sources, the newer version into the first."""
    older = envelope("301", "Failover", TWIN, version=2)
    older["space"] = {"key": "OPS", "name": "Operations"}
    wiki.write("eng", envelope("300", "Failover", TWIN, version=5))
    wiki.write("ops", older)
