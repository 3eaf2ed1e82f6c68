"""Links, images and emoticons of storage format: what each leaves in the text.

Belongs here: their words, else what names their target; of a person a name, never an account.
Does not belong here: what other elements leave (`storage_elements`), where links land (`sections.anchors`).
"""

from __future__ import annotations

from rag_assets.steps.formats.blocks import PICTURE, Block, Link, clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.storage import AC, RI
from rag_assets.steps.formats.storage_walk import Walk
from rag_serving.text.characters import OMISSION

DISPLAY_NAME = "display-name"  # an attribute that sources add to mentions
NOBODY = f"@user{OMISSION}"  # the page shows a name there
_EMOTICONS = dict(
    pair.split("=")
    for pair in [
        "tick=✅",
        "cross=❌",
        "warning=⚠",
        "information=ℹ",
        "question=❓",
        "plus=➕",
        "minus=➖",
        "light-on=💡",
        "yellow-star=⭐",
        "smile=🙂",
        "sad=🙁",
        "cheeky=😛",
        "laugh=😀",
        "wink=😉",
        "thumbs-up=👍",
        "thumbs-down=👎",
        "heart=❤",
    ]
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
    """Write what is said of an image: its alternative text and its caption."""
    if walk.in_heading:  # the heading's id is made of its words
        return
    text = node.get(f"{AC}alt", node.get("alt", PICTURE))
    lifted: list[Block] = []
    captions = [walk.cell(caption, lifted) for caption in node.iterchildren(f"{AC}caption")]
    if clean(text) not in captions:
        walk.write(text)
    for caption in captions:
        walk.paragraph(caption)
    walk.lift(lifted)


def emoticon(walk: Walk, node: Element) -> None:
    """Write the character that an emoticon shows; of a picture nobody knows what it shows."""
    shown, name = node.get(f"{AC}emoji-fallback", ""), node.get(f"{AC}name", "")
    walk.write(shown if shown and shown[0] != ":" else _EMOTICONS.get(name, PICTURE))


def _target(node: Element) -> str:
    """Return what names the target of a link or an image; of an account a name or "@user"."""
    for child in node:
        if child.tag == f"{RI}user":
            return user_name(child)
        for name in ("content-title", "filename", "value", "space-key", "parameter"):
            if found := child.get(f"{RI}{name}"):
                return NOBODY if name == "space-key" and found.startswith("~") else str(found)
    return ""


def user_name(node: Element) -> str:
    """Return the name of a mentioned person that the source has put in."""
    return clean(node.get(f"{RI}{DISPLAY_NAME}", "")) or NOBODY
