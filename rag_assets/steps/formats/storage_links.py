"""Links, images and emoticons of storage format: what each leaves in the text.

Belongs here: their words, else what names their target; never an account.
Does not belong here: what other elements leave (`storage_elements`), where links land (`sections.anchors`).
"""

from __future__ import annotations

import re

from rag_assets.steps.formats.blocks import Block, Link, clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.storage import AC, RI
from rag_assets.steps.formats.storage_walk import Walk

_MACHINE_NAME = re.compile(  # image2019-3-4 10:20:30, worddav0123abcd, a UUID
    r"(?=(?:\D*\d){4})(?:image|img|worddav|screenshot|screen shot|picture)?"
    r"[\W_]*(?:[0-9a-f]{20,40}|[\W\d_]|\bat\b|[ap]m\b)*",
    re.IGNORECASE,
)


def link(walk: Walk, node: Element) -> None:
    """Write the link's own text, else what names its target; the target itself stays out of the text."""
    lifted: list[Block] = []
    bodies = node.iterchildren(f"{AC}link-body", f"{AC}plain-text-link-body")
    text = "".join(_spaced(body, walk.cell(body, lifted)) if len(body) else body.text or "" for body in bodies)
    if not text:
        text = _target(node) or node.get(f"{AC}anchor", "")
    walk.write(text)
    walk.linked += len(text)
    if (target := _link_of(node, clean(text))) is not None:
        walk.links.append(target)
    walk.lift(lifted)


def _link_of(node: Element, text: str) -> Link | None:
    """Return where the link leads; None for an account, and for what says nothing of it."""
    anchor = node.get(f"{AC}anchor", "")
    for child in node:
        space = child.get(f"{RI}space-key", "")
        if child.tag in (f"{RI}page", f"{RI}blog-post", f"{RI}content-entity"):
            title = child.get(f"{RI}content-title") or child.get(f"{RI}content-id", "")
            return Link(text, "page", title, "" if space.startswith("~") else space, anchor)
        if child.tag == f"{RI}attachment":
            return Link(text, "file", child.get(f"{RI}filename", ""))
        if child.tag == f"{RI}url":
            return Link(text, "url", child.get(f"{RI}value", ""))
        if child.tag == f"{RI}space" and not space.startswith("~"):
            return Link(text, "space", space)
        if child.tag == f"{RI}user":
            return None
    return Link(text, "anchor", anchor=anchor) if anchor else None


def _spaced(element: Element, line: str) -> str:
    """Return the line with the white space that the element has around it, which parts it from the words beside the
    link."""
    written = "".join(element.itertext())
    return " " * written[:1].isspace() + line + " " * written[-1:].isspace()


def image(walk: Walk, node: Element) -> None:
    """Write what is said of an image: its alternative text, else its file name; and its caption."""
    if walk.in_heading:  # the heading's id is made of its words
        return
    text = node.get(f"{AC}alt") or node.get("alt") or _file_name(_target(node) or node.get("src", ""))
    lifted: list[Block] = []
    captions = [walk.cell(caption, lifted) for caption in node.iterchildren(f"{AC}caption")]
    if clean(text) not in captions:
        walk.write(text)
    for caption in captions:
        walk.paragraph(caption)
    walk.lift(lifted)


def emoticon(walk: Walk, node: Element) -> None:
    name = node.get(f"{AC}name", "")
    walk.write(node.get(f"{AC}emoji-fallback") or node.get(f"{AC}emoji-shortname") or (f":{name}:" if name else ""))


def _target(node: Element) -> str:
    """Return what names the target of a link or an image; an account is only ever "@user"."""
    for child in node:
        if child.tag == f"{RI}user":
            return "@user"
        for name in ("content-title", "filename", "value", "space-key", "parameter"):
            if found := child.get(f"{RI}{name}"):
                return "@user" if name == "space-key" and found.startswith("~") else str(found)
    return ""


def _file_name(target: str) -> str:
    """Return `[name.png]`, or nothing where a machine made the name."""
    if target.startswith("data:"):
        return ""
    name = re.split(r"[?#]", target)[0].rsplit("/", 1)[-1]
    stem, _, _extension = name.rpartition(".")
    return f"[{name}]" if stem and len(stem) <= 100 and not _MACHINE_NAME.fullmatch(stem) else ""
