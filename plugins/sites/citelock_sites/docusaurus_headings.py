"""The ids that Docusaurus gives the headings of a page.

Belongs here: whose ids are counted together, the words that an id is made of.
Does not belong here: slugs (`sites.markdown_page`).
"""

from __future__ import annotations

import re
from copy import deepcopy

from citelock_sites.mdx import PART
from rag_assets.sources.sites.markdown_page import HEADINGS, RAW, GithubSlugger
from rag_assets.steps.formats.element_tree import Element

_DIRECTIVE = re.compile(r"(?<!:):[^\W\d_][\w-]*(?<![-_])(?![\w:-])")


def set_docusaurus_ids(main: Element) -> None:
    """Give headings their ids, those of inserted files as if each were a page; headings written as HTML get none.

    The theme shows headings of level 1 without an id.
    """
    sluggers: dict[Element | None, GithubSlugger] = {}
    for heading in main.iter(*HEADINGS):
        if heading.attrib.pop(RAW, None) is None and not heading.get("id"):
            part = next((above for above in heading.iterancestors("div") if PART in above.attrib), None)
            heading.set("id", sluggers.setdefault(part, GithubSlugger()).slug(_heading_text(heading)))
        if heading.tag == "h1":
            heading.attrib.pop("id", None)
    for part in main.xpath(f".//div[@{PART}]"):
        part.drop_tag()


def _heading_text(heading: Element) -> str:
    """Return the words of a heading as mdast has them: descriptions of pictures included, without marks of footnotes
    and anything like a directive (`:name`)."""
    if heading.find(".//img") is not None or heading.find(".//sup") is not None:
        heading = deepcopy(heading)
        for image in heading.xpath(".//img"):
            image.tag, image.text = "span", image.get("alt") or ""
        for mark in heading.xpath(".//sup[starts-with(@class, 'footnote')]"):
            mark.drop_tree()
    if not any(":" in text for text in heading.itertext()):
        return "".join(heading.itertext()).strip()
    parts = []
    for text in heading.xpath(".//text()"):
        above = text.getparent() if text.is_text else text.getparent().getparent()
        parts.append(str(text) if above.tag == "code" else _DIRECTIVE.sub("", str(text)))
    return "".join(parts).strip()
