"""Which words of a clause are its verb: known verbs only, and only where nothing else in the clause could be it.

Belongs here: verbs. Does not belong here: what may be said without the rest of a sentence (`parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from rag_serving.answering.verification.words import Token, lemma

_VERB_WORDS = """
accept accompany acknowledge add adjust agree allocate allow announce answer appear apply approve archive arrive ask
assign attach avoid become begin belong block book bring build buy calculate calibrate call cancel carry change charge
check choose clean click close collect combine come commit compare complete compute confirm connect contain continue
copy cost count cover create decide declare deduct delete deliver depend deploy describe detect determine disable
disappear disconnect discuss display distribute download drop edit enable encrypt end engage ensure enter escalate
evaluate exceed exclude execute expire explain export extend fail fall fetch fill find finish follow forward get give
go grant halve handle hand happen hide hold hang identify ignore import improve include inform insert install invite
join keep know lag last launch lead leave let list load lock log look lose maintain make mark mean measure merge miss
monitor mount move mute name need notify obtain occur omit open order own pass paste pause pay perform pick place post
prepare press prevent process produce promote protect prove provide publish pull purge push put quit raise reach read
reboot receive recognize reconnect record recover reduce refer refresh refuse register reject release reload remain
remember remove rename renew repeat replace reply report request require resend reset resolve respond restart restore
resume retain retry return review revoke rise roll rotate run save scan schedule see select send serve set shift show
shut sign skip spend split stand start stay stop store submit supply support suspend switch sync take tell terminate
test throw transfer translate treat trigger try turn type unlock unmount update upgrade upload use validate verify
visit wait wake want warn wear withdraw work write
"""
_VERBS = frozenset(_VERB_WORDS.split())
_STATES_WORDS = "contain know hold mean stand remain stay belong depend need lag open close want cost"
_STATES = frozenset(_STATES_WORDS.split())
_DUTY_WORDS = """
submit return restart rebuild rotate forward report wear remove wait lock calibrate complete sign register finish
deliver pay shut switch wash confirm announce delete release
"""
_DUTIES = frozenset(_DUTY_WORDS.split()) | {"hand"}
_POINTERS_WORDS = "see visit join try find look discuss get give let read follow"
_POINTERS = frozenset(_POINTERS_WORDS.split())
_NOUNS_TOO_WORDS = """
answer approach block book break build call change charge check copy cost count cover display download drop end export
fall file fill force form guide hand hide hold hang import increase insert issue lag launch lead list load lock log look
loss make mark match measure move name need note open order own pass pause pay pick place post press process produce
project pull purge push raise reach read record release reload repeat replace reply report request reset rest result
return review rise roll rotate run save scan schedule search set shift show sign skip split stand start stay stop store
supply support switch sync take tell test throw transfer try turn type update upgrade upload use view visit wait wake
want work write
"""
_NOUNS_TOO = frozenset(_NOUNS_TOO_WORDS.split())
_NO_VERB_FOLLOWS_WORDS = "a an the this that these those every all no your our its their his her my to of in"
_NO_VERB_FOLLOWS = frozenset(_NO_VERB_FOLLOWS_WORDS.split())
_NO_VERB_FOLLOWS_WORDS = "on at for with from by into onto per without within during between under over"
_NO_VERB_FOLLOWS |= frozenset(_NO_VERB_FOLLOWS_WORDS.split())
_OBJECT_BEGINS_WORDS = "the a an your all every each its their our this these any no it them"
_OBJECT_BEGINS = frozenset(_OBJECT_BEGINS_WORDS.split())
_PREPOSITIONS_WORDS = "until for to in on at with from by into"
_PREPOSITIONS = frozenset(_PREPOSITIONS_WORDS.split())
_AUXILIARIES_WORDS = "is are was were has have had can may must should will would could might"
_AUXILIARIES = frozenset(_AUXILIARIES_WORDS.split())
_SUBORDINATORS_WORDS = "that which who whom whose where what how why if unless when while until before after"
_SUBORDINATORS = frozenset(_SUBORDINATORS_WORDS.split())
_SUBORDINATORS |= frozenset({"because", "since", "although", "once-done", "as-soon-as", "as-long-as", "only-if"})


def is_imperative(clause: Sequence[Token]) -> bool:
    """Return whether a clause orders: it begins with the base of a verb and its object, or with "do not" or "never"."""
    lower = [token.text.lower() for token in clause[:4]]
    if lower[:2] in (["do", "not"], ["don't", "don't"]) or lower[:1] == ["never"]:
        rest = clause[2:] if lower[0] != "never" else clause[1:]
        return bool(rest) and _base(rest[0]) in _VERBS
    if len(clause) < 2 or clause[0].kind not in ("word", "strict") or _base(clause[0]) not in _VERBS:
        return False
    if clause[0].text.split(" ")[0].lower() != _base(clause[0]):
        return False
    following = clause[1]
    if following.text.lower() in _PREPOSITIONS:  # "Wait until ...", but not "Access to production is ..."
        main = takewhile(lambda token: token.kind not in ("comma", "stop"), clause[1:])
        return not any(token.text.lower() in _AUXILIARIES or is_third_person(token) for token in main)
    return following.text.lower() in _OBJECT_BEGINS or following.kind == "name" or "_" in clause[0].key


def is_duty(order: Sequence[Token]) -> bool:
    """Return whether an order forbids, or tells to do what is no mere help or choice for its reader."""
    lower = [token.text.lower() for token in order[:2]]
    return lower[:1] == ["never"] or lower == ["do", "not"] or _base(order[0]) in _DUTIES


def is_advice(order: Sequence[Token]) -> bool:
    """Return whether an order at least advises: "See ..." and "Try ..." only point at something."""
    return _base(order[0]) not in _POINTERS


def is_action(token: Token) -> bool:
    """Return whether a word is a known verb that tells what is done, not how something is."""
    base = _base(token)
    return base in _VERBS and base not in _STATES and token.kind in ("word", "strict")


def finite_verb(clause: Sequence[Token]) -> int | None:
    """Return where the one word of a clause stands that can be its verb, or None where none or several can."""
    candidates = [at for at in range(1, len(clause)) if _can_be_verb(clause, at)]
    if any(token.text.lower() in _SUBORDINATORS for token in clause):
        return None
    return candidates[0] if len(candidates) == 1 else None


def is_third_person(token: Token) -> bool:
    """Return whether a word is a known verb with the ending of the third person: `renews`."""
    lower = token.text.split(" ")[0].lower()
    return token.kind in ("word", "strict") and lower.endswith("s") and lower != _base(token) and _base(token) in _VERBS


def is_second_predicate(tail: Sequence[Token]) -> bool:
    """Return whether words behind "and" begin with a verb of the third person that is no plural of a noun."""
    if not tail or not is_third_person(tail[0]):
        return False
    is_object_next = len(tail) > 1 and tail[1].text.lower() in _OBJECT_BEGINS
    return _base(tail[0]) not in _NOUNS_TOO or is_object_next


def _can_be_verb(clause: Sequence[Token], at: int) -> bool:
    token, before = clause[at], clause[at - 1]
    if token.kind not in ("word", "strict") or _base(token) not in _VERBS:
        return False
    return before.text.lower() not in _NO_VERB_FOLLOWS and before.kind in ("word", "name", "free")


def _base(token: Token) -> str:
    if token.kind == "strict":
        return lemma(token.text.split(" ")[0].lower())
    return token.key.partition("_")[0].partition("+")[0]
