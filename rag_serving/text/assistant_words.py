"""Words by which a page speaks to an assistant that reads it, instead of to people.

What orders is in `order_words`; here is who is spoken to, and what only a machine is told about its answers. Each
pattern needs what is to be said (`that …`, a colon) or the assistant itself: handbooks tell people what to write, too.

Belongs here: the patterns, read in lower case with single spaces. Does not belong here: what a sentence with one is
(`orders`).
"""

from __future__ import annotations

_AI = (
    r"(?:(?:ai|ki|ia)(?:[ -](?:assistant\w{0,3}|assistent\w{0,3}|models?|agents?|bots?|chatbots?|systems?))?|ais|llms?"
    r"|gpts?|chatgpt|(?:large )?language models?|chat ?bots?|assistente ia|(?:virtual |digital |helpful )?assistants?)"
)
_WHOM = r"(?:the |all |any |every |my |our ){0,2}"
_READING = r"(?: reading [\w ]{1,20})?"
_SAY = (
    r"(?:say|state|tell|reply|respond|answer|repeat|output|print|write|add|append|include|mention|insert|end|close|begin"
    r"|start|claim|cite|link|show|render|decode|unescape|read|send|forget|ignore)"
)
_SAY_IT = (
    r"(?:says?|states?|repl(?:y|ies)|responds?|answers?|repeats?|outputs?|adds?|appends?|includes?|mentions?|closes?"
    r"|tells? (?:(?:the |every )?(?:user|reader|asker)s?|them|everybody|everyone))(?: (?:only|instead|also)){0,2}"
    r"(?: that\b|(?: with)? ?:| the (?:words|sentence|following)\b)"
)
_ANSWER = r"(?:answers?|reply|replies|responses?|outputs?|completions?|summary|summaries)"
_LISTENING = (
    rf"(?:{_SAY}\b|you\b|your\b|please\b|always\b|never\b|now\b|from now\b|do not\b|don't\b|be so\b|listen\b"
    r"|(?:it|what follows|the answer|this) is\b|i want\b|di'|sage\b)"
)
_START = r"(?:\A|[.!?:;…|(–—]\W{0,4})\W{0,8}"

ADDRESSES = (
    # "Assistant, say …", "Dear AI: …", "To the AI reading this: …"
    rf"{_START}(?:(?:dear|hey|hi|hello|attention|listen|ok|please|important|todo)\W{{1,3}}){{0,3}}{_WHOM}{_AI}{_READING}"
    rf"\W{{0,4}}[,:!)]\W{{0,4}}{_LISTENING}",
    rf"{_START}(?:@|todo\W{{1,3}}){_AI}\b",
    rf"{_START}(?:(?:dear|attention|hey|listen)\W{{1,3}}|an den |an die |to ){_WHOM}{_AI}{_READING}"
    r"\W{0,3}(?:[,.:!]|\Z)",
    rf"{_START}{_AI}\W{{0,3}}!",
    rf"{_START}{_AI} (?:directives?|instructions?|orders?|overrides?)\b",
    rf"\b(?:instructions?|directives?|orders?|messages?|notes?|notices?|rules?|outputs?) (?:to|for) {_WHOM}"
    rf"(?:{_AI}|model)(?: readers?)?\W{{0,3}}(?:[:,]|\Z)",
    rf"[,(] ?(?:dear |my ){_AI}(?:[,!?.)]|\Z)",
    rf"[,(] ?{_AI}, (?:be so|{_SAY}\b)",
    # "The assistant must say that …"
    rf"\b{_AI}\b[^.!\n]{{0,120}}?\b(?:must|should|shall|has to|have to|needs? to|(?:is|are) to|to|will|could|please|it"
    rf"|who|that|now)(?: (?:now|always|then|also|only|kindly|please)){{0,2}} {_SAY_IT}",
    rf"\bthe model (?:must|should|shall|will)(?: (?:now|always)){{0,2}} {_SAY_IT}",
    rf"\b(?:the |an? |every ){_AI} (?:(?:now|always) )?says (?:that\b|:)",
    rf"\bif you(?: are|'re) (?:an? |the )?{_AI}\b",
    rf"\bas an? {_AI}{_READING}, (?:you|{_SAY})\b",
    rf"\byou are an? (?:\w{{1,12}} ){{0,2}}{_AI} (?:without|who|that|which)\b",
    rf"\bpretend to be an? (?:\w{{1,12}} ){{0,2}}{_AI}\b",
    # "Append to your answer: …"
    r"\b(?:append|add|attach|insert|include|put|print|write|say|mention|repeat|begin|start|end|finish|close|complete|replace"
    rf"|preface|conclude|including)\b[^.!?\n:]{{0,60}}\b(?:your|every|each) (?:\w{{1,10}} )?{_ANSWER}\b"
    r"(?=[^.!?\n]{0,60}(?::|\bthat (?!you)))",
    rf"\byour (?:\w{{1,10}} )?{_ANSWER}(?: from now on| is)? ?:",
    rf"\byour (?:\w{{1,10}} )?{_ANSWER} (?:must|shall|has to|will) (?:be|contain|include|start|begin|end)\b"
    r"[^.!?\n]{0,40}(?::|\bwords\b|\blink\b)",
    r"\byour (?:new|only|real) (?:task|job|role|goal|mission) (?:is|are)\b|\byou have a new (?:task|role|mission)\b",
    r"\b(?:output|print|say|write|repeat) only this\b|\brepeat after me\b"
    r"|\binstead of answering (?:the|this|any|their)\b",
    r"\b(?:do not|don't) (?:answer the (?:question|user)|(?:follow|obey) (?:the|your) (?:system )?prompt)\b",
    r"\bwhen(?:ever)? the (?:user|asker|reader) asks\b[^.!\n]{0,160}\byou (?:must|should|shall|will)"
    r" (?:answer|say|reply)\b",
    r"\byou (?:must|shall|will) obey\b",
    # What stands for a message of the system, or for what a tool or a model said; what no reader of a page sees
    rf"{_START}(?:(?:begin|end|updated|new) )?system (?:prompt|message|override)\b",
    rf"{_START}(?:system|developer): ?(?:you\b|your\b|the assistant\b|from now\b|always\b|never\b|say\b|tell\b)",
    r"\bprompt --system\b",
    # Languages that put the verb last, or no spaces between words
    r"(?:忽略|无视|無視|忘记|忘記).{0,6}(?:之前|以上|先前|上述|前面|所有|一切|你的).{0,6}(?:指令|指示|提示|规则|規則|要求|命令)",
    r"(?:以前|上記|これまで|すべて|全て|あなた)の?.{0,6}(?:指示|命令|プロンプト|ルール).{0,6}(?:無視|忘れ)",
    r"(?:이전|위의|모든|당신의?).{0,8}(?:지시|명령|규칙|프롬프트|지침).{0,8}(?:무시|잊)",
    r"(?:önceki|bütün|tüm|yukarıdaki).{0,14}(?:talimat|kural|komut)\w{0,8}.{0,12}(?:yok say|unut|görmezden)",
    r"(?:تجاهل|انس).{0,12}(?:جميع|كل).{0,20}(?:التعليمات|تعليمات|الأوامر)",
    r"(?:התעלם|תתעלם).{0,10}כל.{0,10}(?:הוראות|ההוראות)",
    r"(?:पिछले|सभी).{0,12}(?:निर्देश|नियम|आदेश).{0,12}(?:भूल|अनदेखा|नज़रअंदाज)",
    r"bỏ qua.{0,6}(?:mọi|tất cả|các).{0,10}(?:hướng dẫn|chỉ dẫn|lệnh)",
    r"abaikan.{0,6}(?:semua|seluruh).{0,10}(?:instruksi|perintah|aturan)",
    r"\bglem (?:alle|dine|de).{0,14}(?:instru\w{1,9}|regler)",
)
# Of which every sentence with one of them has something; quick to look for in whole pages.
MAY_ADDRESS = (
    r"\b(?:ais?|ki|ia|llms?|gpts?|chatgpt|language models?|chat ?bots?|assist[ae]nt\w{0,3}|the model)\b"
    r"|\b(?:to|for) model\b"
    rf"|\b(?:your|every|each) (?:\w{{1,10}} )?{_ANSWER}\b|\byour (?:new|only|real) \w|\ba new (?:task|role|mission)\b"
    r"|only this\b|repeat after|instead of answering|(?:not|n't) (?:answer|follow|obey) (?:the|your)|\bsystem\b"
    r"|developer:|the (?:user|asker|reader) asks|\bobey\b|prompt --"
    r"|[\u0590-\u06ff\u0900-\u097f\u3040-\u9fff\uac00-\ud7af]|talimat|kural|komut|bỏ qua|abaikan|\bglem\b"
)
