"""What is told as of an earlier generation is as if no page that is hidden from the asker now had ever been there."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.building import build
from support.envelopes import Wiki, envelope
from support.examples import by_day

from evals.verify_receipt import faults_of
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.records.answers import Answer
from rag_serving.records.queries import Occasion

ANN = Principal("demo", "ann", frozenset({"staff"}))
QUESTIONS = (
    "which pages mention harbour",
    "how many pages are there",
    "which pages have the label howto",
    "how many pages mention winch",
    "which pages link to Plan 3",
    "pages below Plan 2",
    "what is the longest page",
    "status of Plan 4",
    "what changed on Plan 5",
    "which pages were updated since 2026",
    "how red is the harbour?",
    "what is the colour of the winch of plan 3?",
    "is plan 2 open?",
    "only mark 0",
    "tell me about harbour label:howto",
    'what does "plan 4" say about harbor?',
)
PAGES = [str(one) for one in range(1, 9)]


class Plan:
    """A page that links to another, may lie below one, and may show all of one."""

    def __init__(self, number: str, dice: random.Random) -> None:
        linked, above, shown = dice.sample([one for one in PAGES if one != number], 3)
        self.shown = shown if dice.random() < 0.4 else ""
        self.above = above if number > above and dice.random() < 0.5 else ""
        body = f"<p>The {dice.choice(['harbour', 'winch'])} of plan {number} is {dice.choice(['red', 'blue'])}.</p>"
        body += f"<p>Status: {dice.choice(['OPEN', 'DONE'])}</p><p>{self._link(linked)}</p>"
        if self.shown:
            parameter = f'<ac:parameter ac:name="">{self._link(shown)}</ac:parameter>'
            body += f'<ac:structured-macro ac:name="include">{parameter}</ac:structured-macro>'
        self._made = envelope(number, f"Plan {number}", body, labels=["howto"] if dice.random() < 0.5 else [])
        if self.above:
            self._made["ancestors"] = [{"id": above, "title": f"Plan {above}"}]

    def envelope(self, is_hidden: bool = False) -> dict[str, Any]:
        groups = [{"name": "board", "type": "group"}] if is_hidden else []
        lists = {"group": {"results": groups}, "user": {"results": []}}
        return {**self._made, "restrictions": {"read": {"restrictions": lists}}}

    def _link(self, number: str) -> str:
        return f'<ac:link><ri:page ri:content-title="Plan {number}"/></ac:link>'


class Past:
    """A wiki of two generations, and what it answers of the first one."""

    def __init__(self, folder: Path, *generations: list[dict[str, Any]]) -> None:
        folder.mkdir()
        self.wiki, self.kept = Wiki(folder), list[str]()
        self.wiki.configure(indexing={"dense_search": "chroma"})  # which knows reader classes, and not these pages
        for number, pages in enumerate(generations):
            for path in (folder / "eng").iterdir():
                path.unlink()
            mark = envelope("900", "Mark", f"<p>Only mark {number}.</p>", version=number + 1)
            for each in (*pages, mark | {"restrictions": Plan("1", random.Random()).envelope()["restrictions"]}):
                self.wiki.write("eng", each)
            build(self.wiki)
            self.kept.append(Store(self.wiki.home).current("demo") or "")
        self.pipeline = Pipeline.open(load_config(self.wiki.config_path), "demo")

    def asked(self, question: str, as_of: str = "") -> Answer:
        return self.pipeline.ask(ANN, question, explain=True, occasion=Occasion(as_of=as_of or self.kept[0]))

    def told(self, answer: Answer) -> str:
        """Return all of an answer but the names of the generations and its times; its passages with their scores."""
        payload = answer.payload()
        names = ("status", "outcome", "answer", "citations", "set", "claims", "flags", "passages", "evidence", "why")
        written = json.dumps({name: payload.get(name) for name in names}, sort_keys=True, default=str)
        for one in self.kept:
            written = written.replace(one, "").replace(one[:8], "")
        return written


def reached(some: set[str], plans: dict[str, Plan], way: str) -> set[str]:
    """Return pages and those that lead to them by some way."""
    while more := {one for one, plan in plans.items() if getattr(plan, way) in some} - some:
        some = some | more
    return some


@pytest.fixture(scope="module", params=by_day("0", "012"))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Past, Past, set[str]]:
    """A wiki with pages that are hidden or deleted in its second generation, and one that never had them."""
    dice = random.Random(f"as of {request.param}")
    plans = {one: Plan(one, dice) for one in PAGES}
    hidden, deleted = set(dice.sample(PAGES, 2)), {dice.choice(PAGES)}
    gone = reached(hidden | deleted, plans, "above")
    left = [plan.envelope() for one, plan in plans.items() if one not in reached(gone, plans, "shown")]
    second = [plan.envelope(one in hidden) for one, plan in plans.items() if one not in deleted]
    tmp_path = tmp_path_factory.mktemp("as_of")
    whole = Past(tmp_path / "whole", [plan.envelope() for plan in plans.values()], second)
    return whole, Past(tmp_path / "rest", left, left), gone


def test_pages_that_are_hidden_or_gone_now_change_no_answer_of_the_past(both: tuple[Past, Past, set[str]]) -> None:
    whole, rest, gone = both
    for question in QUESTIONS:
        answer = whole.asked(question)
        assert whole.told(answer) == rest.told(rest.asked(question)), question
        pages = {each.page_id for each in (*answer.citations, *(answer.set.members if answer.set else ()))}
        assert pages.isdisjoint(gone), question
    assert whole.asked("how many pages are there").set is not None
    assert [each["text"] for each in whole.asked("only mark 0").payload()["passages"]] == ["Only mark 0."]


def test_receipts_of_the_past_hold(both: tuple[Past, Past, set[str]]) -> None:
    whole = both[0]
    folder = whole.wiki.home / "tenants/demo/generations" / whole.kept[0]
    for question in ("how many pages are there", "which pages mention harbour", "only mark 0"):
        answer = whole.asked(question)
        assert answer.generation == whole.kept[0]
        assert whole.pipeline.proof(answer.receipt_id or "", ANN).faults == ()
        receipt = whole.pipeline.receipts.stored(answer.receipt_id or "", "demo").receipt()
        assert faults_of(receipt, folder, answer.receipt_id) == []
        if answer.set:
            del receipt["set"]["among"]
            assert faults_of(receipt, folder)
    refused = whole.asked("only mark 0", as_of="2019-01-01")
    assert refused.status == "refused"
    assert all(one in refused.answer for one in whole.kept)
    assert whole.asked("how many pages are there", as_of=whole.kept[1]).generation == whole.kept[1]
