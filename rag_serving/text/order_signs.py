"""Signs of which every order to an assistant has one: most texts have none, and need not be searched for all orders.

The patterns of all orders take 0.05 s to make; these are made and searched in a fraction of that.

Belongs here: the signs. Does not belong here: the orders (`order_words`, `order_languages`), where an order must stand
(`orders`). A pattern that is added there needs its sign here: `tests/text/test_order_signs.py` finds one without.
"""

from __future__ import annotations

import re

from rag_serving.text.order_words import phrase

_STEMS = """
ignor disregard forget forgot overrid overrul bypass overlook neglect dismiss disobey circumvent violat abandon unlearn
discard nevermind aside attention prompt instru above preceding henceforth pretend roleplay simulat impersonat imitat
mimic jailbreak unrestricted uncensored
vergiss vergess missacht überschreib umgeh verwirf beachte befolge anweisung agier verhalte antworte
oubli contorn contourn tiens tenez comport réponds parle olvid olvíd omite omiso desobed elude mensaje finge
esque desconsid finja faça você dimentic trascur seguire scavalca aggira tenere istruzion rispondi parla fingi finta
immagina negeer vergeet omzeil overschrijf alsof gedraag antwoord zapomnij pomiń omiń przestrz zachowuj odpowiadaj
udawaj wyobraź jesteś glöm glem bortse strunta låtsas talimat kural komut yönerge quên abaikan lupakan
"""
_RULES = (
    r"(?:rules|guidelines|programming|restriction|constraint|limitation|guardrail|safeguard|safety|persona|ethics"
    r"|directive)"
)
_PHRASES = phrase(
    r"never mind|throw (?:away|out)|get rid|let go|take no notice|prior to|before (?:this|that)"
    r"|(?:not|t|dont|never|stop|quit|cease|longer|from|to) (?:follow|obey|listen|heed|apply|adher|comply|respect|stick"
    r"|abid|care )"
    r"|(?:your|ur|its)\b"
    rf"|(?:yr|thy|system|developer|assistant's|previous|prior)\W.{{0,80}}?{_RULES}"
    r"|you (?:are|re|were|now|have|don't)\b|now on\b|starting now|of now|dear |stop (?:being|acting|behav)"
    r"|(?:act|acting|behave|behaving|function|operate|respond|answer|reply|speak|talk|write)"
    r"(?: (?:now|only|solely|always|exactly|just|to me)){0,2} (?:as|like)\b"
    r"|role play|dan\b|god\b|anything now|system override|developer mode"
    r"|(?:on|adopt|play|assume)\W.{0,60}?(?:persona|character|identity|(?:role|part) of)"
    r"|(?:reply|answer|respond|say)(?: only)? that\b"
    r"|(?:answer|respond|reply)\W.{0,80}?(?:without|regardless|despite)"
    r"|(?:not|t|dont|never|stop|to) (?:cite|citing|use|using|quote|quoting|give|giving|mention|reveal|repeat|disclose)"
    r"|(?:note|message) (?:to|for)\b|(?:told|taught|asked)\b.{0,40}?drop|game (?:where|in)\b"
    # other languages
    r"|halte dich|ne suis|no sigas|não siga|volg niet|se bort|(?:ton|votre|le|tes|vos) (?:invite|consignes|message)"
    r"|(?:swój|twój|swoje|twoje) system|system\w{0,5} system"
    r"|tu so|gib vor|stell dir|die rolle|handle als|du bist|agi[rs]|fais(?:ons)? (?:comme|semblant)|imagin[ea] que"
    r"|joue le|tu es\b|vous êtes|como\b|haz|eres\b|sei\b|je bent|speel de|som\b|du är"
)
_OTHER_LETTERS = r"[\u0370-\u1fff\u3000-\ud7ff\uf900-\ufffd\U00010000-\U0010ffff]"
_EVERY_STEM = tuple(_STEMS.split())
_SIGNS = re.compile(rf"\b(?:{_PHRASES})|{_OTHER_LETTERS}", re.DOTALL)


def has_sign(text: str) -> bool:
    """Return whether a text in lower case has a sign without which it holds no order to an assistant."""
    return any(stem in text for stem in _EVERY_STEM) or _SIGNS.search(text) is not None
