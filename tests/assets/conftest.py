"""What the tests of the assets share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from support.damaged import PublishedSample, Sample
from support.envelopes import Wiki


@pytest.fixture(scope="session")
def published_sample(tmp_path_factory: pytest.TempPathFactory) -> PublishedSample:
    folder = tmp_path_factory.mktemp("sample")
    sample = Sample(folder)
    sample.ingest()
    assert sample.publish().success
    copy = tmp_path_factory.mktemp("published")
    shutil.copytree(folder / "home", copy / "home")
    content = yaml.safe_load(sample.config_path.read_text(encoding="utf-8"))
    (copy / "app.yaml").write_text(yaml.safe_dump({**content, "home": str(copy / "home")}), encoding="utf-8")
    return PublishedSample(sample, copy / "app.yaml")


@pytest.fixture
def wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wiki:
    """A tiny wiki; nothing of the surroundings reaches the build of it."""
    for name in ("DAGSTER_HOME", "CITELOCK_HOME", "CITELOCK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return Wiki(tmp_path)
