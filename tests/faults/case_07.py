"""A token that lapsed: the site answers 200 and takes the caller for nobody, so restricted pages are not listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sources.stand_in_confluence import TOKEN, USER, StandIn
from sources.stand_in_faults import Answer, Fault
from sources.stand_in_site import page
from sources.syncs import Syncs

from rag_assets.sources import SourceError


def check(folder: Path, tmp_path: Path) -> None:
    assert (folder / "README.md").is_file()
    with StandIn("datacenter") as wiki, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONFLUENCE_USER", USER)
        patch.setenv("CONFLUENCE_TOKEN", TOKEN)
        wiki.site.put(*(page(number, groups=["ops"] if number > 41 else []) for number in range(1, 47)))
        sync = Syncs(wiki, tmp_path, auth={"kind": "basic"})
        assert len(sync().pages) == 46
        wiki.site.forbidden |= {str(number) for number in range(42, 47)}
        anonymous = Answer.of({"type": "anonymous"})
        wiki.faults.append(Fault(lambda *_: anonymous, None, lambda one: one.path.endswith("user/current")))
        with pytest.raises(SourceError, match="not signed in"):
            sync()
        wiki.faults.clear()
        with pytest.raises(SourceError, match="lacks all 5 pages with the readers group:ops"):
            sync()  # a token that is somebody's, but sees less
