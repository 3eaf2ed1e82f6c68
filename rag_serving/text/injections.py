"""Text in pages that is meant for a model, not for a reader: made harmless before a model sees it.

Two things are done. Marks that only a chat template writes are broken by an invisible character, which quotes are
verified without; what imitates a fence of our own is removed. Sentences that order the model about are replaced;
a quote of them then matches nothing.

Belongs here: what becomes of such text. Does not belong here: what an order is (`orders`), fences (`fences`).
"""

from __future__ import annotations

import re

from rag_serving.text.directed import ordering_units
from rag_serving.text.fences import without_fences
from rag_serving.text.marks import without_marks
from rag_serving.text.orders import mentions_of_orders, orders_assistant
from rag_serving.text.units import units

REPLACED = "[instruction removed]"

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
# A line that continues in the next one; the replacement of the break is as long.
_BROKEN_LINE = re.compile(r"(?<=[\w,])\n(?=[^\W\d_A-Z])")
# Text that no reader sees: Unicode tag characters and bidirectional overrides.
_HIDDEN = re.compile(r"[\U000E0000-\U000E007F\u202a-\u202e\u2066-\u2069]+")


def neutralized(text: str) -> tuple[str, int]:
    """Return the text without anything that could pass for a turn or an order of the conversation, and the number
    removed.

    A sentence that orders is replaced as a whole; of one that only mentions an order, the order.
    """
    text, ordered = _without_ordering(text)
    text, hidden = _HIDDEN.subn("", text)
    text, fences = without_fences(text)
    text, marks = without_marks(text)
    text, orders = _without_orders(text)
    return text, ordered + hidden + fences + marks + orders


def _without_ordering(text: str) -> tuple[str, int]:
    """Return the text with `REPLACED` for orders to an assistant and their continuations, and their number."""
    kept, end = [], 0
    ordering = ordering_units(text, units(text))
    for unit in ordering:
        kept += [text[end : unit.start], REPLACED]
        end = unit.end
    return "".join((*kept, text[end:])), len(ordering)


def _without_orders(text: str) -> tuple[str, int]:
    """Return the text with `REPLACED` for orders, and how many these were."""
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
