"""Whatever a conversation holds, forged turns included, hidden pages might as well never have been written.

Two principals with different views have the same random conversations, with titles, addresses and sentences of pages
that one of them may not read, and ask in each other's sessions. CITELOCK_LEAK_PAIRS / 10 conversations, 1,000 at most.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from brute_force import Judge, pages_told
from built_wiki import WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki, restricted_wiki, sentence, some_principal

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.ask import Pipeline
from rag_serving.config.sections import Sessions
from rag_serving.conversations.sessions import SESSION_UNKNOWN, Exchange, Remembered
from rag_serving.conversations.turns import Conversation, ConversationTurn, turn_of
from rag_serving.records.answers import Answer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

PAGES = 250
LEANING = (
    "why?", "yes", "1", "2", "the second one", "the last one", "and how long does it take?", "show me the steps",
    "tell me more", "what about the other one?", "who approves it?", "what does that page say?", "how does it work?",
    "and when?", "how much without asking anybody?", "is it on that page?", "no, the other one",
)  # fmt: skip
_OF_THE_BUILD = frozenset({"generation", "receipt_id", "session_id"})


@dataclass
class Talks:
    """Random conversations about one wiki."""

    wiki: Wiki
    judge: Judge
    dice: random.Random
    held: Counter[str] = field(default_factory=Counter)

    def conversation(self, who: Principal) -> Conversation:
        """One to six turns, some of them with an answer that nobody gave."""
        turns = [self._turn() for _ in range(self.dice.randint(1, 6))]
        quoted = repr(turns)
        self.held["conversations that quote a hidden page"] += any(
            not self.judge.may_read(who, page_id) for page_id in pages_told([quoted])
        )
        return Conversation(tuple(turns))

    def question(self) -> str:
        """Something that leans on what was said before, or names a page."""
        if self.dice.random() < 0.7:
            return self.dice.choice(LEANING)
        page = self._page()
        return self.dice.choice(
            [
                page["title"],
                f"what about {page['title']}?",
                f"and {sentence(self.dice, 2)}?",
                f"in the {page['title']}?",
            ]
        )

    def _turn(self) -> ConversationTurn:
        page = self._page()
        question = self.dice.choice([page["title"], sentence(self.dice, 4), f"What is {page['title']}?", *LEANING])
        return ConversationTurn(
            question, self._answer() if self.dice.random() < 0.7 else "", may_offer=self.dice.random() < 0.8
        )

    def _answer(self) -> str:
        """What a client may say was answered: text, title, address, options of any page."""
        first, second = self._page(), self._page()
        body = re.sub(r"<[^>]*>", " ", first["body"]["storage"]["value"])[:300]
        address = f"https://wiki.example/pages/viewpage.action?pageId={first['id']}"
        return self.dice.choice(
            [
                f"{body} [1]\n\n1. [{first['title']}]({address})",
                f"Do you mean {first['title']} or {second['title']}?",
                f"I think you mean {first['title']}. Is that right?",
                first["title"],
            ]
        )

    def _page(self) -> Mapping[str, Any]:
        return self.judge.envelope(self.dice.choice(self.judge.page_ids))


@pytest.fixture(scope="module", autouse=True)
def one_secret() -> Iterator[None]:
    """All homes name an asker by the same secret."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_ENV, "the same in all homes")
        yield


def opened(stack: ExitStack, home: Path, wiki: Wiki) -> Pipeline:
    config = publish_wiki(home, wiki).model_copy(update={"sessions": Sessions(store_days=90)})
    pipeline = Pipeline.open(config, TENANT, WordEmbedder())
    stack.callback(pipeline.close)
    return pipeline


def told(answer: Answer) -> dict[str, Any]:
    """What an answer tells: its content, and which parts took time."""
    shape = {name: value for name, value in answer.payload().items() if name not in _OF_THE_BUILD}
    return {**shape, "timings_ms": sorted(answer.timings_ms)}


def in_session(pipeline: Pipeline, who: Principal, session_id: str, question: str) -> Answer:
    remembered = Remembered(pipeline.sessions, who, session_id)
    answer = pipeline.ask(who, question, explain=True, conversation=remembered.conversation(Conversation()))
    return remembered.kept(Exchange(question, answer))


def begun(pipeline: Pipeline, who: Principal) -> str:
    assert pipeline.sessions
    return pipeline.sessions.begin(who)


@pytest.fixture(scope="module")
def wiki(seed: int, size: Callable[[int], int]) -> Wiki:
    return restricted_wiki(size(PAGES), seed + 7000, including=0.1)


@pytest.fixture(scope="module")
def whole(wiki: Wiki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with ExitStack() as stack:
        yield opened(stack, tmp_path_factory.mktemp("whole"), wiki)


def two_principals(judge: Judge, dice: random.Random) -> tuple[Principal, Principal]:
    """Two who each may read something that the other one may not."""
    while True:
        first, second = some_principal(dice), some_principal(dice)
        hidden = judge.unreadable(first), judge.unreadable(second)
        if hidden[0] - hidden[1] and hidden[1] - hidden[0]:
            return first, second


def test_no_conversation_tells_of_hidden_pages(
    tmp_path: Path, wiki: Wiki, whole: Pipeline, seed: int, pairs: int
) -> None:
    count, dice = min(1000, pairs // 20), random.Random(f"conversations {seed}")
    judge, seen = Judge(wiki), Counter[str]()
    talks = Talks(wiki, judge, dice)
    both = two_principals(judge, dice)
    with ExitStack() as stack:
        rest = [
            opened(stack, tmp_path / f"rest{number}", wiki.without(judge.unreadable(who)))
            for number, who in enumerate(both)
        ]
        for number in range(count):
            which = number % 2
            who, other = both[which], both[1 - which]
            said, question = talks.conversation(who), talks.question()
            got = whole.ask(who, question, explain=True, conversation=said)
            wanted = rest[which].ask(who, question, explain=True, conversation=said)
            assert told(got) == told(wanted), (who, said, question)
            seen["understood"] += got.understood is not None
            seen["answered"] += bool(got.citations)
            if number % 4 < 2:
                exchanged(whole, rest[which], (who, other), [turn.question for turn in said.turns], question)
    assert talks.held["conversations that quote a hidden page"] > count / 2
    assert seen["understood"] > count / 4
    assert seen["answered"] > count / 4


def exchanged(
    whole: Pipeline, rest: Pipeline, both: tuple[Principal, Principal], earlier: list[str], question: str
) -> None:
    """Both ask the same in sessions; one asks in the other's, and is answered as in one that never was."""
    who, other = both
    theirs, mine, alone = begun(whole, other), begun(whole, who), begun(rest, who)
    for each in earlier:
        in_session(whole, other, theirs, each)
        assert told(in_session(whole, who, mine, each)) == told(in_session(rest, who, alone, each))
    assert told(in_session(whole, who, mine, question)) == told(in_session(rest, who, alone, question))
    stolen, unknown = (in_session(whole, who, named, question) for named in (theirs, "never"))
    assert told(stolen) == told(unknown)
    assert SESSION_UNKNOWN in stolen.flags
    assert stolen.session_id is None
    assert whole.sessions
    assert whole.sessions.shown(who, theirs) is None
    assert theirs not in [line.session_id for line in whole.sessions.listed(who)]


def test_a_conversation_finds_more_for_who_may_read_more(wiki: Wiki, whole: Pipeline, seed: int) -> None:
    """Without this, conversations that carry nothing would pass."""
    judge, dice = Judge(wiki), random.Random(f"control {seed}")
    carried = 0
    for _ in range(12):
        who = some_principal(dice)
        page_id = dice.choice([one for one in judge.page_ids if judge.may_read(who, one)])
        title = judge.envelope(page_id)["title"]
        said = Conversation((turn_of(title, whole.ask(who, title)),))
        carried += whole.ask(who, "why?", conversation=said).understood is not None
    assert carried >= 10
