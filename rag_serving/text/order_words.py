"""The words of orders to an assistant, in English: what they begin with, what is to be ignored, told, or acted.

A space stands for any gap between words. Everything that repeats is bounded, so that a search is linear in the text.

Belongs here: patterns. Does not belong here: where an order must stand to be one (`orders`), other languages
(`order_languages`).
"""

from __future__ import annotations

_ANY_GAP = r"[^\w?]{1,6}"


def phrase(pattern: str) -> str:
    """Return a pattern on one line, whose spaces stand for any gap between words."""
    return pattern.replace("\n", "").replace(" ", _ANY_GAP)


# What an order may begin with.
OPENERS = phrase(r"""
(?:(?:please|pls|plz|kindly|hey|hi|hello|dear|ok|okay|now|just|simply|first|then|next|also|and|but|so|well|right
|listen
|attention|important|urgent|system|assistant|ai|bot|chatbot|chatgpt|gpt|claude|gemini|llama|citelock|admin|user
|developer|note|warning|for a moment|for now|for once|completely|entirely|totally|fully|immediately|always|again
|actually|instead|finally|therefore|hereby|henceforth|from now on|step \d)\W{1,6}){0,6}
""")
YOU = phrase(r"""
(?:(?:(?:can|could|would|will|won't|do|may|might|must|should|shall) (?:you|ya|u)(?: please| kindly| just| mind){0,2}
|you (?:must|should|shall|will|can|may|have to|need to|are to|ought to|had better)
|you are (?:now |hereby )?(?:instructed|ordered|told|required|asked|free|allowed|permitted|supposed|commanded) to
|i(?: am|'m|'d| would)?(?: now| hereby| just)? (?:want|need|order|command|ask|urge|instruct|tell|like|asking|telling
|request|require|expect|allow|authorize|permit)(?: for)? you(?: to)?
|let's|let us|feel free to|make sure to|be sure to|try to|remember to|(?:it is |it s )?time to|be so kind as to
|your (?:new |next |only |first )?(?:task|job|goal|mission|role|duty) is to|how about
|i'd appreciate it if you)\W{1,6})?
""")

_RULES = r"""
(?:instruct\w{0,6}|prompts?|rules?|guidelines?|guidance|directions?|directives?|orders?|commands?|programming
|training
|constraints?|restrictions?|limitations?|safeguards?|guardrails?|persona|ethics|protocols?|safety)
"""
_CORE = r"""
(?:instructions?|prompts?|rules|guidelines|programming|restrictions|constraints|limitations|guardrails|safeguards
|safety|persona|ethics|directives?)
"""
_TEXT = r"(?:context|messages?|conversation|passages?|text|content|configuration|filters?|policy|policies|settings)"
_YOUR = r"(?:your|ur|yr|thy|its|the system|the developer|the assistant's|system|developer)"
_KIND = (
    r"(?:(?:own|current|original|initial|previous|prior|earlier|system|safety|content|internal|hidden"
    r"|default) ){0,3}"
)
_ALL = r"(?:(?:all|any|every|each|of|the|these|those|my|your|ur|its|their|other|both|such|said|about) ){0,4}"
_EARLIER = r"""
(?:(?:previous|previously|prior|above|preceding|earlier|foregoing|former|past|aforementioned|original|initial|system
|existing|current|given|stated|old|other|following|future|and|or) ){1,4}
"""
_AT_ITS_END = r"(?=\W{0,4}(?:\Z|[.,;:!?)\]\n]|and\b|then\b|but\b))"

_YOUR_RULES = rf"(?:all |any |about |every ){{0,1}}(?:of )?{_YOUR} {_KIND}(?:{_RULES}|{_TEXT})"
_EARLIER_RULES = rf"{_ALL}{_EARLIER}(?:{_RULES}|{_TEXT})"
_RULES_ABOVE = (
    rf"{_ALL}(?:{_RULES}|{_TEXT}) (?:above|so far|(?:that )?(?:came before|i gave you|you (?:were"
    rf"|have been) given))"
)
_ALL_RULES = rf"(?:all|any|every|each)(?: of)?(?: the| these| those| your| my)? {_RULES}"
_WHAT_WAS_TOLD = r"""
(?:everything|anything|all|what|whatever|things)(?: that| which| what)?
 (?:i|you|we|they|the (?:system|developer|admin\w{0,10}|user|prompt|company)|has|have|was|were|is|had)
(?: (?:have|has|had|were|was|are|been|being|just|ever|already|previously|originally|initially|ve|d|re)){0,4}
 (?:told|said|given|taught|instructed|asked|trained|know|knew|learned|learnt|wrote|written|programmed|shown|prompted
|ordered|configured|mentioned)\b
"""
_THE_ABOVE = rf"""
(?:all|everything|anything|whatever|the|that|this)(?: of the| the)?(?: text| words| content| stuff)?
(?: (?:that|which|is|was|came|went|comes|written|said|stated)){{0,3}}
 (?:above|aforementioned|foregoing|before (?:this|that)|(?:previous|prior|before|earlier|preceding){_AT_ITS_END})
"""
_IGNORE = r"""
(?:ignor(?:e|es|ed|ing)|disregard(?:s|ed|ing)?|forget(?:s|ting)?|forgot(?:ten)?|overrid(?:e|es|ing)|overrule
|bypass(?:es|ing)?|overlook(?:ing)?|neglect(?:ing)?|dismiss(?:ing)?|disobey(?:ing)?|circumvent(?:ing)?|violat(?:e
|ing)
|abandon(?:ing)?|unlearn|discard(?:ing)?|nevermind|never mind|set aside|put aside|throw (?:away|out)|get rid of
|let go of
|pay no attention to|take no notice of|(?:do not|don't|dont|never|stop|quit|cease|no longer|refrain from
|you don't (?:have|need) to|you need not|no need to) (?:follow|following|obey|obeying|listen to|listening to|heed
|heeding|apply|applying|adhere to|comply with|respect|stick to|abide by|care about))
(?: (?:please|now|just|simply|kindly|completely|totally|entirely|fully)){0,2}
"""
_CHANGE = r"""
(?:skip|drop|delete|erase|clear|wipe|reset|remove|break|cancel|void|suspend|disable|deactivate|lift|relax|change
|replace
|rewrite|modify|turn off|switch off)
"""
_TELL = r"""
(?:reveal|show|print|repeat|output|leak|display|disclose|expose|dump|echo|type|quote|recite|tell|give|share|write
|list
|copy|send|provide|return|spell|summari[sz]e|paraphrase|translate|explain|describe|read|revealing|showing|printing
|repeating|what(?:'s| is| are| was| were)|whats)
(?: (?:me|us|out|back|to me|to us|exactly|verbatim|all|of|everything about|in full|again|with me
|word for word)){0,4}
"""
_FULL = r"""
(?:(?:full|entire|exact|complete|original|initial|hidden|secret|internal|underlying|first|whole|current|own|raw
|actual
|system|developer|base) ){0,4}
"""
_NOT_OF_ANOTHER = r"(?! (?:of|for|in|on|from|format|template|file|page|policy|length|tokens?)\b)"
_SECRET_RULES = rf"""
(?:(?:your|ur|its) {_FULL}(?:system|developer|hidden|secret|initial|original) (?:prompts?|message)
|(?:the |this )?{_FULL}(?:system|developer|hidden|secret|initial) prompts?{_NOT_OF_ANOTHER}
|(?:system|developer) instructions{_NOT_OF_ANOTHER}|the (?:system|hidden|secret|developer) instructions
|(?:your|ur) {_FULL}(?:prompts?|programming)
|(?:your|ur) {_FULL}(?:system|hidden|secret|initial|original|internal|developer) (?:instructions?|rules|guidelines
|message|configuration|directives?)
|(?:your|ur) (?:own |exact |full |complete |current )?(?:instructions|directives)
(?!\W{{1,4}}(?:for|on|to|about|how|regarding|concerning|when|in|if|at|of)\b))
"""
_ALL_ABOVE = r"""
(?:everything|all|the (?:text|words|content|sentences?|lines?|message|instructions|conversation|prompt)|what)
(?: (?:that|which|is|was|written|came|you see|you have|said|stands)){0,3}
 (?:above|before this|before that|preceding this|prior to this)
(?=\W{0,4}(?:\Z|[.,;:!?)\]\n]|and\b|verbatim|word for|in\b|as\b|this|my|the (?:line|question|message)|starting))
"""
_NOBODY_ELSE = r"(?:if|though|an?|my|our|dan|chatgpt|gpt\w{0,3}|root|admin\w{0,10}|someone|somebody)"
_CITED = r"(?:citations?|citing|sources?|passages?|pages|documents|docs|documentation)"

# What people look up by bare words: roles in a company (`act as approver`), to the end of the text, and modes of
# programs (`pretend mode of helm`).
_NOT_A_ROLE = (
    r"(?!\s(?:(?:system|site|space|tenant|project|release|deputy|cluster)\s)?(?:administrators?|admins?|owners?|approvers?"
    r"|deput(?:y|ies)|delegates?|substitutes?|stand-ins?|prox(?:y|ies)|reviewers?|managers?|moderators?|editors?"
    r"|maintainers?|witness(?:es)?|mentors?|guarantors?|wardens?|leaders?|gateways?|servers?|another\suser)"
    r"(?:\s(?:in|of|for|on|at|during)(?:\s(?!me\b|us\b|you|this\b|my\b|now\b|and\b)[\w.-]{1,24}){1,5})?\W{0,4}\Z)"
)
_NOT_A_MODE = r"(?!\s(?:modes?|runs?|flags?|options?|commands?|parameters?|arguments?|switch|installs?|upgrades?)\b)"

# Orders to an assistant wherever they stand, be it in a page.
ORDERS = tuple(
    phrase(pattern)
    for pattern in (
        rf"{_IGNORE} (?:{_YOUR_RULES}|{_EARLIER_RULES}|{_RULES_ABOVE})",
        rf"{_IGNORE} (?:everything|anything|all) (?:you (?:were|have|know)|that (?:came|was)|above\b|before\b)",
        rf"{_TELL} {_SECRET_RULES}",
        r"you are (?:now|no longer)(?: an?| the)?(?: \w{1,20}){0,3} (?:ai|assistant|model|bot|chatbot|dan"
        r"|pirate)\b",
        r"from now on (?:you (?:will|must|are|shall)|answer|respond|reply|say)\b",
        r"new (?:system )?(?:instructions?|prompt)\W?:",
        r"(?:do not|don't|never) (?:cite|use|quote) (?:the |any (?:other )?)?(?:passages?|sources?|pages?)",
        r"(?:do not|don't|never) (?:mention|reveal|repeat|disclose) (?:this|these) (?:paragraph|message|prompt"
        r"|instruction)s?",
        r"dear (?:ai|language model|llm|assistant|chatbot)\b",
        r"(?:note|message|instructions?) (?:to|for) (?:the |all )?(?:ais?|llms?|language models?|assistants?"
        r"|chatbots?)\b",
    )
)
# What is an order to an assistant in a question, and may be meant for people in a page.
REQUESTS = tuple(
    phrase(pattern)
    for pattern in (
        rf"{_IGNORE} (?:{_ALL_RULES}|the {_RULES}|{_WHAT_WAS_TOLD}|{_THE_ABOVE}|it all\b|(?:everything|all"
        rf"|above){_AT_ITS_END})",
        rf"{_IGNORE} (?:instructions?|previous|prior){_AT_ITS_END}",
        rf"(?:leave|put|set|push|lay) {_YOUR_RULES} (?:aside|behind)\b",
        r"(?:whatever|everything|all)(?: that)? you (?:were|are|have been) (?:told|taught|asked)"
        r"(?: (?:before|so far|until now|earlier))? (?:forget|ignore|disregard|drop) (?:it|that|all)\b",
        r"(?:let's )?play a game (?:where|in which) you\b",
        rf"(?:do not|don't|never|stop|you (?:no longer|don't|do not) (?:need|have) to|no need to)"
        rf" (?:cite|citing|quote|quoting|use|using|give|giving)(?: (?:me|any|the|your|these)){{0,2}}"
        rf" (?:anything{_AT_ITS_END}|{_CITED}{_AT_ITS_END})",
        r"stop (?:being|acting|behaving)\b",
        r"(?:reply|answer|respond|say)(?: only)? that\b",
        rf"{_IGNORE} (?:the|all|all the|these|those|any) {_CITED}",
        rf"{_CHANGE} (?:all (?:of )?)?{_YOUR} {_KIND}{_CORE}",
        rf"{_TELL} {_ALL_ABOVE}",
        r"(?:act|acting|behave|behaving|function|operate)(?: (?:now|only|solely|always|exactly|just"
        rf"|to me)){{0,2}} (?:as|like)\b{_NOT_A_ROLE}",
        rf"(?:respond|answer|reply|speak|talk|write)(?: (?:now|only|always|to me)){{0,2}} (?:as"
        rf"|like) {_NOBODY_ELSE}\b",
        rf"(?:pretend|pretending|roleplay|roleplaying|role play)\b{_NOT_A_MODE}",
        r"simulate (?:being|that you|an? (?:ai|assistant|chatbot|person|human|linux|terminal))\b",
        r"(?:imagine|suppose|assume)(?: that)? you (?:are|were)\b",
        r"(?:impersonate|imitate|mimic) (?:an? (?:ai|assistant|pirate|hacker|person|human|character|expert)|dan"
        r"|me|my)\b",
        r"(?:take on|adopt|play|assume)(?: the| a| an| your| another)?(?: new| different)? (?:persona|character"
        r"|identity)\b",
        r"(?:take on|adopt|play) (?:the|a|another) (?:new |different )?(?:role|part) of\b",
        r"you(?: are| re) now(?! (?:in|on|at|logged|connected|ready|done|signed|online|using|running|able"
        r"|registered|part)\b)\b",
        r"you(?: are| re) (?:no longer|hereby|free\b(?! to\b)|dan|jailbroken|unrestricted|uncensored|not bound"
        r"|not restricted|free from)\b",
        r"you(?: are| re) (?:in \w{1,12} mode|(?:an?|the) (?:\w{1,20} ){0,3}(?:ai|assistant|bot|chatbot|llm|pirate"
        r"|hacker))\b",
        r"(?:enable|enter|activate|switch to|go into|turn on)(?: the| your)? (?:dan|jailbreak|god|unrestricted"
        r"|uncensored)\b",
        r"(?:do anything now|system override|developer mode (?:on|enabled|activated))\b",
        rf"you (?:now )?(?:have no|don't have any|are not bound by|are free of)(?: more| any"
        rf"| \w{{1,14}})? (?:{_CORE}|limits)\b",
        rf"(?:your|the (?:above|previous|system)|all (?:your|previous|prior)) {_KIND}{_CORE} (?:are|is|have been"
        rf"|do|no longer)"
        r"(?: (?:now|hereby|all|not|no longer)){0,2} (?:void|null|cancell?ed|suspended|lifted|invalid|overridden"
        r"|replaced"
        r"|removed|disabled|deleted|apply)\b",
        r"(?:from now on|henceforth|starting now|as of now)(?: on| and)?,? ?(?:you|act|only|always|never|ignore"
        r"|speak)\b",
        rf"(?:answer|respond|reply)(?: (?:me|only|to|this|freely|the|my|following|question"
        rf"|everything)){{0,3}} (?:without|regardless of|despite|ignoring)"
        rf"(?: (?:any|all|your|the|using|regard to|giving)){{0,2}} (?:{_CITED}|{_CORE}|censorship|limits)\b",
        r"(?:use|rely on|answer (?:from|with|using|based on))(?: only)? your (?:own )?(?:knowledge|training"
        r"|memory)\b",
    )
)
