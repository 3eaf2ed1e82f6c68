"""The signature of a question: what must be equal in two wordings for the answer of one to be given to the other.

Belongs here: reading a question's words in their order, with what may differ folded away. Does not belong here: the
answers that are kept by it (`answers`), what the words mean to the search (`query.parsing`).

Neighbourhood of vectors does not tell 2.8 from 3.8, billing from payments or enable from disable: such pairs are as
near to each other as honest rewordings (`python -m evals.bench.semantic_cache`). So whatever can change an answer
stays, in order: figures with their units, names and codes, negations and opposites, question words, tense,
prepositions, every other word. Folded away is what cannot: greetings and polite openings, case, punctuation, articles,
contractions, regular plurals, some pairs of words that are one, "the Y's X" for "the X of the Y". A doubt is a miss,
which costs a search, and never a wrong answer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from rag_serving.query.operators import read_signs
from rag_serving.text.analyzer import STOP_WORDS, stems
from rag_serving.text.figures import SPELLED
from rag_serving.text.normalization import folded
from rag_serving.text.question_types import is_claim, kind_of
from rag_serving.text.small_talk import without_greeting

LONGEST = 400
"""Characters; a longer question is no common one, and has no signature."""

_PIECE = re.compile(r"\w+(?:[.,:/@&+#'_-]+\w+)*(?:\+\+|#)?%?|[^\s\w]")
_NO_WORD = frozenset("?!.,;:'()[]*`-\"")
_WE = r"(?:i|we|you|one|people|users?|someone|anyone|somebody|anybody)"
_PERIOD = r"how (?:long|many (?:minutes|hours|days|weeks|months|years))\b"
_QUESTION = r"(?=(?:for )?(?:what|which|who|whom|whose|when|where|why|how)\b)"
_YOU = r"(?:you|someone|anyone|somebody|anybody)(?: here)?"
# Openings that ask for no more than what follows them; matched again and again at the beginning.
_POLITE = re.compile(
    r"(?:please|kindly|(?:quick |a |short )*question|so|ok|okay|well|hmm?)\b[\s,:.!-]{0,9}(?=\w)"
    rf"|(?:can|could|would|will|do|does) {_YOU}(?: please)?(?: happen to)? (?:tell|show|explain|know)"
    rf"(?: to)?(?: me| us)?,?\s{_QUESTION}"
    rf"|(?:tell|show|remind|explain to) (?:me|us),?\s{_QUESTION}|explain\s{_QUESTION}"
    rf"|(?:i|we)(?: would|'d) (?:like|love) to know,?\s|(?:i|we) (?:want|need) to know,?\s"
    rf"|i(?: was|'m| am) (?:just )?wondering,?\s{_QUESTION}",
    re.IGNORECASE,
)
_MOST_OPENINGS = 4
_CLOSING = re.compile(r"(?<![\s,])[\s,]{1,9}(?:please|pls)[\s.!?]{0,9}\Z", re.IGNORECASE)
_HOW_TO = re.compile(
    rf"(?:how (?:do|can|could|would) {_WE}(?: go about)?|how to"
    r"|what(?:'s| is| are) the (?:steps?|procedure|process|way|instructions) (?:to|for|of)"
    r"|what steps (?:do i need|are needed) to|(?:the )?(?:steps|instructions|procedure) (?:to|for))\s(?=\w)",
    re.IGNORECASE,
)
_REWORDED = tuple(
    (re.compile(pattern, re.IGNORECASE), other)
    for pattern, other in (
        (r"^(what|who|where|when|how|which) (.{1,200}) (is|are|was|were)[?.!]{0,3}\Z", r"\1 \3 \2"),
        (r"^what(?:'s| is) the reason (?:for|why)\s", "why is "),
        (r"^(?:for what reason|how come)\s", "why "),
        (r"^(?:at )?what time (?=(?:do|does|did|is|are|was|were|will|can|must|should)\b)", "when "),
        (r"^what(?:'s| is) the (?:length|duration) of\s", "how long is "),
        (rf"^for (?={_PERIOD})", ""),
        (rf"^({_PERIOD} .{{1,300}}?)\sfor[?.!]{{0,3}}\Z", r"\1"),
        (rf"^(?:(?:is|would) it (?:be )?possible (?:for (?:me|us|{_WE}) )?|(?:am i|are we) able )to\s", "can i "),
        (r"^is it possible for (.{1,200}?) to\s", r"can \1 "),
        (r"^what(?:'s| is) the location of\s", "where is "),
        (r"^(?:tell me|what can you tell me) about\s", "what is "),
        (r"^where (is|are) (.{1,200}) located[?.!]{0,3}\Z", r"where \1 \2"),
    )
)
_FRONTED = re.compile(r"^((?:in|on|at|for|during|under) [^,?]{1,80}), ([^,?]{3,300})[?.!]{0,3}\Z", re.IGNORECASE)
_GENITIVE = re.compile(
    r"(?<![\w'.-])(?:the |an? )?([a-z][a-z-]{1,40}) of (?:the |an? )?([\w.+#-]{1,60})[?.!]{0,3}\Z", re.IGNORECASE
)
_POSSESSIVE = re.compile(r"(?<=[a-z0-9])'s(?= \w)", re.IGNORECASE)
_CONTRACTED = tuple(
    (re.compile(pattern, re.IGNORECASE), other)
    for pattern, other in (
        (r"\b(what|who|where|when|how|why|that|it|there)'s\b", r"\1 is"),
        (r"\b(what|who|where|when|how|why)'re\b", r"\1 are"),
        (r"\bcan(?:'t|not)\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\b([a-z]{2,6})n't\b", r"\1 not"),
        (r"\b(i|we|you|they)'ve\b", r"\1 have"),
        (r"\be-mail", "email"),
    )
)
_ARTICLES = frozenset({"a", "an", "the"})
# Pairs, of which the second is the one form.
_PAIRS = """
is be|are be|am be|been be|does do|has have|were was|whom who|we i|my our|your our
max maximum|min minimum|config configuration|docs documentation|repo repository|admin administrator|app application
info information|db database|spec specification|directory folder|telephone phone|picture photo
begin start|choose select|buy purchase|dept department|org organization|organisation organization
approx approximately|vs versus|colour color|licence license|centre center
"""
_ONE_FORM = dict(pair.split() for line in _PAIRS.strip().splitlines() for pair in line.split("|"))
# Words that are no plurals, or whose plural is another word.
_SINGULAR = """
news goods customs securities means arms minutes contents premises damages remains glasses forces savings earnings
proceeds headquarters series species works terms windows papers quarters grounds manners morals letters effects always
across access address canvas business sales rights odds thanks dues spirits holdings brains looks colors yours ours hers
theirs perhaps sometimes besides towards afterwards
"""
_NO_PLURALS = frozenset(_SINGULAR.split())
# Words that are others with a capital letter: months, first names, products, German's polite form.
_CAPITAL = """
may march august will mark bill frank rose grace hope dean grant chase jack rob sue art gene drew wade guy jean pat
turkey china polish nice reading mobile apple oracle shell target visa word teams team slack zoom excel outlook
notes drive sheets meet chat forms pages numbers keynote python java rust go swift ruby spark flink storm hive beam
puppet chef salt vault consul nomad packer terraform docker helm flux argo istio envoy linkerd concourse travis buddy
sie ihr ihre ihrem ihren ihrer ihres ihnen
"""
_CASE_TELLS = frozenset(_CAPITAL.split())
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_ENDS_LIKE_ONE = re.compile(r"(?:ss|us|is|as|os|ics)\Z")


def signature_of(question: str) -> tuple[str, ...] | None:
    """Return what must be equal for two questions to have one answer; None where nothing but the same text may have
    it: one with operators (`space:OPS`, "quoted words"), without words, or longer than `LONGEST`.
    """
    if len(question) > LONGEST:
        return None
    signs = read_signs(question)
    if signs.filters or signs.phrases:
        return None
    text, is_steps = _opened(" ".join(folded(question).split()))
    kind = "claim" if is_claim(text) else "steps" if is_steps else kind_of(text.rstrip(" ?"))
    words = tuple(_canonical(text, is_steps))
    return (kind, *words) if any(any(map(str.isalnum, word)) for word in words) else None


def digest_of(signature: tuple[str, ...]) -> bytes:
    """Return a digest of a signature: no text of a question is kept."""
    return hashlib.sha256("\0".join(signature).encode("utf-8", "surrogatepass")).digest()


def _opened(text: str) -> tuple[str, bool]:
    """Return a question without what only opens and closes it, and whether it asks how something is done."""
    text = _CLOSING.sub("", without_greeting(text))
    for _ in range(_MOST_OPENINGS):
        text = text[match.end() :] if (match := _POLITE.match(text)) else text
    if match := _FRONTED.match(text):
        text = f"{match[2]} {match[1]}"
    for pattern, other in (*_CONTRACTED, *_REWORDED):
        text = pattern.sub(other, text)
    opening = _HOW_TO.match(text)
    return (text[opening.end() :], True) if opening else (text, False)


def _canonical(text: str, is_steps: bool) -> Iterator[str]:
    """Yield the words of a question that count, in order, each in its one form."""
    text = _GENITIVE.sub(r"\2 \1", _POSSESSIVE.sub("", text))
    is_loud = text.isupper()
    for place, match in enumerate(_PIECE.finditer(text)):
        piece = match[0]
        if not piece[0].isalnum() and piece[0] != "_":
            if piece not in _NO_WORD or _is_sign(text, match.start()):
                yield piece
        elif is_steps and place == 0 and piece.isalpha() and piece.isascii():
            yield stems([_ONE_FORM.get(piece.lower(), piece.lower())])[0]
        elif form := _form(piece, place > 0 and not is_loud):
            yield form


def _is_sign(text: str, at: int) -> bool:
    """Return whether a dot or a hyphen belongs to what follows: `-5`, `.NET`."""
    return text[at] in ".-" and text[at + 1 : at + 2].isalnum() and not text[max(0, at - 1) : at].strip()


def _form(word: str, is_case_told: bool) -> str:
    """Return the one form of a word, empty where it does not count; `is_case_told`: its capital letter says
    something."""
    lower = word.lower()
    is_name = is_case_told and word[0].isupper() and lower != "i"
    if is_name and lower in STOP_WORDS and (word.isupper() or lower in _ARTICLES):
        return word  # IT, US and vitamin A
    if is_name and lower in _CASE_TELLS:
        return word
    if lower in _ARTICLES:
        return ""
    if any(map(str.isdigit, lower)):
        return lower.replace(",", "") if _GROUPED.fullmatch(lower) else lower
    if lower in SPELLED and lower not in ("one", "million", "dozen", "twice"):
        return SPELLED[lower]
    lower = _ONE_FORM.get(lower, lower)
    return lower if is_name or not lower.isascii() else _singular(lower)


def _singular(word: str) -> str:
    """Return a word in lower case without the regular ending of a plural or a third person."""
    if len(word) < 4 or not word.endswith("s") or word in _NO_PLURALS or _ENDS_LIKE_ONE.search(word):
        return word
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "shes", "xes", "tches")) else word[:-1]
