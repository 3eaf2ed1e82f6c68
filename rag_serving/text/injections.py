"""Text in pages that is meant for a model, not for a reader: made harmless before a model sees it.

Two things are done. Marks that only a chat template writes are broken by an invisible character, which quotes are
verified without. Sentences that order the model about are replaced; whoever quotes them finds no such words.

Belongs here: what becomes of such text. Does not belong here: what an order is (`orders`), the fence around passages
(`prompt`).
"""

from __future__ import annotations

import re

from rag_serving.text.orders import mentions_of_orders, orders_assistant

REPLACED = "[instruction removed]"

# Turn marks of chat templates (ChatML, Llama 2 and 3, Gemma, Mistral, Phi, DeepSeek), and the fence of our own prompt.
_MARKS = re.compile(
    r"<\s*+/?\s*+(?=passage\b|context\b|source\b|question\b|system\b|assistant\b|user\b|think\b|s>|start_of_turn|end_of_turn)"
    r"|<(?=[|｜])|<<(?=/?SYS>>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])"
    r"|(?m:^[ \t>*#-]*(?=(?:system|assistant|user|human)[ \t]*:[ \t]*$))",
    re.IGNORECASE,
)
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
    text, marks = _MARKS.subn(_broken, text)
    text, orders = _without_orders(text)
    return text, hidden + marks + orders


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


def _broken(mark: re.Match[str]) -> str:
    """The mark with an invisible character behind its first one, or before what follows."""
    return mark[0][:1] + _WORD_JOINER + mark[0][1:]
