"""The words that build clauses: auxiliary and modal verbs, what stands before a main clause, what binds or limits.

Belongs here: closed classes of words. Does not belong here: verbs that tell something (`verbs`), orders (`clauses`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_serving.answering.verification.words import Token, is_negative

_BE_FORMS = "is are am be been being was were"
_MODAL_VERBS = "can could may might must shall should would"
_FRONTING = """
if unless when while until before after since because although whereas once-done as to in on at for by with from into
onto over under above below between within during through per without as-soon-as as-long-as in-case because-of due-to
instead-of rather-than even-if only-if beyond even except excepting where by-default
"""
_BINDING_WORDS = """
must shall should may might can could would ought need require optional mandatory forbid forbidden if unless when while
until before after only except although but otherwise whether provided only-if even-if in-case as-long-as as-soon-as
instead-of rather-than sometimes usually often rarely seldom typically normally generally no false
"""
BE, MODALS = frozenset(_BE_FORMS.split()), frozenset(_MODAL_VERBS.split())
AUXILIARIES = frozenset({"is", "are", "was", "were", "has", "have", "had", "cannot", "can't", "will", *MODALS})
"""Words that begin a predicate."""
_BINDING = frozenset(_BINDING_WORDS.split())
FRONTED = frozenset(_FRONTING.split())


def binds(token: Token) -> bool:
    """Return whether a token changes what the words around it claim: negation, modality, condition, exception."""
    return token.kind == "strict" and (is_negative(token) or token.key in _BINDING)


def is_auxiliary(token: Token) -> bool:
    """Return whether a token begins a predicate: a form of "be" or "have", or a modal verb."""
    return token.text.lower() in AUXILIARIES or token.key in MODALS


def subject_before_auxiliary(clause: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens before the first auxiliary of a clause; none where it has none or where it begins with one."""
    end = next((at for at, token in enumerate(clause) if is_auxiliary(token)), 0)
    return clause[:end]


def governs(tokens: Sequence[Token]) -> bool:
    """Return whether what these words introduce holds only with them: `Do not:`, `If the vault is sealed:`."""
    return any(map(binds, tokens)) or (
        bool(tokens) and tokens[0].key in FRONTED - {"to", "in", "on", "at", "for", "with"}
    )
