"""`citelock chat`: questions one after the other in a terminal, each read after those before it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.cli.group import FAILED
from rag_serving.cli.options import ConfigPath, Docs, Groups, Tenant, User, config_of, open_pipeline, principal_of
from rag_serving.cli.printing import answer_lines, bold, citation_groups, dim, link, shown, tell, tell_flags
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from rag_serving.access.principals import Principal
    from rag_serving.ask import Pipeline
    from rag_serving.conversations.turns import Conversation, ConversationTurn
    from rag_serving.records.answers import Answer
    from rag_serving.records.decisions import ClarificationOption
    from rag_serving.records.queries import Filters

PROMPT = "> "
COMMANDS = {
    "/sources": "the quotes that the last answer rests on, and their links",
    "/explain": "how the last question was read, what was found, and what kept it unanswered",
    "/new": "forget what was asked before",
    "/help": "this list",
    "/quit": "leave; so does Ctrl-D",
}
GREETING = "Ask, and ask on: “and for contractors?”, “why?”, “the second one”. /help lists commands."
NOT_OFFERED = "No options are open: a number picks one where an answer asks back. Ask in words."
CANCELLED, NOTHING_YET, NEW = "Cancelled.", "Nothing was asked yet.", "A new conversation."
_LOOK_S, _LONGEST_S = 0.1, 600.0
_LINE_CHARS = 1 << 16
_ECHO_CHARS = 4000  # of a line of a pipe that is repeated above its answer


def command(
    docs: Docs = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    user: User = None,
    group: Groups = None,
    space: Annotated[list[str] | None, typer.Option("--space", help="Only pages of this space; repeatable.")] = None,
) -> None:
    """Ask in a conversation: a question may depend on those before it.

    \b
    citelock chat
    citelock chat --user ann --group finance
    printf 'How do I roll back a release?\\nwhy?\\n' | citelock chat

    “and for contractors?”, “what about Busan?”, “why?”, “show me the steps” are completed from the questions before;
    the reading is shown below. If an answer asks back, a number, “yes”, “the second one” or the name picks an option.
    /sources, /explain, /new, /help and /quit are commands; Ctrl-C cancels a question, Ctrl-D leaves. Only the receipts
    of the answers are stored. Without a terminal each line is a question.
    """
    from rag_serving.query.filters import parse_filters

    with open_pipeline(config_of(docs, config), tenant, asks=True) as pipeline:
        chat = Chat(pipeline, principal_of(pipeline, user, group), parse_filters({"space": space} if space else None))
        is_terminal = sys.stdin.isatty()
        if is_terminal:
            tell(dim(GREETING))
        for line in typed_lines() if is_terminal else piped_lines():
            if line.strip() and not is_terminal:
                tell(dim(f"{PROMPT}{line[:_ECHO_CHARS]}"))
            if not chat.take(line):
                break
    if chat.has_failed and not is_terminal:
        raise typer.Exit(FAILED)


@dataclass
class Chat:
    """One conversation, in memory."""

    pipeline: Pipeline
    principal: Principal
    filters: Filters | None = None
    turns: list[ConversationTurn] = field(default_factory=list)
    last: Answer | None = None  # with what explains it
    has_failed: bool = False

    def take(self, line: str) -> bool:
        """Do what a line says: a command, or a question; return whether the conversation goes on."""
        text = line.strip()
        if text.lower() in ("/quit", "/exit", "/q"):
            return False
        if text.startswith("/"):
            tell("\n".join(self._commanded(text.lower())))
        elif text:
            self._ask(text)
        return True

    def _commanded(self, name: str) -> Iterator[str]:
        if name == "/new":
            self.turns, self.last = [], None
            yield dim(NEW)
        elif name == "/help":
            yield from (f"{command:<10}{dim(told)}" for command, told in COMMANDS.items())
        elif name not in COMMANDS:
            yield dim(f"There is no {name}; /help lists commands.")
        elif self.last is None:
            yield dim(NOTHING_YET)
        else:
            yield from answer_lines(self.last if name == "/explain" else plain(self.last))

    def _ask(self, text: str) -> None:
        from rag_serving.conversations.turns import MOST_TURNS, Conversation, turn_of
        from rag_serving.text.normalization import fault_of

        if said := self._not_offered(text):
            tell(dim(said))
            return
        option = self._option(text)
        if option and not option.query:
            tell(link(option.url or "", option.url or ""))
            return
        question = (option.query if option else None) or text
        limit = self.pipeline.config.serving.max_question_chars
        too_long = f"the question has {len(question)} characters, at most {limit} are read"
        if fault := too_long if len(question) > limit else fault_of(question):
            complain(fault)
            return
        answer = asked(self.pipeline, self.principal, question, self.filters, Conversation(tuple(self.turns)))
        if answer is None:
            tell(dim(CANCELLED))
            return
        if answer.status == "unavailable":
            self.has_failed = True
            complain(answer.answer)
            return
        self.last = answer
        self.turns = [*self.turns, turn_of(question, answer, self.filters)][-MOST_TURNS:]
        tell("\n".join(told_lines(answer)))
        tell_flags(answer.flags)

    def _not_offered(self, text: str) -> str | None:
        if len(text) != 1 or text not in "123456789" or self._option(text):
            return None
        options = self.last.clarification.options if self.last and self.last.clarification else ()
        if not options:
            return NOT_OFFERED
        return f"There are options 1 to {len(options)}." if len(options) > 1 else "There is option 1 alone."

    def _option(self, text: str) -> ClarificationOption | None:
        options = self.last.clarification.options if self.last and self.last.clarification else ()
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
        return options[number - 1] if 0 < number <= len(options) else None


def asked(
    pipeline: Pipeline, principal: Principal, question: str, filters: Filters | None, conversation: Conversation
) -> Answer | None:
    """Return the answer to a question; None if Ctrl-C cancelled it, or, with a message, if a budget is spent or it
    cannot be logged."""
    from rag_serving.deadline import Deadline, StoppedError, run_in_thread, within
    from rag_serving.hooks import AuditUnavailableError, BudgetError

    deadline = Deadline(_LONGEST_S)
    with shown() as listen:

        def work() -> Answer:
            with within(deadline):
                return pipeline.ask(principal, question, filters, True, listen, conversation)

        outcome = run_in_thread(work, "question")
        try:
            while not outcome.done():
                wait([outcome], _LOOK_S)
            return outcome.result()
        except KeyboardInterrupt:
            deadline.cancel()
            with suppress(KeyboardInterrupt):  # it ends in a moment
                wait([outcome], 1.0)
        except StoppedError:
            pass
        except (AuditUnavailableError, BudgetError) as error:
            complain(str(error))
    return None


def told_lines(answer: Answer) -> Iterator[str]:
    """Yield an answer with how its question was read, its options numbered and its sources in a line each."""
    bare = replace(plain(answer), citations=(), clarification=None, receipt_id=None, understood=None)
    if answer.understood:
        yield dim(f"read as: {answer.understood}")
    yield from answer_lines(bare, "/explain")
    if answer.clarification:
        yield dim(answer.clarification.text) if answer.clarification.text not in answer.answer else ""
        for number, option in enumerate(answer.clarification.options, start=1):
            yield f"    {bold(f'{number}.')} {dim(option.label)}"
    for citations in citation_groups(answer.citations):
        first = citations[0]
        yield f"{bold(f'[{first.index}] {first.title}')}  {link(first.url, first.fragment_url)}"


def plain(answer: Answer) -> Answer:
    """Return an answer without what explains it."""
    return replace(answer, passages=None, notes=None, why=None, rejected=(), flags=())


def typed_lines() -> Iterator[str]:
    """Yield the lines that somebody types, until Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401  # arrows and Ctrl-R in what is typed
    while True:
        try:
            yield input(PROMPT)
        except KeyboardInterrupt:
            tell("")
        except EOFError:
            tell("")
            return


def piped_lines(read: Callable[[int], str] | None = None) -> Iterator[str]:
    """Yield the lines of standard input; of a line that is far too long to be a question only the beginning."""
    read = read or sys.stdin.readline
    while line := read(_LINE_CHARS):
        beginning = line
        while line and not line.endswith("\n"):
            line = read(_LINE_CHARS)
        yield beginning.rstrip("\r\n")
