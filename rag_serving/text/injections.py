"""Text in pages that is meant for a model, not for a reader: made harmless before a model sees it.

Two things are done. Marks that only a chat template writes are broken by an invisible character, which quotes are
verified without; what imitates a fence of our own is removed. Sentences that order the model about are replaced;
whoever quotes them finds no such words.

Belongs here: what becomes of such text. Does not belong here: what an order is (`orders`), fences (`fences`).
"""

from __future__ import annotations

import re

from rag_serving.text.disguises import readings
from rag_serving.text.fences import BRACKETS, without_fences
from rag_serving.text.orders import mentions_of_orders, orders_assistant

REPLACED = "[instruction removed]"

# Turn marks of chat templates (ChatML, Llama 2 and 3, Gemma, Mistral, Phi, DeepSeek), and names of parts of a prompt.
_MARKS = re.compile(
    r"<\s*+/?\s*+(?=passage\b|context\b|source\b|question\b|system\b|assistant\b|user\b|think\b|s>|start_of_turn|end_of_turn)"
    r"|<(?=[|｜])|<<(?=/?SYS>>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])"
    r"|(?m:^[ \t>*#-]*(?=(?:system|assistant|user|human)[ \t]*:[ \t]*$))",
    re.IGNORECASE,
)
# What may be one of them in other letters, and how that reads.
_DISGUISED = re.compile(rf"(?:[{BRACKETS}\[［【]|^[ \t>*#-]*+)(?P<inside>[^\n{BRACKETS}]{{1,24}})", re.MULTILINE)
_READ_AS_MARK = re.compile(
    r"\W{0,4}(?:passage|context|source|question|system|assistant|user|think|im_(?:start|end)|start_of_turn|end_of_turn"
    r"|im (?:start|end)|start of turn|end of turn|inst|tool.calls)\b"
)
_READ_AS_ROLE = re.compile(r"(?:system|assistant|user|human)[ \t]*:[ \t]*")
_WORD_JOINER = "\u2060"
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
# A line that goes on in the next one; what stands for the break is as long.
_BROKEN_LINE = re.compile(r"(?<=[\w,])\n(?=[^\W\d_A-Z])")
# Text that no reader sees: Unicode tag characters and bidirectional overrides.
_HIDDEN = re.compile(r"[\U000E0000-\U000E007F\u202a-\u202e\u2066-\u2069]+")


def neutralized(text: str) -> tuple[str, int]:
    """The text without what could pass for a turn or an order of the conversation, and how many places that were.

    A sentence that orders is replaced as a whole; of one that only mentions an order, the order.
    """
    text, hidden = _HIDDEN.subn("", text)
    text, fences = without_fences(text)
    text, disguised = _without_disguised_marks(text)
    text, marks = _MARKS.subn(_broken, text)
    text, orders = _without_orders(text)
    return text, hidden + fences + marks + disguised + orders


def _without_orders(text: str) -> tuple[str, int]:
    """The text with `REPLACED` for orders, and how many these were."""
    kept, end, count = [], 0, 0
    joined = _BROKEN_LINE.sub(" ", text)
    for sentence in _SENTENCE.finditer(joined):
        if orders_assistant(sentence[0]):
            spans = [(len(sentence[0]) - len(sentence[0].lstrip()), len(sentence[0]))]
        else:
            spans = list(mentions_of_orders(sentence[0]))
        for start, last in spans:
            kept += [text[end : sentence.start() + start], REPLACED]
            end = sentence.start() + last
        count += len(spans)
    return "".join((*kept, text[end:])), count


def _without_disguised_marks(text: str) -> tuple[str, int]:
    """The text with marks in look-alike letters broken, and how many these were."""
    if text.isascii():
        return text, 0
    count = 0

    def broken(found: re.Match[str]) -> str:
        nonlocal count
        inside, at = found["inside"], found.start("inside") - found.start()
        bracket = found[0][:at].strip(" \t>*#-")
        pattern = _READ_AS_MARK if bracket else _READ_AS_ROLE
        if bracket.isascii() and (inside.isascii() or pattern.match(inside.lower())):
            return found[0]
        if not any(pattern.match(reading) if bracket else pattern.fullmatch(reading) for reading in readings(inside)):
            return found[0]
        count += 1
        return found[0][:at] + _WORD_JOINER + inside

    return _DISGUISED.sub(broken, text), count


def _broken(mark: re.Match[str]) -> str:
    """The mark with an invisible character behind its first one, or before what follows."""
    return mark[0][:1] + _WORD_JOINER + mark[0][1:]
