"""Record what generators that pip does not have make of the corpora of plugins/sites: addresses and heading ids.

    python scripts/generator_ids.py [asciidoctor antora docusaurus]

Needs npm, which brings a few hundred MB into a temporary folder, and Debian's package asciidoctor. Docusaurus takes
minutes. `plugins/sites/tests/generators/recorded/NAME.json` holds the result with the versions that made it.
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

TESTS = Path(__file__).parents[1] / "plugins" / "sites" / "tests" / "generators"
CORPUS, RECORDED = TESTS / "corpus", TESTS / "recorded"
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_OF_THEMES = frozenset({"searchlabel", "keyboardModalLabel", "searchModalLabel", "footnote-label"})
_ANTORA_PLAYBOOK = """
site: {title: Corpus, url: https://example.org}
content: {sources: [{url: ./content, branches: HEAD}]}
ui: {bundle: {url: ./ui}}
output: {dir: ./built}
"""
_ANTORA_LAYOUT = (
    "<html><body><main>{{#if page.title}}<h1>{{{page.title}}}</h1>{{/if}}{{{page.contents}}}</main></body></html>"
)


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


def asciidoctor(work: Path) -> tuple[str, dict[str, list[str]]]:
    """Build the corpus of AsciiDoc by the program in Ruby, which Debian has as asciidoctor."""
    source = CORPUS / "asciidoc"
    names = [name.name for name in sorted(source.glob("*.adoc")) if not name.name.startswith("_")]
    _run(["asciidoctor", "-q", "-D", str(work / "built"), *names], source)
    return _said(["asciidoctor", "--version"]).partition(" [")[0], built_pages(work / "built")


def antora(work: Path) -> tuple[str, dict[str, list[str]]]:
    """Build the component of Antora under a layout of nothing but the page."""
    _npm(work, "antora@3.1.15")
    shutil.copytree(CORPUS / "antora", work / "content")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all"]):
        _run(["git", *command], work / "content")
    (work / "ui/layouts").mkdir(parents=True)
    for name in ("default", "404"):
        (work / f"ui/layouts/{name}.hbs").write_text(_ANTORA_LAYOUT)
    own = (CORPUS / "antora/antora-playbook.yml").read_text(encoding="utf-8")
    (work / "playbook.yml").write_text(own + _ANTORA_PLAYBOOK)
    _run([_bin(work, "antora"), "playbook.yml"], work)
    pages = {name: ids for name, ids in built_pages(work / "built").items() if name.startswith("desk/")}
    return _versions(work, "@antora/site-generator", "@asciidoctor/core"), pages


def docusaurus(work: Path) -> tuple[str, dict[str, list[str]]]:
    """Build the whole site of Docusaurus."""
    shutil.copytree(CORPUS / "docusaurus", work, dirs_exist_ok=True)
    _npm(work, "@docusaurus/core@3.10.2", "@docusaurus/preset-classic@3.10.2", "react@19", "react-dom@19")
    _run([_bin(work, "docusaurus"), "build", "--no-minify"], work)
    return _versions(work, "@docusaurus/core"), built_pages(work / "build")


GENERATORS: dict[str, Callable[[Path], tuple[str, dict[str, list[str]]]]] = {
    "asciidoctor": asciidoctor,
    "antora": antora,
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


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


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
