"""What people type that asks nothing of the pages: greetings, thanks, complaints, commands, calls for help, tests.

A text is a remark only if all of it is made of such phrases, in English, German, French or Spanish, so that "hi, how
long is the notice period?" stays a question.

Belongs here: the phrases, greetings around a question, keys hit at random. Does not belong here: what is replied
(`answering.gates`), orders to a language model (`orders`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Literal

Remark = Literal["greeting", "thanks", "farewell", "complaint", "command", "help", "test", "noise"]

_LONGEST = 160  # characters: a longer text is more than a remark
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_SIGNS = re.compile(r"[_/\\=<>@#$%`\[\]{}|]|\d[^\W\d]|[^\W\d]\d|\w\.\w")  # of names, numbers and code

# Phrases without accents and punctuation. What is written with (…)? may be left out.
_ADDRESSED = "there|everyone|everybody|team|folks|guys|again|bot|assistant|citelock|zusammen|leute|alle|a tous|todos"
_GREETING = rf"""
(?:hi+|hello+|hey+|hiya|howdy|greetings|hallo+|hallochen|moin(?: moin)?|servus|grussi|gruss gott|gruezi|bonjour
|bonsoir|salut|coucou|hola|good (?:morning|afternoon|evening|day)|guten (?:morgen|tag|abend)
|buenos dias|buenas (?:tardes|noches))(?: (?:{_ADDRESSED}))?
|how are you(?: doing)?(?: today)?|how(?:'s| is) it going|wie geht(?:'?s| es)(?: (?:dir|ihnen|euch))?|ca va
|comment (?:allez vous|vas tu|ca va)|que tal|nice to meet you|(?:are you|is (?:anyone|anybody|someone)) there
|who are you|what are you|are you (?:a |an )?(?:bot|human|robot|ai)|wer bist du|qui es tu|quien eres
"""
_THANKS = """
(?:ok |okay |great |perfect )?(?:thanks|thank you|thankyou|thx|tysm|many thanks|thanks a lot|merci|danke|gracias)
(?: (?:so much|very much|a lot|a bunch|a million|in advance|again|anyway|for (?:that|this|everything|nothing|the info|
(?:your|the) (?:help|answer|reply))|beaucoup|bien|schon|sehr|dir|ihnen|euch|vielmals|im voraus))*
(?: (?:bot|all|everyone))?
|(?:that|it|this)(?:'s| is| was| has| did)?(?: really| very| very much| a lot| all)?
 (?:helped|helps|helpful|worked|works|great|perfect|awesome|useful|answers? (?:it|my question))
(?: (?:a lot|now|me|fine))*
|(?:i )?(?:really )?appreciate (?:it|that|your help)|much appreciated|cheers|got it|i see|understood|all good
|never ?mind|(?:good|great|nice) (?:job|bot|work|answer)|well done|awesome|great|perfect|okay|ok|lol|haha+|hm+
|vielen(?: lieben)? dank|besten dank|herzlichen dank|das hat(?: mir)?(?: sehr)? geholfen|alles klar|ca m'a aide|parfait
|muchas gracias|perfecto
"""
_FAREWELL = """
bye+(?: bye)?|good ?bye|see (?:you|ya|u)(?: (?:later|soon|tomorrow|around))?|good night|take care|cya|ciao
|have a (?:nice|good|great|lovely) (?:day|one|evening|weekend|night)|talk (?:to you )?(?:later|soon)
|tschu(?:ss|s)|auf wiedersehen|bis (?:bald|spater|morgen|dann)|gute nacht|schonen (?:tag|abend|feierabend)(?: noch)?
|au revoir|a (?:bientot|plus tard|plus|demain)|bonne (?:journee|soiree|nuit)|adios|hasta (?:luego|pronto|manana)
"""
_COMPLAINT = """
(?:it|this|that|everything|nothing|the (?:answer|reply)|your answer)(?:'s| is| was| seems)?(?: (?:still|all|completely|
totally|just|so|really|always))* (?:broken|wrong|incorrect|useless|false|nonsense|rubbish|stupid|terrible|bullshit|crap
|bad|a lie|not(?: (?:even|at all|really))? (?:working|right|true|correct|helpful
|what i (?:asked|meant|wanted)(?: for)?))(?: (?:again|at all|anymore))*
|(?:it|this|that|nothing)(?: still| just)? (?:doesn't|does not|didn't|did not|won't|isn't|is not|wasn't|doesnt|isnt)
(?: even)? (?:work|working|help|helping|right|correct|true|helpful|make (?:any )?sense|answer (?:my|the) question)
(?: (?:at all|anymore|again))*|nothing works|not (?:working|helpful|true|right|correct|what i (?:asked|meant|wanted))
|wrong(?: answer)?|you(?:'re| are) (?:wrong|useless|stupid|lying|not helping)|you (?:lie|suck)|this sucks|useless
|you (?:didn't|did not) (?:answer|help)(?: (?:me|my question))?|i (?:don't|do not) (?:understand|get it|believe you)
|bad (?:bot|answer)|wtf|omg|what the (?:hell|heck|fuck)|fuck(?: you| this)?|shit|damn|(?:please )?try again
|(?:es|das|nichts|alles)(?: ist)?(?: (?:immer noch|total|doch))? (?:kaputt|falsch|geht nicht|funktioniert nicht
|stimmt nicht|hilft nicht|nicht richtig|quatsch|unsinn|nicht wahr)|geht nicht|funktioniert nicht|stimmt nicht
|nichts (?:geht|funktioniert)(?: mehr)?|(?:ca|cela) ne (?:marche|fonctionne|va) pas|c'est (?:casse|faux|nul|pas (?:vrai
|ca|bon))|rien ne (?:marche|va plus)|no funciona(?: nada)?|esta (?:roto|mal)|eso es (?:falso|incorrecto|mentira)
"""
_ALL = r"""
(?:everything|it all|all of (?:it|them|this)|all(?: of)?(?: the| your| my| our| these)?
 (?:pages|docs|documents|articles)
|(?:the|this|your) (?:whole|entire) (?:wiki|index|database|documentation|site|thing)|this|that|it|them)
"""
_COMMAND = rf"""
(?:(?:can|could|will|would) you )?(?:delete|remove|erase|wipe|drop|destroy|purge|clear|summari[sz]e|translate|rewrite
|shorten|list|show|print|export|send|email|dump|reindex|index|read|open|download|repeat)(?: me)? {_ALL}
(?: (?:to me|for me|now|again|(?:in|into|to) (?:english|german|french|spanish|italian)))*
|(?:write|tell|give|sing)(?: me)? (?:a|an|another) (?:\w+ )?(?:poem|joke|story|song|haiku|limerick)(?: about(?: \w+)+)?
|make me (?:laugh|a sandwich)|start over|new (?:chat|conversation)|shut up|stop it|leave me alone|do something
|(?:loschen?|loesche|fasse?|ubersetze?|zeige?)(?: (?:mir|bitte))* (?:alles|alle (?:seiten|dokumente)|das)
(?: (?:zusammen|auf (?:deutsch|englisch)))?|erzahle?(?: mir)? (?:einen|nen) witz
|(?:supprimez?|effacez?|resumez?|traduis(?:ez)?) (?:tout|toutes les pages|tous les documents|ca)
|racontez?(?: moi)? une (?:blague|histoire)
|(?:borra|elimina|resume|traduce) (?:todo|todas las paginas|todos los documentos)
"""
_HELP = """
help(?: (?:me|us))?(?: out)?(?: (?:with|on) (?:this|that|it|something))?
|(?:can|could|will|would) (?:you|anyone|anybody|someone|somebody)(?: please)? help(?: (?:me|us))?(?: out)?
(?: (?:with|on) (?:this|that|it|something))?|(?:i )?(?:really )?need (?:some |your )?help
|i(?: have|'ve(?: got)?)(?: a| some)?(?: quick| short| small)? (?:questions?|problems?)|(?:quick |short )?question
|(?:can|may|could) i ask(?: you)?(?: (?:something|(?:a|one)(?: quick)? question))?
|what can (?:you|i) (?:do|ask(?: you)?|help(?: me)? with)(?: here)?|what do you (?:do|know)|how can you help(?: me)?
|(?:and )?how (?:does|do) (?:it|this|that|these|they|you) (?:all )?work
|how (?:do|can|should) i (?:use|do) (?:this|that|it)
|what (?:is|are|does|was) (?:this|that|it|these|those|they)(?: (?:about|for|do|mean|called))?|what's (?:this|that|it)
|why(?: not| is that)?|how(?: so)?|what(?: now| then| else| about it)?|when|where|who|and(?: then| now)?|so what|more
|tell me (?:more|something|everything|anything)|(?:please )?(?:go on|continue|explain(?: (?:it|this|that))?)|details
|i(?:'m| am) (?:stuck|lost|confused|new here)|i (?:don't|do not) know(?: what to (?:do|ask))?|what (?:should|can) i ask
|hilfe|(?:kannst du|konnen sie|kann (?:mir )?jemand)(?: (?:mir|uns|bitte))* helfen|ich brauche hilfe|helfen sie mir
|hilf mir|(?:ich habe )?(?:eine|mal eine) frage|was (?:kannst du|konnen sie)(?: (?:alles|tun|machen))*|was ist das
|wie (?:geht|funktioniert) (?:das|es)|warum|wieso|wie bitte
|(?:pouvez vous|peux tu|tu peux|vous pouvez) m'aider|aidez? moi|a l'aide|au secours|j'ai (?:besoin d'aide|une question)
|(?:comment )?(?:ca|cela) (?:marche|fonctionne)(?: comment)?|c'est quoi|pourquoi|que (?:peux tu|pouvez vous) faire
|ayuda|ayudame|puedes? ayudarme|(?:necesito ayuda)|(?:tengo )?una pregunta|como funciona(?: (?:eso|esto))?|por que
"""
_TEST = """
(?:just )?(?:test|testing)(?: (?:test|testing|123|1 2 3|one two three|message|question))*|(?:this is |just )?a test
|(?:das ist |nur )?ein test|(?:c'est )?un test|lorem ipsum(?: dolor sit amet)?|foo(?: bar(?: baz)?)?|bla(?: bla)*
"""
# Beside a phrase they add nothing; alone they may be what somebody looks for (`super`, `yes`, `nice`).
_FILLER = r"""
please|bitte|s'il (?:vous|te) plait|por favor|sorry|now|again|really|super|nice|cool|wow|oh|ah|well|yes|yeah|no|nope
|but|and|so|then|then|dear|my friend|mate|man|dude|jetzt|aber|doch|und|et|y|you|ok|okay|all
"""
_PHRASES: tuple[tuple[Remark, str], ...] = (
    ("command", _COMMAND),
    ("complaint", _COMPLAINT),
    ("help", _HELP),
    ("thanks", _THANKS),
    ("farewell", _FAREWELL),
    ("greeting", _GREETING),
    ("test", _TEST),
)
_OPENING = re.compile(
    r"\s*+(?:hi+|hello(?!\W{1,3}world)|hey|hiya|hallo|moin|bonjour|salut|hola|good (?:morning|afternoon|evening)"
    r"|guten (?:tag|morgen|abend)|thanks(?: a lot| so much)?|thank you(?: so much| very much)?|thx|danke|merci|gracias)"
    r"(?:,? (?:there|everyone|everybody|all|team|folks|guys|again|zusammen|leute|à tous))?"
    r"(?:\s*+(?:[,.!:;]++|(?<=\s)[–-](?=\s)|(?<=\n))\s*+|\s++(?=(?:how|what|who|when|where|why|which|can|could|do|does|is"
    r"|are|and|but|wie|was|wer|wann|wo|warum|und|comment|que|qui|quand|où|pourquoi|et)\b))(?:(?:and|but|und|et)\b,?\s++)?",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?<=[.?!])\s*+(?:many )?(?:thanks|thank you|thx|cheers|danke|vielen dank|merci|gracias)"
    r"(?: (?:a lot|so much|very much|in advance|im voraus|d'avance|everyone|all))?\W{0,9}\Z",
    re.IGNORECASE,
)
_OPENINGS = 3  # "Hi! Good morning, ..."
_ROWS = ("qwertyuiop", "qwertzuiopü", "azertyuiop", "asdfghjklöä", "qsdfghjklm", "zxcvbnm", "yxcvbnm", "wxcvbn")
_REPEATED = re.compile(r"(\w{1,3}?)\1{2,}\w?")


def remark_of(text: str) -> Remark | None:
    """Return what kind of remark a text is; None where any part of it could be asked of the pages."""
    if len(text) > _LONGEST or _SIGNS.search(text):
        return None
    said, found, at = plain_words(text), set[Remark](), 0
    while at < len(said):
        kind, end = _longest_phrase(said, at)
        if end == at:
            return None
        if kind:
            found.add(kind)
        at = end + 1
    return next((kind for kind, _ in _PHRASES if kind in found), None)


def without_greeting(text: str) -> str:
    """Return a question without greetings and thanks before it and thanks behind it."""
    bare = _CLOSING.sub("", text)
    for _ in range(_OPENINGS):
        bare = bare[opening.end() :] if (opening := _OPENING.match(bare)) else bare
    return bare if _WORD.search(bare) else text


def is_noise(text: str, is_word: Callable[[str], bool]) -> bool:
    """Return whether a text is keys hit at random: letters of one row, or one syllable again and again.

    Some words look so (`property`, `alfalfa`): `is_word` says of words in lower case which of them are some.
    """
    words = plain_words(text[: _LONGEST + 1]).split()
    if not words or len(text) > _LONGEST or _SIGNS.search(text):
        return False
    return all(map(_is_mashed, words)) and not any(map(is_word, words))


def _is_mashed(word: str) -> bool:
    return len(word) > 3 and (any(_is_typed_along(word, row) for row in _ROWS) or bool(_REPEATED.fullmatch(word)))


def _is_typed_along(word: str, row: str) -> bool:
    """Return whether a word has only letters of one row of keys, three of them in their order there."""
    return set(word) <= set(row) and any(word[at : at + 3] in row for at in range(len(word) - 2))


def plain_words(text: str) -> str:
    """Return the words of a text in lower case without accents, a space between them."""
    bare = unicodedata.normalize("NFKD", text.casefold().replace("’", "'"))
    letters = "".join(char for char in bare if not unicodedata.combining(char))
    return " ".join(_WORD.findall(letters))


def _longest_phrase(said: str, at: int) -> tuple[Remark | None, int]:
    """Return the kind and the end of the longest phrase that begins at a place; where none does, that place."""
    kind: Remark | None = None
    end = at
    for of, pattern in _patterns():
        if (match := pattern.match(said, at)) and match.end() > end:
            kind, end = of, match.end()
    return kind, end


@cache
def _patterns() -> tuple[tuple[Remark | None, re.Pattern[str]], ...]:
    every: tuple[tuple[Remark | None, str], ...] = (*_PHRASES, (None, _FILLER))
    return tuple((kind, re.compile(rf"(?:{phrases.replace(chr(10), '')})(?= |\Z)")) for kind, phrases in every)
