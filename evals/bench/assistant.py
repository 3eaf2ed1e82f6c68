"""Measure the right action (`python -m evals.bench.assistant`) on questions to an assistant.

The tenants are built by `citelock build` under their own configuration, in a home of the bench. A chain is one
conversation. Questions of the held-out half are not printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from evals.bench.corpora import ROOT, build
from evals.evaluation.gold import GoldError, check_keys, read_entries
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.conversations.turns import Conversation, turn_of
from rag_serving.records.answers import Answer

FOLDER = ROOT / "evals" / "gold" / "assistant"
HALVES = ("build", "measured")

Action = Literal["answer", "clarify", "not_found", "refuse"]
Pages = tuple[frozenset[str], ...]
"""Pages that all have to be there; one is there when any of its titles is."""

_OF_TURN = frozenset({"question", "action", "pages", "offered", "never"})
_OF_QUESTION = frozenset({"id", "tenant", "kind", "user", "groups"})


@dataclass(frozen=True)
class AssistantTurn:
    """One turn: the typed text, and the expected outcome.

    Attributes:
        actions: the acceptable actions.
        pages: to be cited by an answer, by title.
        offered: to be among the first two options of a clarifying question.
        never: titles that must not appear anywhere, since this reader may not read them.
    """

    question: str
    actions: frozenset[Action]
    pages: Pages
    offered: Pages
    never: frozenset[str]


@dataclass(frozen=True)
class AskedQuestion:
    """A question with its reader, or a chain of them in one conversation."""

    id: str
    kind: str
    principal: Principal
    turns: tuple[AssistantTurn, ...]


def read_half(half: str, folder: Path = FOLDER) -> tuple[AskedQuestion, ...]:
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


def _asked(entry: Any, where: str) -> AskedQuestion:
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
    return AskedQuestion(str(entry["id"]), str(entry["kind"]), principal, tuple(_turn(turn, where) for turn in turns))


def _turn(entry: Mapping[str, Any], where: str) -> AssistantTurn:
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
    return AssistantTurn(str(entry["question"]), actions, pages, offered, frozenset(map(str, entry.get("never") or ())))


def _pages(entries: Any) -> Pages:
    return tuple(
        frozenset(map(str, entry)) if isinstance(entry, list) else frozenset({str(entry)}) for entry in entries or ()
    )


Done = Action | Literal["unavailable"]

OFFERED = 2  # options that a clarification is judged by
_MEANT = frozenset({"page", "meaning"})  # kinds of an option that says what a question may mean


@dataclass(frozen=True)
class JudgedTurn:
    """One judged turn and its action.

    Attributes:
        is_page: whether all right pages are cited; None without an answer, or if none is right.
        is_offered: whether all pages it may mean are among the options; None without a clarifying question.
        is_shown: whether all right pages are among unconfident passages.
        shown: titles cited or offered, in order.
        is_leak: something hidden from this reader appears.
        is_closest: unconfident passages are shown, right or not.
    """

    turn: AssistantTurn
    done: Done
    is_page: bool | None
    is_offered: bool | None
    is_shown: bool
    shown: tuple[str, ...]
    is_leak: bool = False
    is_closest: bool = False

    @property
    def is_action(self) -> bool:
        return self.done in self.turn.actions

    @property
    def is_right(self) -> bool:
        """Return whether the right thing was done with the right pages, and nothing leaked."""
        return self.is_action and self.is_page is not False and self.is_offered is not False and not self.is_leak

    @property
    def is_right_by_status(self) -> bool:
        """Return the same where passages that are shown without confidence count as an answer, as their status says."""
        if not self.is_closest:
            return self.is_right
        return "answer" in self.turn.actions and self.is_shown and not self.is_leak


@dataclass(frozen=True)
class JudgedChain:
    """A judged question or chain: right where every turn is."""

    asked: AskedQuestion
    turns: tuple[JudgedTurn, ...]

    @property
    def is_action(self) -> bool:
        return all(turn.is_action and not turn.is_leak for turn in self.turns)

    @property
    def is_right(self) -> bool:
        return all(turn.is_right for turn in self.turns)


def done_with(answer: Answer) -> Done:
    """Return the category of an answer: unconfident passages, and a clarifying question without the right option, count
    as not found."""
    if answer.status == "unavailable":
        return "unavailable"
    if answer.status == "refused":
        return "refuse"
    if answer.outcome == "told":
        return "answer"
    return "clarify" if answer.status == "clarify" and any(_meant(answer)) else "not_found"


def judge(turn: AssistantTurn, answer: Answer, titles: Mapping[str, str]) -> JudgedTurn:
    """Judge an answer; `titles` are those of the pages by their id, and by their address without
    fragment."""
    done = done_with(answer)
    cited = tuple(dict.fromkeys(titles[citation.page_id] for citation in answer.citations))
    options = tuple(_title(option, titles) for option in _meant(answer))
    told = " ".join((answer.answer, answer.clarification.text if answer.clarification else "", *cited, *options))
    return JudgedTurn(
        turn=turn,
        done=done,
        is_page=_all_of(turn.pages, cited) if done == "answer" and turn.pages else None,
        is_shown=answer.outcome == "closest" and bool(turn.pages) and _all_of(turn.pages, cited),
        is_offered=_all_of(turn.offered, options[:OFFERED]) if done == "clarify" and turn.offered else None,
        shown=options if done == "clarify" else cited,
        is_leak=any(title in told for title in turn.never),
        is_closest=answer.outcome == "closest",
    )


def _meant(answer: Answer) -> list[Mapping[str, Any]]:
    options = answer.clarification.payload()["options"] if answer.clarification else []
    return [option for option in options if option.get("kind", option.get("category")) in _MEANT]


def _title(option: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    address = str(option.get("url") or "").partition("#")[0]
    return titles.get(address, str(option["label"]))


def _all_of(pages: Pages, shown: Sequence[str]) -> bool:
    return all(any(title in page for title in shown) for page in pages)


def shares(judged: Sequence[JudgedChain]) -> dict[str, dict[str, Any]]:
    """Return counts and shares by kind of question, and of all of them."""
    kinds = dict.fromkeys(chain.asked.kind for chain in judged)
    found = {kind: _share([chain for chain in judged if chain.asked.kind == kind]) for kind in kinds}
    return {**found, "all": _share(judged)}


def _share(judged: Sequence[JudgedChain]) -> dict[str, Any]:
    turns = [turn for chain in judged for turn in chain.turns]
    return {
        "questions": len(judged),
        "right_action": _mean(chain.is_action for chain in judged),
        "right": _mean(chain.is_right for chain in judged),
        "right_by_status": _mean(all(turn.is_right_by_status for turn in chain.turns) for chain in judged),
        "right_or_closest": _mean(all(turn.is_right or turn.is_shown for turn in chain.turns) for chain in judged),
        "turns": len(turns),
        "turns_right_action": _mean(turn.is_action for turn in turns),
        "right_page": _mean(turn.is_page for turn in turns if turn.is_page is not None),
        "answered": sum(turn.is_page is not None for turn in turns),
        "clarification_precision": _mean(turn.is_offered for turn in turns if turn.is_offered is not None),
        "clarified": sum(turn.is_offered is not None for turn in turns),
        "leaks": sum(turn.is_leak for turn in turns),
    }


def _mean(values: Iterable[bool]) -> float | None:
    listed = list(values)
    return round(sum(listed) / len(listed), 4) if listed else None


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the shares as a Markdown table."""
    heads = ("kind", *(name.replace("_", " ") for name in found["all"]))
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for kind, row in found.items():
        cells = (
            "-" if value is None else f"{value:.0%}" if isinstance(value, float) else value for value in row.values()
        )
        lines.append(f"| {' | '.join(map(str, (kind, *cells)))} |")
    return "\n".join(lines)


def misses(judged: Iterable[JudgedChain]) -> list[str]:
    """Return a line for each wrong turn: the action, the expected one, and the shown titles."""
    return [
        f"{chain.asked.id} {number}: {turn.turn.question!r}: {turn.done} {list(turn.shown)},"
        f" expected {' or '.join(sorted(turn.turn.actions))}"
        f" {[sorted(page) for page in ((turn.done == 'clarify' and turn.turn.offered) or turn.turn.pages)]}"
        for chain in judged
        for number, turn in enumerate(chain.turns, start=1)
        if not turn.is_right
    ]


CONFIGS = {"demo": ROOT / "config" / "app.yaml", "port": ROOT / "config" / "documents.yaml"}


def main(arguments: list[str] | None = None) -> int:
    """Run one half of the questions and print the results."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.assistant", description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=HALVES, default="build")
    parser.add_argument("--home", type=Path, default=Path(".citelock/bench-assistant"), help="where tenants are built")
    parser.add_argument("--no-build", action="store_true", help="ask what is built already")
    parser.add_argument("--gold", type=Path, default=FOLDER, help="folder of the questions")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    judged: list[JudgedChain] = []
    questions = read_half(options.half, options.gold)
    for tenant in dict.fromkeys(each.principal.tenant for each in questions):
        home = (options.home / tenant).resolve()
        if not options.no_build:
            build(CONFIGS[tenant], home)
        config = load_config(CONFIGS[tenant]).model_copy(update={"home": home})
        pipeline = Pipeline.open(config, tenant)
        try:
            judged += ask(pipeline, [each for each in questions if each.principal.tenant == tenant])
        finally:
            pipeline.close()
    found = shares(judged)
    if options.json:
        print(json.dumps({"half": options.half, "kinds": found}, indent=2))
    else:
        print(f"half {options.half}\n\n{table(found)}")
    if not options.json and options.half != "measured":
        print("\n".join(("", "misses:", *misses(judged))))
    return 0


def ask(pipeline: Pipeline, questions: Sequence[AskedQuestion]) -> list[JudgedChain]:
    """Return the action for each question of the pipeline's tenant; a chain is one conversation."""
    judged = []
    for asked in questions:
        titles = page_titles(pipeline, asked.principal)
        said, turns = Conversation(), []
        for turn in asked.turns:
            answer = pipeline.ask(asked.principal, turn.question, conversation=said)
            turns.append(judge(turn, answer, titles))
            said = Conversation((*said.turns, turn_of(turn.question, answer)))
        judged.append(JudgedChain(asked, tuple(turns)))
    return judged


def page_titles(pipeline: Pipeline, principal: Principal) -> dict[str, str]:
    """Return the titles of all pages that a principal may read, by their id and by their address without fragment."""
    with pipeline.reading(principal) as view:
        chunks = view.chunks(view.sample(len(view)).tolist())
    return {key: chunk.title for chunk in chunks for key in (chunk.page_id, chunk.url.partition("#")[0])}


if __name__ == "__main__":
    sys.exit(main())
