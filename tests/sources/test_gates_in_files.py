"""Macros that choose their readers stay closed in pages that came as files: exports, built sites, saved pages."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from rag_assets.sources import open_source
from rag_assets.steps.files.file_text import web_page
from rag_assets.steps.sections.reading import DirectReader
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.config.sources import ConfluenceExport, DocsFolder

SECRET = "The master code is 99120."
RENDERED = (
    '<p>before</p><div class="conf-macro output-block" data-hasbody="true" data-macro-name="show-if">'
    f'<h2 id="codes">Codes</h2><p>{SECRET}</p></div><p>after</p>'
)


def test_exports_built_sites_and_saved_pages(tmp_path: Path) -> None:
    page = RENDERED
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as out:
        out.writestr("ENG/index.html", '<div id="main-content"></div><a href="Home_1.html">Home</a>')
        out.writestr("ENG/Home_1.html", f'<h1 id="title-text">E : Home</h1><div id="main-content">{page}</div>')
    (tmp_path / "export.zip").write_bytes(content.getvalue())
    given = {"tenant": "acme", "readers": "everyone", "base_url": "https://wiki.example"}
    export = ConfluenceExport(
        kind="confluence_export", path=tmp_path / "export.zip", space="ENG", unrestricted=True, **given
    )
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text(f"<html><body><main><h1>Home</h1>{page}</main></body></html>")
    site = DocsFolder(kind="docs_folder", path=tmp_path / "site", **given)
    for settings in (export, site):
        pages = open_source("eng", settings, tmp_path).sync(None, {}).pages
        sections = str(build_sections(pages).sections.to_pylist())
        assert "before" in sections
        assert SECRET not in sections
    saved = web_page(f"<html><body>{page}</body></html>".encode())
    assert SECRET not in str(DirectReader().content(saved.body, saved.body_format).blocks)
