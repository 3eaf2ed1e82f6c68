"""Record what generators that pip does not have make of the corpora of plugins/sites: addresses and heading ids.

    python tests/support/generator_ids.py [docusaurus]

Needs npm, which brings a few hundred MB into a temporary folder, and takes minutes.
`plugins/sites/tests/generators/recorded/NAME.json` holds the result with the versions that made it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lxml import html

TESTS = Path(__file__).parents[2] / "plugins" / "sites" / "tests" / "generators"
CORPUS, RECORDED = TESTS / "corpus", TESTS / "recorded"
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_OF_THEMES = frozenset({"searchlabel", "keyboardModalLabel", "searchModalLabel", "footnote-label"})


def heading_ids(source: str | bytes) -> list[str]:
    """Return the ids of the headings of a page: their own, or those of the sections that they open."""
    found = []
    parser = html.HTMLParser(encoding="utf-8" if isinstance(source, bytes) else None)
    for heading in html.fromstring(source, parser=parser).iter(*HEADINGS):
        above: Any = heading.getparent()
        opens = above is not None and above.tag == "section" and next(above.iterchildren(*HEADINGS)) is heading
        name = heading.get("id") or (above.get("id") if opens else None)
        if name and name not in _OF_THEMES:
            found.append(name)
    return found


def built_pages(folder: Path) -> dict[str, list[str]]:
    """Return the heading ids of all pages below a folder, by their paths in it."""
    pages = sorted(folder.rglob("*.html"))
    return {page.relative_to(folder).as_posix(): heading_ids(page.read_bytes()) for page in pages}


def docusaurus(work: Path) -> tuple[str, dict[str, list[str]]]:
    """Build the whole site of Docusaurus."""
    shutil.copytree(CORPUS / "docusaurus", work, dirs_exist_ok=True)
    _npm(work, "@docusaurus/core@3.10.2", "@docusaurus/preset-classic@3.10.2", "react@19", "react-dom@19")
    _run([_bin(work, "docusaurus"), "build", "--no-minify"], work)
    return _versions(work, "@docusaurus/core"), built_pages(work / "build")


GENERATORS: dict[str, Callable[[Path], tuple[str, dict[str, list[str]]]]] = {
    "docusaurus": docusaurus,
}


def _npm(work: Path, *packages: str) -> None:
    if not (work / "package.json").exists():
        (work / "package.json").write_text('{"private": true}')
    _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel", "error", *packages], work)


def _bin(work: Path, name: str) -> str:
    return str(work / "node_modules/.bin" / name)


def _versions(work: Path, *packages: str) -> str:
    said = [json.loads((work / "node_modules" / name / "package.json").read_text()) for name in packages]
    return ", ".join(f"{one['name']} {one['version']}" for one in said)


def _run(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "CI": "true", "DOCUSAURUS_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    subprocess.run(command, cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    """Record the generators that are named, or all of them."""
    RECORDED.mkdir(exist_ok=True)
    for name in sys.argv[1:] or GENERATORS:
        with tempfile.TemporaryDirectory() as folder:
            version, pages = GENERATORS[name](Path(folder))
        result = {"generator": version, "pages": pages}
        (RECORDED / f"{name}.json").write_text(
            json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
        print(f"{name}: {version}, {len(pages)} pages, {sum(map(len, pages.values()))} ids")


if __name__ == "__main__":
    main()
