"""What each rule of verification lets through, and lies that are built against that rule.

Every rule is one row: a passage, a sentence that says the same, and sentences that misuse the rule. Each is filled with
the words of several trades, so that no rule rests on a word.
"""

from __future__ import annotations

import pytest

from rag_serving.answering.verification.support import Sentences, supported

# The words of a trade: a thing, another, a person, a verb (base, third person, participle), a state.
TRADES = [
    ("broker", "gateway", "operator", ("check", "checks", "checked"), "idle"),
    ("parcel", "letter", "courier", ("deliver", "delivers", "delivered"), "heavy"),
    ("invoice", "receipt", "clerk", ("sign", "signs", "signed"), "late"),
    ("pump", "valve", "fitter", ("replace", "replaces", "replaced"), "hot"),
    ("lesson", "exam", "teacher", ("move", "moves", "moved"), "empty"),
]
# rule: passage | sentence | lies
RULES = {
    "relative clause for condition": (
        "A {x} that is {state} is {done} by the {who}.",
        ["If a {x} is {state}, it is {done} by the {who}.", "A {x} is {done} by the {who} if it is {state}."],
        [
            "If a {y} is {state}, it is {done} by the {who}.",
            "If a {x} is not {state}, it is {done} by the {who}.",
            "A {x} is {state} if it is {done} by the {who}.",
            "If a {x} is {done} by the {who}, it is {state}.",
            "Unless a {x} is {state}, it is {done} by the {who}.",
            "A {x} is {done} by the {who}.",
            "Every {x} is {state} and is {done} by the {who}.",
        ],
    ),
    "consequence as reason": (
        "The {x} is {state}, so the {y} was {done} by the {who}.",
        ["The {y} was {done} by the {who} because the {x} is {state}."],
        [
            "The {x} is {state} because the {y} was {done} by the {who}.",
            "The {y} was {done} by the {who}, so the {x} is {state}.",
            "The {x} was {done} by the {who} because the {y} is {state}.",
            "The {y} was {done} by the {who} although the {x} is {state}.",
        ],
    ),
    "needed": (
        "A {x} is needed for the {y}.",
        ["The {y} needs a {x}.", "The {y} requires a {x}.", "A {x} is required for the {y}."],
        ["The {x} needs a {y}.", "A {y} is needed for the {x}.", "No {x} is needed for the {y}.", "The {y} is a {x}."],
    ),
    "only by": (
        "Only the {who} may {do} the {x}.",
        ["The {x} may be {done} only by the {who}.", "The {x} may only be {done} by the {who}."],
        [
            "The {who} may only {do} the {x}.",
            "Only the {x} may be {done} by the {who}.",
            "The {x} may be {done} by the {who}.",
            "Only the {x} may {do} the {who}.",
            "The {x} must be {done} only by the {who}.",
            "The {x} may not be {done} by the {who}.",
        ],
    ),
    "not unless": (
        "The {x} is not {done} unless the {y} is {state}.",
        ["The {x} is {done} only if the {y} is {state}.", "The {x} is only {done} if the {y} is {state}."],
        [
            "The {x} is {done} if the {y} is {state}.",
            "The {x} is {done} unless the {y} is {state}.",
            "The {x} is not {done} if the {y} is {state}.",
            "The {y} is {done} only if the {x} is {state}.",
            "Only the {x} is {done} if the {y} is {state}.",
            "The {x} is {done}.",
        ],
    ),
    "contrast": (
        "The {x} is {done} by the {who} rather than by the owner.",
        ["The {x} is {done} by the {who}, rather than by the owner."],
        [
            "The {x} is {done} by the owner rather than by the {who}.",
            "The {x} is not {done} by the {who} but by the owner.",
            "The {x} is {done} by the {who} and by the owner.",
        ],
    ),
    "order of a duty": (
        "Do not {do} the {x} by hand.",
        [
            "You must not {do} the {x} by hand.",
            "The {x} must not be {done} by hand.",
            "You should not {do} the {x} by hand.",
        ],
        [
            "You must {do} the {x} by hand.",
            "You can {do} the {x} by hand.",
            "You need not {do} the {x} by hand.",
            "You must not {do} the {y} by hand.",
            "You must not {do} the {x}.",
            "The {x} is never {done}.",
        ],
    ),
    "advice": (
        "Try to ask the {who} if the {x} is {state}.",
        [],
        ["You must ask the {who} if the {x} is {state}.", "The {x} must be {state}.", "You must try the {x}."],
    ),
    "never": (
        "The {who} never {does} the {x}.",
        ["The {who} does not {do} the {x}."],
        ["The {who} {does} the {x}.", "The {who} does not {do} the {y}.", "The {x} never {does} the {who}."],
    ),
    "not turned into never": (
        "The {who} does not {do} the {x}.",
        [],
        ["The {who} never {does} the {x}.", "The {who} no longer {does} the {x}.", "The {who} cannot {do} the {x}."],
    ),
    "once": (
        "After the {y} has been {done}, the {who} opens the {x}.",
        ["Once the {y} has been {done}, the {who} opens the {x}."],
        [
            "As soon as the {y} has been {done}, the {who} opens the {x}.",
            "Before the {y} has been {done}, the {who} opens the {x}.",
            "Once the {x} has been {done}, the {who} opens the {y}.",
            "Once the {who} opens the {x}, the {y} has been {done}.",
            "The {who} opens the {x} once.",
            "After you {do} the {y}, the {who} opens the {x}.",
        ],
    ),
    "by default": (
        "The default limit is 20 and the {x} is {done} by the {who}.",
        [],
        [
            "By default the {x} is {done} by the {who}.",
            "The limit is 20 and the {x} is {done} by the {who} by default.",
            "The limit is 20.",
            "The limit is always 20.",
        ],
    ),
    "default of a noun": (
        "Default {x}s are never {done} by the {who}.",
        [],
        ["{x}s are never {done} by the {who} by default.", "By default {x}s are {done} by the {who}."],
    ),
    "adverb": (
        "Automatically {done} {x}s reach the {y} on Monday.",
        [],
        ["{done} {x}s automatically reach the {y} on Monday.", "{done} {x}s reach the {y} automatically on Monday."],
    ),
    "adverb beside its participle": (
        "The {x} is automatically {done} by the {who}.",
        ["The {x} is {done} automatically by the {who}.", "The {x} is {done} by the {who} automatically."],
        ["The {x} is manually {done} by the {who}.", "The {who} is automatically {done} by the {x}."],
    ),
    "attribute and predicate": (
        "Every {x} that is {done} automatically can be opened by the {who}.",
        [],
        ["Every {x} that is {done} can be opened automatically by the {who}.", "The {who} can open every {x}."],
    ),
    "comparison": (
        "A {x} larger than 30 cm is {done} by the {who}; a {x} longer than 90 cm is {state}.",
        ["A {x} greater than 30 cm is {done} by the {who}."],
        [
            "A {x} longer than 30 cm is {done} by the {who}.",
            "A {x} larger than 90 cm is {state}.",
            "A {x} smaller than 30 cm is {done} by the {who}.",
            "A {x} of at least 30 cm is {done} by the {who}.",
        ],
    ),
    "rate": (
        "The {who} {does} at most 20 {x}s a day and two {y}s a week.",
        ["The {who} {does} at most 20 {x}s per day and two {y}s per week."],
        [
            "The {who} {does} at most 20 {x}s per week and two {y}s per day.",
            "The {who} {does} at least 20 {x}s per day and two {y}s per week.",
            "The {who} {does} 20 {x}s per day.",
            "The {who} {does} two {x}s a week.",
        ],
    ),
    "purpose": (
        "To open the {x}, {do} the {y} by hand.",
        ["You open the {x} by {doing} the {y} by hand.", "You can open the {x} by {doing} the {y} by hand."],
        [
            "You {do} the {y} by opening the {x} by hand.",
            "To {do} the {y}, open the {x} by hand.",
            "You can {do} the {y} by hand.",
            "You must open the {x} by hand.",
        ],
    ),
    "predicates of one subject": (
        "The {who} {does} the {x} and renews the {y} unless the owner objects.",
        ["The {who} renews the {y} unless the owner objects."],
        [
            "The {who} {does} the {x}.",
            "The {who} renews the {y}.",
            "The {who} renews the {x} unless the owner objects.",
            "The owner renews the {y}.",
        ],
    ),
    "objects are no predicates": (
        "The page lists the {x} and reports of the {who}.",
        [],
        ["The page reports of the {who}.", "The page lists reports.", "The {x} reports of the {who}."],
    ),
    "explanation behind a colon": (
        "The {who} claims one thing: the {x} is {state}. We tested a case: every {y} is {done} by the {who}.",
        [],
        ["The {x} is {state}.", "Every {y} is {done} by the {who}.", "The {y} is {state}."],
    ),
    "future": (
        "The {who} {does} the {x} in May.",
        [],
        ["The {who} will {do} the {x} in May.", "The {who} is going to {do} the {x} in May.", "The {who} {done} it."],
    ),
    "when and if": (
        "The {who} decides when the {x} is {done}.",
        [],
        ["The {who} decides if the {x} is {done}.", "If the {x} is {done}, the {who} decides."],
    ),
}
CASES = [(rule, trade) for rule in RULES for trade in TRADES]


def filled(template: str, trade: tuple[str, str, str, tuple[str, str, str], str]) -> str:
    x, y, who, (do, does, done), state = trade
    doing = f"{do.removesuffix('e')}ing"
    text = template.format(x=x, y=y, who=who, do=do, does=does, done=done, doing=doing, state=state)
    return text[:1].upper() + text[1:]


@pytest.mark.parametrize(("rule", "trade"), CASES, ids=[f"{rule}-{trade[0]}" for rule, trade in CASES])
def test_a_rule_lets_through_what_says_the_same_and_no_lie(rule, trade) -> None:  # type: ignore[no-untyped-def]
    passage, same, lies = RULES[rule]
    cited = [(1, Sentences(filled(passage, trade)))]
    for sentence in same:
        assert supported(filled(sentence, trade), cited), filled(sentence, trade)
    for lie in lies:
        for question in ("", f"{filled(lie, trade).rstrip('.')}?"):
            assert supported(filled(lie, trade), cited, question) is None, filled(lie, trade)


def test_there_are_enough_lies() -> None:
    assert sum(len(lies) for _, _, lies in RULES.values()) * len(TRADES) >= 400


# Sentences that were carried once, found by changing sentences at random.
@pytest.mark.parametrize(
    ("passage", "lie"),
    [
        ("If a request is clearly abusive, it may be refused.", "If a request is abusive, it may be clearly refused."),
        ("A request may be refused if it is clearly abusive.", "A request clearly may be refused if it is abusive."),
        ("Environment variables are not part of the hash.", "Environment hashes are not part of the variables."),
        ("A file that is sent automatically can be deleted.", "A file that is sent can be deleted automatically."),
        ("Files in May can be deleted.", "Files can be deleted in May."),
        ("A doctor's note is required from the fourth day on.", "A doctor is required from the fourth day on."),
        ("The clerk asks for the manager.", "The clerk asks the manager."),
        ("Ana said that the move is finished.", "Ana said that the move will be finished."),
    ],
)
def test_a_change_that_was_carried_once_is_not_any_more(passage: str, lie: str) -> None:
    assert supported(lie, [(1, Sentences(passage))]) is None
