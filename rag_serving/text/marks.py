"""Marks that only a conversation with a model has: turns of chat templates, roles, parts of a prompt."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from rag_serving.text.disguises import readings

REMOVED = "[mark removed]"

_WORD_BYTES = 4
# Brackets that a model may read as the one that opens a mark; those of NFKC are among them.
BRACKETS = "<＜﹤‹〈〈⟨❮❬❰⧼⦑⟪《«˂ᐸ≺⋖"
_CANDIDATE = re.compile(
    rf"(?:[{BRACKETS}]|&(?:lt|#0{{0,4}}60|#x0{{0,4}}3c);)(?P<inside>[^\n{BRACKETS}>＞﹥]{{1,120}})"
    rf"(?:[>＞﹥]|&(?:gt|#0{{0,4}}62|#x0{{0,4}}3e);)?",
    re.IGNORECASE,
)
# The name of a fence with a word or number of its own behind it, of which no element's name has a figure.
_MARK = re.compile(
    r"\W{0,6}(?:passage|excerpt|question|document|outline|before|after|premise|hypothesis)s?"
    r"(?:[\s_:=.‐‑–—−-]{1,3}(?:[0-9a-z…]\W?){2,64}|.{0,12}\bn\s?=)"
)
_FIGURE = re.compile(r"\d|[^\x00-\x7f]")


@dataclass(frozen=True)
class Fence:
    """The marks of one request; `word` is what a text would have to know to imitate them."""

    word: str

    @staticmethod
    def new() -> Fence:
        """Return a fence with a word of its own."""
        return Fence(secrets.token_hex(_WORD_BYTES))

    def around(self, name: str, text: str, number: int | None = None) -> str:
        """Return the text between its marks, each on a line of its own."""
        return f"{self.begin(name, number)}\n{text}\n{self.end(name)}"

    def begin(self, name: str, number: int | None = None) -> str:
        """Return the mark before a text."""
        return f"<{name}-{self.word}{f' n={number}' if number else ''}>"

    def end(self, name: str) -> str:
        """Return the mark behind a text."""
        return f"</{name}-{self.word}>"


def without_fences(text: str) -> tuple[str, int]:
    """Return the text without anything like a mark of a fence, in any letters, and the number removed."""
    count = 0

    def kept(candidate: re.Match[str]) -> str:
        nonlocal count
        inside = candidate["inside"]
        if not _FIGURE.search(inside) or not any(_MARK.match(reading) for reading in readings(inside)):
            return candidate[0]
        count += 1
        return REMOVED

    return _CANDIDATE.sub(kept, text), count


# Turn marks of chat templates (ChatML, Llama 2 and 3, Gemma, Mistral, Phi, DeepSeek), and names of parts of a prompt.
_MARKS = re.compile(
    r"<\s*+/?\s*+(?=passage\b|context\b|source\b|question\b|system\b|assistant\b|user\b|think\b|s>|start_of_turn|end_of_turn)"
    r"|<(?=[|｜])|<<(?=/?SYS>>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])"
    r"|(?m:^[ \t>*#-]*(?=(?:system|assistant|user|human)[ \t]*:[ \t]*$))",
    re.IGNORECASE,
)
# Look-alikes of them in other letters, and their reading.
_DISGUISED = re.compile(rf"(?:[{BRACKETS}\[［【]|^[ \t>*#-]*+)(?P<inside>[^\n{BRACKETS}]{{1,24}})", re.MULTILINE)
_READ_AS_MARK = re.compile(
    r"\W{0,4}(?:passage|context|source|question|system|assistant|user|think|im_(?:start|end)|start_of_turn|end_of_turn"
    r"|im (?:start|end)|start of turn|end of turn|inst|tool.calls)\b"
)
_READ_AS_ROLE = re.compile(r"(?:system|assistant|user|human)[ \t]*:[ \t]*")
# Marks of a paragraph written for a model: no element of a page and no human heading has them.
# In the middle of a sentence it is spoken of.
_TURNS = re.compile(
    r"(?m:(?:^|[.!?:>]\s)[\s>*#\"'(-]{0,12})(?:"
    r"<[|｜] ?(?:im[ _]start|im[ _]end|system|user|assistant|end|begin|start|eot|message|channel)|<</?sys>>"
    r"|\[/?(?:inst|system)\]|<(?:start|end)[ _]of[ _]turn|(?:</?\w{1,12}>){0,3}</?passage>|<tool[ _]results?>"
    r"|(?:system|assistant|human)[ \t]{0,4}:[ \t]{0,4}(?:\n|\Z)|(?:user|human):[^\n]{0,400}[\n ]\W{0,8}assistant:"
    r"|assistant: (?:[^\s:]{1,40} ){3,40}[^\s:]{1,40}[.!]|<> )"
    r"|(?<![-=*#_])[-=*#_]{2,40} ?end of (?:the )?(?:passages?|documents?|context|prompt)\b"
    r"|#{1,6} ?(?:system|assistant|instruction|human)[ \t]{0,4}:[ \t]{0,4}(?:\n|\Z)"
    r"|\{\s{0,4}\"(?:role|tool calls|answer|instruction to assistant)\"\s{0,4}:"
    r"|(?:<!--|display: ?none[^>\n]{0,40}>)\W{0,8}(?:(?:dear|hey|attention|to the) )?"
    r"(?:ai|assistants?|llm|chatgpt|bot|system)\b"
)
_OURS = re.compile(r"(?m)^[ \t]*SOURCE=https?:|^[ \t]*CONTEXT (?:before|after):|\bPAGE: [^\n]{0,200}\s{0,4}\bTEXT:")
_ROLE = re.compile(
    r"\W{0,8}(?:system|assistant|instruction|human)[ \t]{0,4}:[ \t]{0,4}"
    # A heading on one line with what follows; that its signs are still there says that it is no page's markup.
    r"|(?s:(?:#(?: |#{1,5} ?)(?:system|assistant|instruction|human)[ \t]{0,4}:|'{3} ?(?:system|assistant|user)\b).*)"
)
# Of which plain text with a mark has one.
_MAY_MARK = re.compile(
    r"<[|/]|<<|<>|<!--|[<{][ \t\n]{0,4}[\"a-z]{3}|&(?:lt|#)|\[/?(?:inst|sys)"
    r"|(?:assistant|system|human|instruction)[ \t]*+:"
    r"|\bend of |display:|[A-Z]{3}=http|PAGE:|CONTEXT ",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`\n]{1,200}`")
_WORD_JOINER = "\u2060"


def has_mark(text: str) -> bool:
    """Return whether a text that is no code imitates a turn of a conversation, or a fence, outside of inline code."""
    if text.isascii() and not _MAY_MARK.search(text):
        return False
    said = _CODE.sub(" ", text)
    return any(_TURNS.search(reading) for reading in readings(said)) or bool(_OURS.search(said)) or has_fence(said)


def is_role(heading: str) -> bool:
    """Return whether a heading is one that prompts have over their turns, `### Instruction:`, or begins with it."""
    return any(_ROLE.fullmatch(reading) for reading in readings(heading))


def has_fence(text: str) -> bool:
    """Return whether a text imitates a fence outside of inline code."""
    return without_fences(_CODE.sub(" ", text))[1] > 0


def without_marks(text: str) -> tuple[str, int]:
    """Return the text with its marks broken by a character that quotes are verified without, and their number."""
    text, disguised = _without_disguised_marks(text)
    text, marks = _MARKS.subn(_broken, text)
    return text, disguised + marks


def _without_disguised_marks(text: str) -> tuple[str, int]:
    if text.isascii():
        return text, 0
    count = 0

    def broken(match: re.Match[str]) -> str:
        nonlocal count
        inside, at = match["inside"], match.start("inside") - match.start()
        bracket = match[0][:at].strip(" \t>*#-")
        pattern = _READ_AS_MARK if bracket else _READ_AS_ROLE
        if bracket.isascii() and (inside.isascii() or pattern.match(inside.lower())):
            return match[0]
        if not any(pattern.match(reading) if bracket else pattern.fullmatch(reading) for reading in readings(inside)):
            return match[0]
        count += 1
        return match[0][:at] + _WORD_JOINER + inside

    return _DISGUISED.sub(broken, text), count


def _broken(mark: re.Match[str]) -> str:
    """Return the mark with an invisible character after its first one, or before the next."""
    return mark[0][:1] + _WORD_JOINER + mark[0][1:]
