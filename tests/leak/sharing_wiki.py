"""A restricted wiki whose pages show each other's text: includes, excerpts, lists, reports, files and comments.

Every page says on its own what it takes, from pages of its space that its readers may or may not read.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from restricted_wiki import WORDS, Envelope, Wiki, marker_of, restricted_wiki, sentence

FILES, COMMENTS = "files", "comments"  # further keys of an envelope: text by file name, bodies


def sharing_wiki(pages: int, seed: int) -> Wiki:
    """`pages` envelopes; most show something of other pages, before and between text of their own."""
    wiki, dice = restricted_wiki(pages, seed), random.Random(f"sharing {seed}")
    for found in wiki.envelopes.values():
        for one in found:
            _share(one, found, dice)
    return wiki


def _share(one: Envelope, space: Sequence[Envelope], dice: random.Random) -> None:
    parts = [_own(one, dice)]
    for _ in range(dice.choice([0, 1, 1, 2, 4])):
        heading = f"<h2>{dice.choice(WORDS[:4]).capitalize()}</h2>"  # few words: headings repeat on a page
        parts.append(heading + _shown(dice.choice(space)["title"], dice))
        if dice.random() < 0.5:
            parts.append(f"{heading}<p>{sentence(dice, 14)}</p>")
    dice.shuffle(parts)
    one["body"]["storage"]["value"] += "".join(parts)
    marker = marker_of(one["id"])
    if dice.random() < 0.2:
        one[FILES] = {f"{marker}.txt": f"{sentence(dice, 20)} {marker}"}
    if dice.random() < 0.2:
        one[COMMENTS] = [f"<p>{sentence(dice, 15)} {marker}</p>" for _ in range(dice.randint(1, 3))]


def _own(one: Envelope, dice: random.Random) -> str:
    """An excerpt, page properties, or both, which other pages may show."""
    marker = marker_of(one["id"])
    excerpt = _macro("excerpt", f"<p>{sentence(dice, 12)} {marker}</p>") if dice.random() < 0.5 else ""
    if dice.random() < 0.5:
        return excerpt
    names = dice.sample(["Owner", "State", f"Only {marker}"], 2)
    rows = "".join(f"<tr><th>{name}</th><td>{dice.choice(WORDS)} {marker}</td></tr>" for name in names)
    one["metadata"]["labels"]["results"].append({"name": "fact"})
    return excerpt + _macro("details", f"<table><tbody>{rows}</tbody></table>")


def _shown(title: str, dice: random.Random) -> str:
    page = f'<ac:link><ri:page ri:content-title="{title}" /></ac:link>'
    return dice.choice(
        [
            _macro("include", **{"": page}),
            _macro("excerpt-include", **{"": page}),
            _macro("children", all="true"),
            _macro("children", depth="2", excerptType="simple", first=str(dice.randint(1, 3))),
            _macro("children", page=page, sort="creation", reverse="true"),
            _macro("detailssummary", label="fact"),
            _macro("detailssummary", label="fact", headings="Owner, State", sortBy="State"),
        ]
    )


def _macro(name: str, body: str = "", **parameters: str) -> str:
    given = "".join(f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items())
    rich = f"<ac:rich-text-body>{body}</ac:rich-text-body>" if body else ""
    return f'<ac:structured-macro ac:name="{name}">{given}{rich}</ac:structured-macro>'
