"""Question frames: what stands around the thing that a question asks for (`what is`, `tell me about`, `mean`).

Belongs here: the phrases, in lower case and without punctuation, `s` for `'s`. Does not belong here: reading a question
by them (`topics` for a question as it was typed, `retrieval.keyword.question` for its words).
"""

from __future__ import annotations

from typing import Final

Words = tuple[str, ...]


def _phrases(text: str) -> tuple[Words, ...]:
    """Return phrases as their words, the longest first."""
    phrases = {tuple(phrase.split()) for line in text.splitlines() for phrase in line.split("|") if phrase.strip()}
    return tuple(sorted(phrases, key=lambda phrase: (-len(phrase), phrase)))


DEFINED: Final = _phrases("""
what is|what are|what was|what were|what does|what s|whats|define|the meaning of|meaning of|the definition of
definition of
""")
"""What asks what something is."""
TOLD: Final = _phrases("""
explain|describe|summarize|summarise|show me|what do you know about|about|info on|info about|information on
information about|tell me about|tell us about|tell me more about|tell us more about|tell me something about
tell us something about|tell me everything about|tell us everything about|tell me all about|tell us all about
give me an overview of|give me a overview of|give me overview of|give me a summary of|give me an summary of
give me summary of|an overview of|a overview of|overview of|a summary of|an summary of|summary of
""")
"""What asks to be told of something."""
POLITE: Final = _phrases("please|can you|could you|would you|do you know")
"""What may stand before a frame."""
WHERE_OR_WHO: Final = _phrases("""
where is|where are|where do i find|who is|who are|i want to know about|help with|help me with
""")
"""What asks for a thing by more than its name; a page of that name is still what is meant."""
ACTIONS: Final = _phrases("""
open|find|go to|get to|use|see|view|show|where can i find|how do i find|how do i open|how do i use|how can i find|how to
how do i get to|how does|how do
""")
"""What is done with a thing: left out only where the rest is one that a title has."""
AFTER: Final = _phrases("mean|means|do|work|for|about")
"""What may stand behind the thing that is asked for."""
