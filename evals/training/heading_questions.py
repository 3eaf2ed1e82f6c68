"""Headings as questions: "Installing Docker" asks how to install Docker, and its section answers.

Belongs here: which headings ask something, and what. Does not belong here: other wordings (`rewordings`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from evals.training.pairs import Pair
from evals.training.wiki import OF_A_TEMPLATE, Section, Wiki, content_terms, key_of, plain

_VERBS = """
access add adjust allow apply approve assign authenticate avoid back book bootstrap build bump call cancel change
check choose claim clean clear clone close collect combine commit compare compile compute configure connect consume
contribute control convert copy create customize cut debug decide declare define delegate delete deploy describe
design detect determine develop disable distribute document download drop edit enable encrypt ensure enter escalate
evaluate execute expand export extend fetch filter find fix follow format generate get give grant handle hide
implement import improve include increase initialize inspect install instantiate integrate invoke iterate join keep
launch list listen load log maintain make manage match measure merge migrate mix model modify monitor mount move name
open optimize order organize override pass pay perform pick place plan prepare prevent print process produce propagate
provide publish pull push query quit raise read rebase rebuild receive recover reduce refactor reference register
release reload remove rename replace replay report request require reset resize resolve restart restore restrict
retrieve retry return revert review rewrite roll rotate run save scale schedule search secure select send separate
serve set share show shut sign skip specify split start stop store structure submit subscribe switch tag take tell
terminate test track transfer trigger troubleshoot try tune turn understand uninstall unlock update upgrade upload use
validate verify view wait watch work wrap write
"""
_DOUBLED_WORDS = "get set run put stop plan log quit submit shut split cut begin commit map drop debug wrap tag"
_DETERMINER_WORDS = "a an the your our their its my up down out off to with back from into for in on all any"
_EMPTY_WORDS = """
summary introduction overview contents conclusion references links notes appendix example examples details misc
discussion other general background more resources faq todo comments history changelog title untitled page
"""
_DOUBLED = frozenset(_DOUBLED_WORDS.split())
_DETERMINERS = frozenset(_DETERMINER_WORDS.split())
_PREFIX = re.compile(
    r"^(?:(?:step|part|chapter|q|question|faq|phase)\s*\d*\s*[.:)-]\s*"
    r"|\d+[.:)]+\s+|\d+(?:\.\d+)*\s+(?!release|version|series|to\b|and\b)|[A-Z][.)]\s+)+",
    re.IGNORECASE,
)
ASKING = re.compile(
    r"^(?:how (?:do|does|can|should|is|are|to|many|much|long|often)\b|what(?:'s|’s)? |why |when |where |which |who "
    r"|(?:can|do|does|did|is|are|should|will|must|may) (?:i|we|you|the|a|an|my|it|there|[A-Z]\w*)\b)",
    re.IGNORECASE,
)
_OPENING = re.compile(r"^how (?:to|(?:do|can|should) (?:i|we|you)) ", re.IGNORECASE)
_KINDS = (
    (re.compile(r"^(?:how (?:to|do i|do we|do you|can|should))\b", re.I), "steps"),
    (re.compile(r"^why\b", re.I), "why"),
    (re.compile(r"^what(?:'s| is| are)\b", re.I), "definition"),
    (re.compile(r"^(?:can|do|does|did|is|are|should|will|must|may)\b", re.I), "yes_no"),
)
_EMPTY = frozenset(_EMPTY_WORDS.split())
_SUBJECT_KEY = re.compile(r"[A-Z]{2,}-\d+")
_DEFINED = re.compile(r"(?:(an?|the)\s+)?(.{2,60}?)\s+(is|are)\s+(?:an?|the|one|how|what|any)\b", re.IGNORECASE)
_STATUS = re.compile(r"\b(?:status|current state)$", re.IGNORECASE)
_FINITE = re.compile(r"\s(?:is|are|was|does|that)\s", re.IGNORECASE)  # what is behind is a sentence, not an object
_WORD = re.compile(r"[A-Za-z]{3}")
_NO_OBJECTS = frozenset({"of", "and", "is", "are", "vs", "or", "for", "in", "to", *_EMPTY})
_NOUNS_TOO = frozenset({"process", "test", "build", "plan", "monitor", "log", "schedule"})  # "Processing guarantees"
_FEWEST_WORDS = 8  # of a section that says something
_MOST_NAMED = 7  # words of a heading that is asked for as it is
_MOST_OF_A_TEMPLATE = 2  # sections with a heading of the template that a page may ask for
_COMMON = 6  # other pages with a section that holds all words of a question
_LONGEST = 160  # characters
_MOST_WORDS = 16


class Asked(NamedTuple):
    """A question with its kind and whether it says enough to be asked alone."""

    question: str
    kind: str


def gerund(verb: str) -> str:
    """Return the -ing form of a verb."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ing"


_BY_GERUND = {gerund(verb): verb for verb in _VERBS.split()}
IMPERATIVE = frozenset(_VERBS.split())


def asked_by(heading: str) -> Asked | None:
    """Return what a heading asks: a question, a how-to; None where it only names something."""
    said = without_number(heading)
    if not 2 <= len(said.split()) <= _MOST_WORDS or not re.search(r"[A-Za-z]{3}", said):
        return None
    if said.endswith("?") or ASKING.match(said):
        return _as_question(said)
    first, rest = said.split(maxsplit=1)
    second = rest.split()[0].lower()
    verb = _BY_GERUND.get(first.lower())
    is_noun = verb in _NOUNS_TOO and " " not in rest
    if verb and second not in _NO_OBJECTS and not is_noun and not _FINITE.search(rest):
        return Asked(f"how do I {verb} {rest}", "steps")
    if first.lower() in IMPERATIVE and second in _DETERMINERS:
        return Asked(f"how do I {first.lower()} {rest}", "steps")
    return None


def _as_question(said: str) -> Asked | None:
    opening = _OPENING.match(said)
    if opening and opening[0].lower() == "how to ":
        said = f"how do I {said[opening.end() :]}"
    if len(said.split()) < 3:
        return None
    return Asked(said, next((kind for pattern, kind in _KINDS if pattern.match(said)), "value"))


def base_of(word: str) -> str:
    """Return the verb that a word in lower case is a form of, as headings begin with it; empty for others."""
    return word if word in IMPERATIVE else _BY_GERUND.get(word, "")


def is_gerund(word: str) -> bool:
    """Return whether a word in lower case is the -ing form of a verb that headings begin with."""
    return word in _BY_GERUND


def heading_pairs(wiki: Wiki) -> Iterator[Pair]:
    """Yield the questions of a wiki's headings: those that ask, those whose section defines them, those that name
    something, as keywords."""
    of_template: Counter[str] = Counter()
    for section in wiki.sections:
        if wiki.headings[key_of(section.heading)] >= OF_A_TEMPLATE:
            of_template[section.page_id] += 1
        if not is_telling(section) or of_template[section.page_id] > _MOST_OF_A_TEMPLATE:
            continue
        if asked := asked_by(section.heading):
            pair = _asking(wiki, section, asked)
        elif definition := defined_by(section):
            question, sentence = definition
            pair = pair_of(wiki, section, lowered(question, wiki.names), "definition", answer=sentence)
        else:
            pair = _named(wiki, section)
        if pair:
            yield pair


def is_telling(section: Section) -> bool:
    """Return whether a section says something: 8 words or more beside headings."""
    said = (plain(unit.of(section.text)) for unit in section.units if unit.kind != "heading")
    return sum(len(text.split()) for text in said) >= _FEWEST_WORDS


def defined_by(section: Section) -> tuple[str, str] | None:
    """Return the question that the section's first sentence answers by defining its heading, and the sentence."""
    first = section.units[0]
    sentence = plain(first.of(section.text))
    match = _DEFINED.match(sentence) if first.kind == "sentence" else None
    if not match or not 4 <= len(sentence.split()) <= 60 or len(match[2].split()) > 5:
        return None
    if set(content_terms(match[2])) != set(content_terms(section.heading)):
        return None
    article = "" if (match[1] or "").lower() in ("", "the") else f"{match[1].lower()} "
    return f"what {match[3].lower()} {article}{match[2]}", first.of(section.text)


def _asking(wiki: Wiki, section: Section, asked: Asked) -> Pair | None:
    question = lowered(asked.question, wiki.names)
    if is_ambiguous(wiki, section, question) or is_common(wiki, section, question):
        question = with_subject(section, question)
    return pair_of(wiki, section, question, asked.kind) if question else None


def _named(wiki: Wiki, section: Section) -> Pair | None:
    """Return the heading as keywords; one of a page's template with the name of its page."""
    heading = without_number(section.heading)
    terms, words = content_terms(heading), heading.split()
    if not terms or not 1 <= len(words) <= _MOST_NAMED or not _WORD.search(heading):
        return None
    if len(section.path) > 1 and (len(terms) < 2 or wiki.headings[key_of(section.heading)] > 1):
        subject = subject_of(section.title)
        if not subject or set(terms) & set(content_terms(subject)) or heading.lower() in _EMPTY:
            return None
        heading = f"{subject} {heading}"
    question = lowered(heading, wiki.names)
    if is_ambiguous(wiki, section, question) or heading.lower() in _EMPTY:
        return None
    is_status = _STATUS.search(heading)
    return pair_of(wiki, section, question, "status" if is_status else "one_word" if len(words) < 3 else "value")


def without_number(heading: str) -> str:
    """Return a heading without its number; empty where it is too long to ask for anything."""
    return _PREFIX.sub("", heading).strip(" :.-–—") if len(heading) <= _LONGEST else ""


def with_subject(section: Section, question: str) -> str:
    """Return the question with the name of its page; empty where it has none, or says it already."""
    subject = subject_of(section.title)
    says_it = set(content_terms(subject)) <= set(content_terms(question))
    return "" if says_it else f"{question.rstrip('?')} in {subject}"


def is_common(wiki: Wiki, section: Section, question: str) -> bool:
    """Return whether a question has one topical word, or sections of many other pages hold all its words."""
    terms, group = content_terms(question), wiki.groups[section.page_id]
    others = {wiki.groups[wiki.page_of[other]] for other in wiki.holding(terms)} - {group}
    return len(terms) < 2 or len(others) > _COMMON


def is_ambiguous(wiki: Wiki, section: Section, question: str) -> bool:
    """Return whether the headings above another page's section hold all words of a question as well."""
    terms, group = set(content_terms(question)), wiki.groups[section.page_id]
    holding = (other for other in wiki.holding(terms) if wiki.groups[wiki.page_of[other]] != group)
    return not terms or any(terms <= wiki.path_terms[other] for other in holding)


def subject_of(title: str) -> str:
    """Return a page's title as people name it: its key, or all of it where it is short; empty where it is long."""
    title = plain(title)
    if match := _SUBJECT_KEY.match(title):
        return match[0]
    title = re.split(r"\s+[–—|-]\s+|:\s", title)[0].rstrip("?")
    return title if len(title.split()) <= 6 else ""


def lowered(question: str, names: frozenset[str]) -> str:
    """Return a question in lower case but for names, and what has digits, signs or capitals inside."""
    return " ".join(_lowered(word, names) for word in question.split())


def _lowered(word: str, names: frozenset[str]) -> str:
    bare = word.strip("?,.:;()\"'“”‘’")
    is_title = bare[:1].isupper() and bare[1:].islower()
    if word == "A" or (is_title and bare.lower() not in names):
        return word.lower()
    return word


def pair_of(wiki: Wiki, section: Section, question: str, kind: str, *, answer: str = "") -> Pair:
    """Return a pair whose target is a section."""
    return Pair(
        question=question,
        kind=kind,
        source="heading",
        corpus=wiki.name,
        page_id=section.page_id,
        anchor=str(section.row["anchor"] or ""),
        heading=section.heading,
        section_id=section.id,
        title=plain(section.title),
        answer=answer,
        group=wiki.groups[section.page_id],
        also=tuple(place_of(wiki.by_id[twin]) for twin in sorted(wiki.twins.get(section.id, ()))),
    )


def place_of(section: Section) -> tuple[str, str, str]:
    """Return page, anchor and heading of a section."""
    return section.page_id, str(section.row["anchor"] or ""), section.heading
