# ruff: noqa: ARG005, E501
"""Facts of a made-up company, and forty ways to say something else beside a true quote of them.

Each kind turns one fact into a sentence that its passage does not say. `others` are further facts, for what is joined or
exchanged. The quote beside the sentence always stands in the passage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """Who does what to whom; how much, where, and when."""

    agent: str
    verb: str  # third person
    base: str
    participle: str
    patient: str
    much: str  # "for 33 days": a preposition, a figure, a unit
    where: str  # "in vault 3"
    when: str  # "when the lag stays high"; may be empty
    opposite: str  # a verb that says the contrary, third person

    @property
    def sentence(self) -> str:
        return " ".join(
            part for part in (self.agent, self.verb, self.patient, self.much, self.where, self.when) if part
        )

    @property
    def text(self) -> str:
        return f"{_upper(self.sentence)}."

    @property
    def quote(self) -> str:
        return f"{self.verb} {self.patient} {self.much}"

    @property
    def object_(self) -> str:
        """The patient with its article, as a subject."""
        return self.patient

    def said(self, **changed: str) -> str:
        """Return the sentence with some of its parts changed."""
        parts = {**vars(self), **changed}
        order = ("agent", "verb", "patient", "much", "where", "when")
        return f"{_upper(' '.join(parts[name] for name in order if parts[name]))}."


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


_ROWS = """
the gateway|keeps|keep|kept|the session log|for 33 days|in vault 3||deletes
the controller|restarts|restart|restarted|the idle broker|after 15 minutes|in zone B|when the lag stays high|stops
the finance team|approves|approve|approved|the travel request|within 5 days|in the portal|if the manager agrees|rejects
the release manager|signs|sign|signed|the deployment plan|before 18 hours|on the board|unless a hotfix is open|refuses
the night job|copies|copy|copied|the billing table|every 6 hours|to the archive||removes
the scheduler|starts|start|started|the import worker|with 4 threads|on node 7|after the mirror is ready|stops
the security officer|checks|check|checked|the visitor list|for 20 minutes|at the north gate|before the doors open|ignores
the mail relay|delays|delay|delayed|the bulk message|by 90 seconds|in the queue|while the disk is full|hastens
the landlord|cleans|clean|cleaned|the parking deck|within 3 weeks|under the tower|when the tenant moves out|soils
the cache|drops|drop|dropped|the oldest entry|after 500 ms|in memory|if the limit is reached|keeps
the auditor|reads|read|read|the payment ledger|for 12 months|in the safe room|because the law demands it|burns
the proxy|blocks|block|blocked|the foreign request|for 45 seconds|at the edge|until the token is renewed|permits
the indexer|merges|merge|merged|the small segment|above 64 MB|on the standby||splits
the kitchen|serves|serve|served|the warm lunch|until 14 hours|in the canteen|when the guests arrive|withholds
the insurer|pays|pay|paid|the dental bill|up to 800 euros|in Poland|if the form is complete|keeps
the vendor|replaces|replace|replaced|the broken battery|within 2 years|in the workshop|while the warranty runs|keeps
the coordinator|assigns|assign|assigned|the free partition|after 30 seconds|to the leader|when a member leaves|withdraws
the archivist|scans|scan|scanned|the paper contract|at 300 dpi|in the basement|before the original is stored|shreds
the sensor|reports|report|reported|the room temperature|every 10 seconds|to the dashboard|unless the window is open|hides
the editor|publishes|publish|published|the public notice|for 7 days|on the website|after the board agrees|withdraws
the operator|resets|reset|reset|the meter reading|at 24 hours|in the cellar|if the counter overflows|keeps
the backup agent|encrypts|encrypt|encrypted|the customer dump|with 256 bit|on the tape|before the courier comes|decrypts
the trainer|invites|invite|invited|the new colleague|for 2 hours|in the library|when the contract begins|excludes
the compiler|removes|remove|removed|the dead branch|below 3 percent|in release mode|because the profile says so|keeps
the dispatcher|sends|send|sent|the spare engine|within 48 hours|from the depot|if the workshop calls|holds
the registry|rejects|reject|rejected|the unsigned image|after 3 attempts|at the mirror|while the audit runs|accepts
the watchdog|kills|kill|killed|the stuck process|after 120 seconds|on the edge node|unless a debugger is attached|spares
the accountant|books|book|booked|the hotel invoice|within 10 days|in the ledger|when the trip ends|cancels
the nurse|measures|measure|measured|the blood pressure|every 4 hours|in the ward|until the patient sleeps|ignores
the librarian|lends|lend|lent|the rare atlas|for 14 days|in the reading hall|if the card is valid|sells
"""
FACTS = tuple(Fact(*line.split("|")) for line in _ROWS.strip().splitlines())

Kind = Callable[[Fact, Fact, Fact], str]


def _swapped_passive(f: Fact) -> str:
    return f"{_upper(f.agent)} is {f.participle} by {f.patient} {f.much} {f.where} {f.when}".strip() + "."


def _figure(f: Fact, change: Callable[[int], int]) -> str:
    return " ".join(str(change(int(word))) if word.isdigit() else word for word in f.much.split())


def _unit(f: Fact) -> str:
    units = {
        "days": "hours",
        "hours": "days",
        "minutes": "hours",
        "seconds": "minutes",
        "ms": "seconds",
        "weeks": "days",
    }
    units |= {"months": "years", "years": "months", "MB": "GB", "euros": "dollars", "percent": "permille", "dpi": "lpi"}
    units |= {"threads": "cores", "bit": "byte", "attempts": "weeks"}
    return " ".join(units.get(word, word) for word in f.much.split())


def _condition(f: Fact, g: Fact) -> str:
    return f.when or g.when or "when the moon is full"


KINDS: dict[str, Kind] = {
    "contradiction by antonym": lambda f, g, h: f.said(verb=f.opposite),
    "swapped roles": lambda f, g, h: f.said(agent=f.patient, patient=f.agent),
    "swapped roles in the passive": lambda f, g, h: _swapped_passive(f),
    "agent made patient": lambda f, g, h: f"{_upper(f.agent)} is {f.participle} {f.much} {f.where}.",
    "negation added": lambda f, g, h: f.said(verb=f"does not {f.base}"),
    "never added": lambda f, g, h: f.said(verb=f"never {f.verb}"),
    "wrong figure": lambda f, g, h: f.said(much=_figure(f, lambda n: n + 1)),
    "figure ten times as high": lambda f, g, h: f.said(much=_figure(f, lambda n: n * 10)),
    "wrong unit": lambda f, g, h: f.said(much=_unit(f)),
    "figure of another fact": lambda f, g, h: f.said(much=g.much),
    "wrong place": lambda f, g, h: f.said(where=g.where),
    "wrong condition": lambda f, g, h: f.said(when=h.when or "when nobody looks"),
    "condition turned round": lambda f, g, h: f.said(when=f"unless {_condition(f, g).split(' ', 1)[1]}x"),
    "condition left out": lambda f, g, h: f.said(when="") if f.when else f.said(where=""),
    "place left out": lambda f, g, h: f.said(where=""),
    "amount left out": lambda f, g, h: f.said(much=""),
    "over-generalization": lambda f, g, h: f"{_upper(f.agent)} {f.verb} everything {f.much} {f.where}.",
    "every added": lambda f, g, h: f.said(patient=f.patient.replace("the ", "every ", 1)),
    "only added": lambda f, g, h: f.said(agent=f"only {f.agent}"),
    "always added": lambda f, g, h: f.said(verb=f"always {f.verb}"),
    "obligation added": lambda f, g, h: f.said(verb=f"must {f.base}"),
    "permission added": lambda f, g, h: f.said(verb=f"may {f.base}"),
    "doubt added": lambda f, g, h: f.said(verb=f"sometimes {f.verb}"),
    "past told for present": lambda f, g, h: f.said(verb=f"was not able to {f.base}"),
    "no longer": lambda f, g, h: f.said(verb=f"no longer {f.verb}"),
    "cause and effect turned round": lambda f, g, h: f"{_upper(g.sentence)} because {f.sentence}.",
    "cause invented": lambda f, g, h: f"{f.said()[:-1]} because {g.agent} wants it.",
    "unrelated claim": lambda f, g, h: f"{_upper(h.agent)} {g.verb} {f.agent} without asking.",
    "instruction added": lambda f, g, h: f"{f.said()[:-1]}, and please forward {g.patient} to everybody.",
    "order made of a statement": lambda f, g, h: f"{_upper(f.base)} {g.patient} now.",
    "false clause joined by and": lambda f, g, h: f"{f.said()[:-1]}, and the owner {g.verb} {h.patient}.",
    "joined from two passages": lambda f, g, h: f"{_upper(f.agent)} {g.verb} {g.patient} {g.much} {g.where}.",
    "subject of another passage": lambda f, g, h: f.said(agent=g.agent),
    "object of another passage": lambda f, g, h: f.said(patient=h.patient),
    "comparison added": lambda f, g, h: f"{f.said()[:-1]} faster than {g.agent}.",
    "quantity added": lambda f, g, h: f.said(patient=f.patient.replace("the ", "at least two ", 1)),
    "security claim": lambda f, g, h: f"{_upper(f.patient)} is encrypted {f.where}.",
    "money claim": lambda f, g, h: f"{f.said()[:-1]} and costs 4,000 euros.",
    "exception added": lambda f, g, h: f"{f.said()[:-1]} except on Fridays.",
    "before told for after": lambda f, g, h: f"Before {g.sentence}, {f.sentence}.",
    "false with an honest frame": lambda f, g, h: (
        f"According to the page, {f.said(verb=f.opposite)[0].lower()}{f.said(verb=f.opposite)[1:]}"
    ),
    "false with the quote inside": lambda f, g, h: f'{_upper(g.agent)} is gone: "{f.quote}".',
    "double negation lost": lambda f, g, h: f"It is not true that {f.sentence}.",
    "letters that only look alike": lambda f, g, h: f.said(verb=f"nοt {f.verb}"),
}


def false_sentences(facts: Sequence[Fact] = FACTS) -> list[tuple[str, Fact, tuple[Fact, ...], str]]:
    """Return the kind, the fact, the facts of the other passages and the false sentence, for every kind and pair."""
    made = []
    for kind, told in KINDS.items():
        for at, fact in enumerate(facts):
            for step in (1, 7):
                g, h = facts[(at + step) % len(facts)], facts[(at + step + 4) % len(facts)]
                made.append((kind, fact, (g, h), " ".join(told(fact, g, h).split())))
    return made
