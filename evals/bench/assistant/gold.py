"""Read the questions of `evals/gold/assistant`: what an assistant should do with each.

Belongs here: reading and checking them. Does not belong here: asking (`evals.bench.assistant.__main__`), judging
(`evals.bench.assistant.judging`), questions that are judged by what their answers say (`evals.evaluation.gold`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from evals.bench.passages.corpora import ROOT
from evals.evaluation.gold import GoldError, check_keys, read_entries
from rag_serving.access.principals import Principal

FOLDER = ROOT / "evals" / "gold" / "assistant"
HALVES = ("build", "measured")

Action = Literal["answer", "clarify", "not_found", "refuse"]
Pages = tuple[frozenset[str], ...]
"""Pages that all have to be there; one is there when any of its titles is."""

_OF_TURN = frozenset({"question", "action", "pages", "offered", "never"})
_OF_QUESTION = frozenset({"id", "tenant", "kind", "user", "groups"})


@dataclass(frozen=True)
class Turn:
    """One turn: what is typed, and what should come of it.

    Attributes:
        actions: what a reasonable person would do, any of them.
        pages: to be cited where it is answered, by title.
        offered: to be among the first two options where it is asked back.
        never: titles that must not show in anything, since this reader may not read them.
    """

    question: str
    actions: frozenset[Action]
    pages: Pages
    offered: Pages
    never: frozenset[str]


@dataclass(frozen=True)
class Asked:
    """A question with its reader, or a chain of them in one conversation."""

    id: str
    kind: str
    principal: Principal
    turns: tuple[Turn, ...]


def read_half(half: str, folder: Path = FOLDER) -> tuple[Asked, ...]:
    """Return the questions of one half.

    Raises:
        GoldError: the file is missing or no YAML, or an entry lacks something or says something unknown.
    """
    path = folder / f"{half}.yaml"
    _, entries = read_entries(path)
    questions = tuple(_asked(entry, f"{path}: question {number}") for number, entry in enumerate(entries, start=1))
    if len({question.id for question in questions}) < len(questions):
        raise GoldError(f"{path}: an id stands twice")
    return questions


def _asked(entry: Any, where: str) -> Asked:
    if not isinstance(entry, dict):
        raise GoldError(f"{where} is no mapping")
    where = f"{where} ({entry.get('id')})"
    is_chain = "turns" in entry
    check_keys(entry, _OF_QUESTION | ({"turns"} if is_chain else _OF_TURN), where)
    for key in ("id", "tenant", "kind"):
        if not entry.get(key):
            raise GoldError(f"{where} has no {key!r}")
    turns = entry["turns"] if is_chain else [{key: entry[key] for key in _OF_TURN & entry.keys()}]
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise GoldError(f"{where}: 'turns' must be a list of mappings")
    user = str(entry["user"]) if entry.get("user") else None
    principal = Principal(str(entry["tenant"]), user, frozenset(map(str, entry.get("groups") or ())))
    return Asked(str(entry["id"]), str(entry["kind"]), principal, tuple(_turn(turn, where) for turn in turns))


def _turn(entry: Mapping[str, Any], where: str) -> Turn:
    check_keys(entry, _OF_TURN, where)
    if not str(entry.get("question") or "").strip():
        raise GoldError(f"{where} has no 'question'")
    named = entry.get("action")
    actions = frozenset(named if isinstance(named, list) else [named])
    if not actions <= set(get_args(Action)):
        raise GoldError(f"{where}: 'action' must be of {', '.join(get_args(Action))}")
    pages, offered = _pages(entry.get("pages")), _pages(entry.get("offered"))
    if "answer" in actions and not pages:
        raise GoldError(f"{where} may be answered and has no 'pages'")
    if "clarify" in actions and not offered:
        raise GoldError(f"{where} may be asked back and has no 'offered'")
    return Turn(str(entry["question"]), actions, pages, offered, frozenset(map(str, entry.get("never") or ())))


def _pages(entries: Any) -> Pages:
    return tuple(
        frozenset(map(str, entry)) if isinstance(entry, list) else frozenset({str(entry)}) for entry in entries or ()
    )
