"""Questions that nothing answers: the same question without its pages, and questions with one part replaced.

Belongs here: what may be replaced, and by what; being sure that no section says it.
Does not belong here: questions that can be answered.

No section may hold all words of such a question, nor the replaced part with half of the others: what is left are
sections that speak of nearly the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from evals.training.pairs import Pair
from evals.training.table_questions import is_column
from evals.training.wiki import Wiki, content_terms, plain, shape_of
from rag_serving.text.units import cells_of

UNANSWERABLE = "unanswerable"
MOST_REMOVED = 8  # pages
PER_PAIR = 2
_TRIES = 12
_NUMBER = re.compile(r"(?<![\w.])v?\d+(?:\.\d+)*(?![\w.]*\d)|(?<=[A-Z]-)\d+")
_HOW = re.compile(r"^(how do I )(\w+)( .+)$")
_ASKS = re.compile(r"(?:how|can|where|do|does|is|are|may|should|when)\b", re.IGNORECASE)
_LONG = 10  # words of a question that takes no further condition
_JOINED = re.compile(r"(\w+\..*\w|\w+-\w+\.\w+|\w+)(\.)([A-Za-z]{2,})")
_NOUNS = ("e", "y", "r", "n", "t", "l")  # last letters of what is rather a noun in the singular
_PROPERTY = re.compile(r"^(what is the |)(.+?)( (?:of|for) .+)$")
_VERB_WORDS = """
archive automate benchmark clone delete disable encrypt export import migrate monitor rename restore schedule share
test uninstall upgrade
"""
_VERBS = tuple(_VERB_WORDS.split())
_PROPERTIES = (
    "price", "owner", "deadline", "size limit", "licence", "author", "retention period", "port number", "default",
    "approval date", "backup schedule", "error code", "time zone", "maximum", "timeout", "version", "format",
)  # fmt: skip
_CONDITIONS = (
    "on Windows", "on a Mac", "on ARM", "with Terraform", "with Ansible", "with Podman", "on FreeBSD", "in Python 2",
    "over VPN", "in Australia", "in Portugal", "for contractors", "for interns", "from a phone", "during a strike",
    "on Azure", "on a Raspberry Pi", "with Oracle", "with MongoDB", "behind a firewall", "at the weekend",
    "offline", "without root", "in Spanish", "with COBOL", "with Perl", "for WebAssembly", "on Android", "with OpenSSL",
)  # fmt: skip
_SIBLINGS = (
    "Norway Sweden Denmark Finland Poland Germany France Spain Portugal Italy Korea Japan Netherlands Belgium Ireland",
    "Linux Windows macOS Android iOS FreeBSD Ubuntu Debian",
    "Java Scala Python Rust C++ Go Ruby PHP Kotlin Haskell Perl",
    "Postgres PostgreSQL MySQL Oracle MongoDB SQLite Cassandra Redis",
    "AWS Azure GCP S3 HDFS Kubernetes Docker YARN Mesos Nomad",
    "JSON XML YAML Avro Protobuf Thrift Parquet ORC",
    "dog dogs cat cats parrot",
    "car bicycle train plane taxi bus ferry",
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "Slack Teams Zoom Telegram email fax",
    "Kafka Flink Pulsar RabbitMQ Spark Storm Beam",
)


def removed(wiki: Wiki, pair: Pair) -> Pair | None:
    """Return the same question where the pages that may answer it do not exist; None where these would be many."""
    terms = content_terms(pair.question)
    may = wiki.holding(terms)
    if len(terms) > 3:
        may = may | wiki.holding_most(terms)
    group = wiki.groups[pair.page_id]
    pages = {page for page, own in wiki.groups.items() if own == group} | {wiki.page_of[section] for section in may}
    if not terms or len(pages) > MOST_REMOVED:
        return None
    return replace(_unanswerable(pair), source="removed", without=tuple(sorted(pages)))


def near_misses(wiki: Wiki, pair: Pair, seed: int = 0) -> list[Pair]:
    """Return a few questions that differ from the pair's in one part and that no section answers."""
    chance = random.Random(f"{seed}:{pair.id}")
    found: list[Pair] = []
    for name, replacements in _REPLACEMENTS.items():
        for question, part in replacements(wiki, pair, chance):
            if is_unsaid(wiki, question, part):
                found.append(replace(_unanswerable(pair), question=question, source="near_miss", replaced=name))
                break
    return chance.sample(found, min(PER_PAIR, len(found)))


def is_unsaid(wiki: Wiki, question: str, part: str) -> bool:
    """Return whether no section holds all terms of a question, nor a part of it with half of the others."""
    terms, own = content_terms(question), content_terms(part)
    others = [term for term in terms if term not in own]
    if not own or not others or wiki.holding(terms):
        return False
    return all(
        2 * sum(term in wiki.terms[section] for term in others) < len(others) + 1 for section in wiki.holding(own)
    )


def _unanswerable(pair: Pair) -> Pair:
    return replace(pair, kind=UNANSWERABLE, answerable=False, facts=(), answer="", also=(), superseded=())


def _other_number(_: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Another number or version of the same shape."""
    found = list(_NUMBER.finditer(pair.question))
    if not found:
        return
    match = chance.choice(found)
    for _attempt in range(_TRIES):
        other = re.sub(r"\d+", lambda digits: _number_like(digits[0], chance), match[0])
        question = pair.question[: match.start()] + other + pair.question[match.end() :]
        word = _word_at(question, match.start())
        if other != match[0]:
            yield question, word


def _word_at(text: str, place: int) -> str:
    """Return the word that holds a character."""
    return re.split(r"\s", text[:place])[-1] + re.split(r"\s", text[place:])[0]


def _number_like(digits: str, chance: random.Random) -> str:
    low = 10 ** (len(digits) - 1)
    return str(chance.randrange(low, low * 10))


def _other_row(wiki: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """The name of a row of another page's table in place of this one's."""
    if pair.source != "table":
        return
    row = re.sub(r"\s*\(.*\)$", "", plain(cells_of(pair.answer)[0]))
    columns = {column for key, column, page in wiki.row_keys if key == row and page == pair.page_id}
    others = (each for each in wiki.row_keys if each[2] != pair.page_id and each[0].lower() != row.lower())
    kind = _kind_of(row)
    is_identifier = kind[0] == "dotted" or (kind[0] and kind[1])
    pool = [key for key, column, _ in others if _kind_of(key) == kind and (is_identifier or column in columns)]
    if row and row in pair.question and pool:
        for other in chance.sample(pool, min(_TRIES, len(pool))):
            yield pair.question.replace(row, other, 1), other


def _kind_of(key: str) -> tuple[str, bool, bool]:
    """Return what makes the name of a row like another: how it is written, digits, more words than one."""
    return shape_of(key.split()[0]), any(char.isdigit() for char in key), " " in key


def _other_part(wiki: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """A dotted name whose last part is that of another one."""
    words = pair.question.split()
    places = [place for place, word in enumerate(words) if _JOINED.fullmatch(_bare(word))]
    pool = wiki.last_parts
    if not places or not pool:
        return
    place = chance.choice(places)
    own = _bare(words[place])
    first, sign, _ = _JOINED.fullmatch(own).groups()  # type: ignore[union-attr]
    for last in chance.sample(pool, min(_TRIES, len(pool))):
        other = f"{first}{sign}{last}"
        if not wiki.knows(other.lower()):
            yield " ".join([*words[:place], words[place].replace(own, other), *words[place + 1 :]]), other


def _other_name(wiki: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """A name of the same shape from another page; never a word of the page's own title."""
    words = pair.question.split()
    title = set(content_terms(pair.title))
    shapes = {
        place: shape_of(word) for place, word in enumerate(words) if place and not set(content_terms(word)) & title
    }
    places = [place for place, shape in shapes.items() if _bare(words[place]) in wiki.names_by_shape.get(shape, ())]
    if not places:
        return
    place = chance.choice(places)
    own = _bare(words[place])
    pool = [name for name in wiki.names_by_shape[shapes[place]] if name.lower() != own.lower()]
    for other in chance.sample(pool, min(_TRIES, len(pool))):
        yield " ".join([*words[:place], words[place].replace(own, other), *words[place + 1 :]]), other


def _sibling(_: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Another country, system, language … in place of one."""
    words = pair.question.split()
    for place, word in enumerate(words):
        names = next((names.split() for names in _SIBLINGS if _bare(word) in names.split()), [])
        for other in chance.sample(names, len(names)):
            if other != _bare(word):
                yield " ".join([*words[:place], word.replace(_bare(word), other), *words[place + 1 :]]), other


def _condition(_: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """One more condition, of which the wiki says nothing here."""
    if _ASKS.match(pair.question) and pair.source in ("heading", "faq") and len(pair.question.split()) < _LONG:
        for condition in chance.sample(_CONDITIONS, _TRIES):
            yield f"{pair.question.rstrip('?')} {condition}", condition


def _other_verb(_: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Another thing to do with the same object."""
    if match := _HOW.match(pair.question):
        for verb in chance.sample(_VERBS, _TRIES):
            if verb != match[2]:
                yield f"{match[1]}{verb}{match[3]}", verb


def _other_property(wiki: Wiki, pair: Pair, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Another property of the same thing."""
    match = _PROPERTY.match(pair.question)
    if match and pair.source in ("table", "key_value"):
        pool = [*_PROPERTIES, *(name for name in wiki.columns if is_column(name) and name.split()[-1].endswith(_NOUNS))]
        for other in chance.sample(pool, min(_TRIES, len(pool))):
            if other != match[2]:
                yield f"{match[1]}{other}{match[3]}", other


def _bare(word: str) -> str:
    return word.strip("?,.:;()\"'“”‘’`")


_REPLACEMENTS: dict[str, Callable[[Wiki, Pair, random.Random], Iterator[tuple[str, str]]]] = {
    "number": _other_number,
    "row": _other_row,
    "part": _other_part,
    "name": _other_name,
    "sibling": _sibling,
    "verb": _other_verb,
    "property": _other_property,
    "condition": _condition,
}
"""Name what may be replaced, and what yields the question with another one, and that one."""
