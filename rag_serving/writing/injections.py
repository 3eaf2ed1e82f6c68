"""Text in pages that is meant for a model, not for a reader: made harmless before a model sees it.

Two things are done. Marks that only a chat template writes are broken by an invisible character, which quotes are
verified without. Sentences that order the model about are replaced; whoever quotes them finds no such words.

Belongs here: what such text looks like. Does not belong here: the fence around passages (`prompt`).
"""

from __future__ import annotations

import re

REPLACED = "[instruction removed]"

# Turn marks of chat templates (ChatML, Llama 2 and 3, Gemma, Mistral, Phi, DeepSeek), and the fence of our own prompt.
_MARKS = re.compile(
    r"<\s*/?\s*(?=passage\b|context\b|source\b|question\b|system\b|assistant\b|user\b|think\b|s>|start_of_turn|end_of_turn)"
    r"|<(?=[|｜])|<<(?=/?SYS>>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])"
    r"|(?m:^[ \t>*#-]*(?=(?:system|assistant|user|human)[ \t]*:[ \t]*$))",
    re.IGNORECASE,
)
_WORD_JOINER = "\u2060"
_ABOUT = r"(?:instructions?|prompts?|rules|directions|guidelines|passages|context|messages?)"
_BEFORE = r"(?:(?:all|any|the|your|of|these|my|every)\s+){0,3}"
_EARLIER = r"(?:previous|prior|above|preceding|earlier|foregoing|system|other|given|existing)"
_ORDERS = (
    rf"(?:ignore|disregard|forget|override|bypass)\s+{_BEFORE}{_EARLIER}\s+{_ABOUT}",
    r"(?:ignore|disregard|forget)\s+(?:everything|anything|all)\s+(?:you\s|above|before|that\s+(?:came|was)\b)",
    r"you\s+are\s+(?:now|no\s+longer)\s+(?:an?\s+|the\s+)?(?:\w+\s+){0,3}(?:ai|assistant|model|bot|chatbot|dan|pirate)\b",
    r"from\s+now\s+on\s*,?\s+(?:you\s+(?:will|must|are|shall)|answer|respond|reply|say)\b",
    r"new\s+(?:system\s+)?(?:instructions?|prompt)\s*:",
    r"(?:reveal|print|show|repeat|output|leak)\s+(?:me\s+)?(?:your\s+|the\s+)(?:system|hidden|initial)\s+prompt",
    r"do\s+not\s+(?:cite|use)\s+(?:the\s+|any\s+)?(?:passages?|sources)",
    r"dear\s+(?:ai|language\s+model|llm|assistant|chatbot)\b",
    r"(?:note|message|instructions?)\s+(?:to|for)\s+(?:the\s+|all\s+)?(?:ais?|llms?|language\s+models?|assistants?|chatbots?)\b",
    r"ignorier\w*\s+(?:alle\s+)?(?:vorherigen|bisherigen|obigen)\s+\w+",
    r"ignore[rz]?\s+(?:toutes\s+)?les\s+instructions\s+pr[ée]c[ée]dentes",
)
_ORDER = re.compile(rf"[^.!?\n]*\b(?:{'|'.join(_ORDERS)})[^.!?\n]*[.!?]?", re.IGNORECASE)
# Text that no reader sees: Unicode tag characters and bidirectional overrides.
_HIDDEN = re.compile(r"[\U000E0000-\U000E007F\u202a-\u202e\u2066-\u2069]+")


def neutralized(text: str) -> tuple[str, int]:
    """The text without what could pass for a turn or an order of the conversation, and how many places that were."""
    count = 0
    for pattern, harmless in ((_HIDDEN, ""), (_MARKS, ""), (_ORDER, f" {REPLACED}")):
        text, found = pattern.subn(_broken if pattern is _MARKS else harmless, text)
        count += found
    return text, count


def orders(text: str) -> int:
    """How many sentences of the text order the model about."""
    return len(_ORDER.findall(text))


def _broken(mark: re.Match[str]) -> str:
    """The mark with an invisible character behind its first one, or before what follows."""
    return mark[0][:1] + _WORD_JOINER + mark[0][1:]
