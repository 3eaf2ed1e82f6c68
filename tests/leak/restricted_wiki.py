"""A made-up wiki of nested restrictions: REST envelopes in four sources, the same for the same seed.

Every page carries a marker, a word that stands nowhere else, in its title, its labels and most of its text, and a name
of letters alone in its text, which can be misspelt: where a marker, a name or a page id comes out, that page came out.
Some texts stand on two pages, so that they are near-duplicates.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_serving.access.principals import Principal

Envelope = dict[str, Any]
Readers = str | list[str]

TENANT = "acme"
USERS = [f"u{number}" for number in range(60)]
_ODD_GROUPS = ["staff", "everyone", "nobody", "a|b", "a&b", "user:u1", "Ünïted rôle"]
GROUPS = [*(f"g{number}" for number in range(24)), *_ODD_GROUPS]
SOURCES: dict[str, Readers] = {
    "open": "everyone",
    "staff": ["group:staff", "user:u3"],
    "few": ["group:g1", "group:a|b"],
    "shut": "from_source",
}
_VOCABULARY = """
anchor audit backup ballast batch beacon berth billing broker budget cargo certificate channel cluster commit
crane customs database deadline deploy dredger failover ferry gauge gateway harbour incident invoice lease
ledger manifest migration mooring outage pager pallet pilot pipeline policy quay quota radar release restart
rollback rota salary schedule seal secret shard signal staging tariff tide token tug vessel vendor voyage
wharf yard
"""
WORDS = _VOCABULARY.split()
MARKER = re.compile(r"\bmk[0-9a-z]+x\b|\bqx[a-j]+xq\b")
_LETTERS, _DIGITS = str.maketrans("0123456789", "abcdefghij"), str.maketrans("abcdefghij", "0123456789")
PAGE_ID = re.compile(r"(?<![\d.])8800\d{6}(?!\d)")


@dataclass(frozen=True)
class Wiki:
    """Envelopes by source, and who may read the space of each source."""

    envelopes: Mapping[str, Sequence[Envelope]]
    readers: Mapping[str, Readers]

    def without(self, page_ids: frozenset[str]) -> Wiki:
        """The wiki as if these pages had never been written."""
        kept = {
            source: [one for one in envelopes if one["id"] not in page_ids]
            for source, envelopes in self.envelopes.items()
        }
        return Wiki({source: envelopes for source, envelopes in kept.items() if envelopes}, self.readers)


def restricted_wiki(pages: int, seed: int, including: float = 0.0, first: int = 0) -> Wiki:
    """`pages` envelopes over four sources; a third of the pages carry restrictions of their own.

    `including` is the share of pages that take in the text of another one of their space; ids are counted from `first`.
    """
    dice = random.Random(seed)
    shares = {"open": 0.5, "staff": 0.25, "few": 0.2, "shut": 0.05}
    envelopes: dict[str, list[Envelope]] = {}
    number = first
    texts: list[str] = []
    for source in SOURCES:
        found: list[Envelope] = []
        for _ in range(max(8, round(pages * shares[source]))):
            envelope = _envelope(number, source, found, texts, dice)
            if found and dice.random() < including:
                body = envelope["body"]["storage"]
                body["value"] = _include(dice.choice(found)["title"]) + body["value"]
            found.append(envelope)
            number += 1
        envelopes[source] = found
    return Wiki(envelopes, SOURCES)


def marker_of(page_id: str) -> str:
    """The word that stands on this page alone."""
    return f"mk{int(page_id) - 8_800_000_000}x"


def name_of(page_id: str) -> str:
    """The word of letters alone that stands on this page alone."""
    return f"qx{str(int(page_id) - 8_800_000_000).translate(_LETTERS)}xq"


def page_of(marker: str) -> str:
    """The page of a marker or name."""
    number = marker[2:-1] if marker.startswith("mk") else marker[2:-2].translate(_DIGITS)
    return str(8_800_000_000 + int(number))


def some_principal(dice: random.Random, tenant: str = TENANT) -> Principal:
    """Anybody: without identity, with groups alone, with names that look like reader classes."""
    kind = dice.random()
    if kind < 0.08:
        return Principal(tenant)
    user = None if kind < 0.2 else dice.choice(USERS)
    if kind > 0.97:
        user = dice.choice(["everyone", "nobody", "group:staff", "u1|u2", "", "U3", " u3"])
    groups = dice.sample(GROUPS, dice.choice([0, 1, 2, 4, 8, 16]))
    if dice.random() < 0.4:
        groups.append("staff")
    return Principal(tenant, user, frozenset(groups))


def sentence(dice: random.Random, length: int = 9) -> str:
    """Words of the common vocabulary, as a sentence."""
    words = " ".join(dice.choices(WORDS, k=length))
    return f"{words.capitalize()}."


def _envelope(number: int, source: str, before: Sequence[Envelope], texts: list[str], dice: random.Random) -> Envelope:
    page_id = str(8_800_000_000 + number)
    marker = marker_of(page_id)
    parent = dice.choice(before[-400:]) if before and dice.random() < 0.85 else None
    ancestors = [*parent["ancestors"], {"id": parent["id"], "title": parent["title"]}] if parent else []
    strange = dice.random()
    if strange < 0.01:
        ancestors = [{"id": "8899999999", "title": "Gone"}, *ancestors]
    elif strange < 0.015:
        ancestors = [{"title": "Unnamed"}, *ancestors]
    envelope = {
        "id": page_id,
        "type": "page",
        "status": "archived" if dice.random() < 0.01 else "current",
        "title": f"{' '.join(dice.choices(WORDS, k=2))} {marker}".title().replace(marker.title(), marker),
        "space": {"key": source.upper(), "name": source},
        "version": {"number": dice.randint(1, 9), "when": f"2026-03-{dice.randint(1, 28):02d}T08:00:00.000Z"},
        "ancestors": ancestors,
        "metadata": {"labels": {"results": [{"name": dice.choice(["howto", "adr", f"only-{marker}"])}]}},
        "restrictions": _restrictions(dice),
        "body": {"storage": {"value": _body(page_id, texts, dice), "representation": "storage"}},
        "_links": {"webui": f"/display/{source.upper()}/{page_id}", "base": "https://wiki.example"},
    }
    if dice.random() < 0.01:
        del envelope["restrictions"]
    return envelope


def _body(page_id: str, texts: list[str], dice: random.Random) -> str:
    marker = marker_of(page_id)
    parts = [f"<p>{sentence(dice)} The {marker} rule of {name_of(page_id)}: {sentence(dice)}</p>"]
    twin = texts and dice.random() < 0.1
    long = dice.choice(texts[-200:]) if twin else " ".join(sentence(dice, 12) for _ in range(9))
    if not twin:
        texts.append(long)
    parts.append(f"<h2>{dice.choice(WORDS).capitalize()} notes</h2><p>{long}</p>")
    if dice.random() < 0.3:
        cells = [f"<tr><td>{word}</td><td>{marker} {dice.randint(1, 999)}</td></tr>" for word in dice.sample(WORDS, 3)]
        table = f"<table><tbody><tr><th>name</th><th>value</th></tr>{''.join(cells)}</tbody></table>"
        parts.append(f"<h2>Settings of {marker}</h2>{table}")
    if dice.random() < 0.2:
        code = f"<![CDATA[run --token {marker} --retries {dice.randint(1, 9)}]]>"
        code = f"<ac:plain-text-body>{code}</ac:plain-text-body>"
        parts.append(f'<h2>Command</h2><ac:structured-macro ac:name="code">{code}</ac:structured-macro>')
    return "".join(parts)


def _include(title: str) -> str:
    page = f'<ac:link><ri:page ri:content-title="{title}" /></ac:link>'
    parameter = f'<ac:parameter ac:name="">{page}</ac:parameter>'
    return f'<h2>Taken over</h2><ac:structured-macro ac:name="include">{parameter}</ac:structured-macro>'


def _restrictions(dice: random.Random) -> object:
    """Mostly empty lists, which restrict nothing; else every shape that was seen or could be."""
    kind = dice.random()
    users = [_user(dice.choice(USERS), dice) for _ in range(dice.randint(1, 4))]
    groups = [{"type": "group", "name": dice.choice(GROUPS)} for _ in range(dice.randint(1, 4))]
    if kind < 0.68:
        return _read({"user": [], "group": []})
    if kind < 0.78:
        return _read({"user": [], "group": groups})
    if kind < 0.84:
        return _read({"user": users, "group": []})
    if kind < 0.92:
        return _read({"user": users, "group": groups})
    odd: list[object] = [
        _read({"user": users, "group": groups, "role": [{"name": "admins"}]}),
        _read({"user": [], "group": [], "role": [{"name": "admins"}]}),
        _read({"user": [], "group": groups, "role": []}),
        _read({"user": [{"type": "anonymous", "username": "u1"}], "group": []}),
        _read({"user": [{"type": "known"}], "group": []}),
        _read({"user": [{"type": "known", "username": ["u1"]}], "group": [{"name": ""}]}),
        _read({"user": ["u1", None], "group": []}),
        _read({"group": []}),
        {"read": {"restrictions": {"user": {"size": 1}, "group": {"results": []}}}},
        {"read": {"restrictions": None}},
        {"update": {}},
        {},
        None,
        [],
    ]
    return dice.choice(odd)


def _read(lists: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    return {"read": {"restrictions": {kind: {"results": list(entries)} for kind, entries in lists.items()}}}


def _user(name: str, dice: random.Random) -> dict[str, str]:
    """As Data Center, as Cloud, and as Data Center 9.1 give a user."""
    field = dice.choice(["username", "accountId", "userKey"])
    return {"type": dice.choice(["known", "known", "unknown", "user"]), field: name, "displayName": name.upper()}
