"""The words of orders to an assistant in other languages than English: to ignore its rules, reveal them, be another.

Belongs here: patterns, a few lines a language. Does not belong here: English (`order_words`), where they must stand to
be orders (`orders`).
"""

from __future__ import annotations

from rag_serving.text.order_words import phrase

OPENERS_ABROAD = phrase(r"""
(?:(?:bitte|jetzt|nun|also|und|dann|hallo|ab jetzt|ab sofort|du (?:musst|sollst)|kannst du|könntest du|würdest du
|s'il (?:te|vous) plaît|maintenant|alors|et|puis|tu dois|vous devez|peux-tu|pouvez-vous|veuillez
|por favor|ahora|y|entonces|debes|puedes|tienes que|agora|e|então|você deve|pode|per favore|adesso|ora|allora
|devi|puoi
|alsjeblieft|nu|en|dan|je moet|kun je|proszę|teraz|i|пожалуйста|теперь|сейчас|и|а|ты должен|lütfen
|şimdi)\W{1,6}){0,4}
""")

_RULES = {
    "de": r"(?:anweisung\w*|instruktion\w*|regeln?|vorgaben?|befehle?|richtlinien?|anleitung\w*|vorschrift\w*"
    r"|prompts?)",
    "fr": r"(?:instructions?|consignes?|règles?|regles?|directives?|ordres?|prompts?)",
    "es": r"(?:instrucci[oó]n\w*|reglas?|directrices|[oó]rdenes|indicaciones|normas|prompts?)",
    "pt": r"(?:instru[cç][oõ]es|regras?|diretrizes|ordens|comandos|prompts?)",
    "it": r"(?:istruzion\w*|regol\w*|direttiv\w*|ordini|comandi|prompts?)",
    "nl": r"(?:instructies?|regels?|richtlijnen|opdrachten|aanwijzingen|prompts?)",
    "pl": r"(?:instrukcj\w*|zasad\w*|polece\w*|regu[lł]\w*|wytyczn\w*|prompt\w*)",
    "ru": r"(?:инструкци\w*|указани\w*|правил\w*|команд\w*|распоряжени\w*|промпт\w*)",
    "sv": r"(?:instru[ks]{1,2}\w*|regler\w*|anvisning\w*|riktlinje\w*|retningslinje\w*|prompt\w*)",
    "tr": r"(?:talimat\w*|kural\w*|yönerge\w*|komut\w*|prompt\w*)",
}
# The pronoun, or the word for "all" or "earlier", is what tells an order to the assistant from one about other rules.
_THEIRS = {
    "de": r"(?:(?:alle|aller|deine|deiner|ihre|eure|die|den|diese|meine|sämtliche|bisherigen?|vorherigen?"
    r"|vorigen?|obigen?"
    r"|früheren?|ursprünglichen?|gegebenen?|anderen?|deinen|ihren|eigenen?) ){1,4}",
    "fr": r"(?:(?:toutes|tous|tes|vos|les|ces|mes|ses|tout|précédentes?|antérieures?|tes propres) ){1,4}",
    "es": r"(?:(?:todas|todos|tus|sus|las|los|estas|mis|vuestras|anteriores|previas) ){1,4}",
    "pt": r"(?:(?:todas|todos|suas|seus|tuas|teus|as|os|estas|anteriores|prévias) ){1,4}",
    "it": r"(?:(?:tutte|tutti|tue|tuoi|le|i|gli|queste|sue|mie|precedenti|tutte le) ){1,4}",
    "nl": r"(?:(?:alle|je|jouw|uw|de|deze|mijn|vorige|eerdere|bovenstaande|voorgaande) ){1,4}",
    "pl": r"(?:(?:wszystkie|wszystkich|swoje|swoich|twoje|twoich|te|tych|poprzednie|poprzednich|wcześniejsze"
    r"|moje) ){1,4}",
    "ru": r"(?:(?:все|всех|свои|своих|твои|твоих|ваши|эти|предыдущие|прежние|прошлые|мои|вышеуказанные) ){1,4}",
    "sv": r"(?:(?:alla|dina|dine|era|de|tidigare|föregående|ovanstående|mina) ){1,4}",
}
_IGNORE = {
    "de": r"(?:ignorier\w{0,3}|vergiss|vergesst|vergessen sie|missachte\w{0,2}|überschreibe?|umgeh\w{0,3}|verwirf"
    r"|beachte nicht|befolge nicht|halte dich nicht an)",
    "fr": r"(?:ignore[zr]?|oublie[zr]?|contourne[zr]?|ne tiens pas compte de|ne tenez pas compte de|ne suis plus"
    r"|ne suis pas)",
    "es": r"(?:ignora|ignore|ignorad|olvida|olvide|olvídate de|omite|haz caso omiso (?:de|a)|no sigas|desobedece"
    r"|elude)",
    "pt": r"(?:ignora|ignore|esquece|esqueça|desconsidere|desconsidera|não siga|desobedeça|contorne)",
    "it": r"(?:ignora|ignorate|dimentica|dimenticate|trascura|non seguire|scavalca|aggira|non tenere conto (?:di"
    r"|delle))",
    "nl": r"(?:negeer|vergeet|omzeil|overschrijf|volg niet)",
    "pl": r"(?:zignoruj|ignoruj|zapomnij(?: o)?|pomiń|omiń|nie przestrzegaj)",
    "ru": r"(?:игнорируй\w{0,2}|проигнорируй\w{0,2}|забудь\w{0,2}|отбрось\w{0,2}|нарушь\w{0,2}|не следуй|обойди)",
    "sv": r"(?:ignorera|ignorer|glöm|glem|bortse från|strunta i|se bort fra)",
}
_FORGET_ALL = (
    r"vergiss (?:alles|was (?:du|dir|man))\b",
    r"oublie[zr]? (?:tout|ce que)\b",
    r"olvida (?:todo|lo que)\b",
    r"(?:esquece|esqueça) (?:tudo|o que)\b",
    r"dimentica (?:tutto|quello che|ciò che)\b",
    r"vergeet (?:alles|wat)\b",
    r"zapomnij (?:wszystko|o wszystkim|co)\b",
    r"забудь(?:те)? (?:вс[её]|что|о ч[её]м)\b",
    r"glöm (?:allt|vad)\b",
)
_REVEAL = (
    r"(?:zeige?|zeigen sie|verrate?|nenne?|drucke?|gib|wiederhole?|offenbare?|sag|wie lautet|was ist|was sind|lies)"
    r"(?: (?:mir|uns|bitte|doch|mal)){0,3} (?:dein\w{0,2}|ihr\w{0,2}|den|die|das) (?:gesamten? |ganzen? "
    r"|vollständigen? "
    r"|geheimen? |internen? ){0,2}(?:system-?prompt\w{0,1}|systemanweisung\w{0,2}|prompts?|anweisungen"
    r"|instruktionen)\b",
    r"(?:révèle|révélez|affiche|affichez|montre|montrez|donne|donnez|répète|répétez|dis|quel est|quelles sont)"
    r"(?: (?:moi|nous))? (?:ton|votre|le|tes|vos) (?:prompts?|invite|instructions|consignes|message)\b",
    r"(?:revela|revele|muestra|muéstrame|muestre|imprime|repite|dime|dame|cu[aá]l es|cu[aá]les son)"
    r" (?:tu|su|el|tus|sus) (?:prompts?|instrucciones|mensaje)\b",
    r"(?:revele|revela|mostre|mostra|mostre-me|imprima|repita|diga|qual é|quais são)(?: me)?"
    r" (?:o |as |os )?(?:seu|teu|suas|tuas|o) (?:prompts?|instruções)\b",
    r"(?:rivela|rivelami|mostra|mostrami|stampa|ripeti|dimmi|qual è|quali sono) (?:il |le )?(?:tuo|tue"
    r"|il) (?:prompts?|istruzioni)\b",
    r"(?:toon|onthul|laat|geef|herhaal|print|wat is|wat zijn)(?: me| mij)? (?:je|jouw|uw|de) (?:systeem-?prompt"
    r"|prompt|instructies)\b",
    r"(?:pokaż|ujawnij|wypisz|podaj|powtórz|jaki jest)(?: mi)? (?:swój|twój|swoje|twoje"
    r"|system\w{0,5}) (?:prompt\w{0,2}|system\w{0,5}|instrukcje)\b",
    r"(?:покажи|раскрой|выведи|назови|повтори|скажи|напечатай|какой)(?:те)?(?: мне)? (?:свой|твой|ваш|свои|твои"
    r"|системн\w{1,3})"
    r"(?: системн\w{1,3})? ?(?:промпт\w{0,2}|инструкци\w{1,2}|запрос)?\b",
    r"(?:visa|avslöja|skriv ut|upprepa)(?: mig)? (?:din|dina|systemets) (?:system-?prompt|prompt|instruktioner)\b",
)
_ROLES = (
    r"(?:tu so,? als|gib vor|stell dir vor,? du|spiele? die rolle|agiere? als|handle als|verhalte dich (?:wie|als)"
    r"|antworte (?:als|wie ein\w{0,2})|du bist (?:jetzt|nun|ab jetzt|ab sofort|nicht mehr))\b",
    r"(?:agis|agissez|comporte-toi|comportez-vous|réponds|parle) (?:comme|en tant que)\b|fais(?:ons)? comme si\b"
    r"|fais semblant\b"
    r"|imagine que tu\b|joue le rôle\b|tu es (?:maintenant|désormais)\b|vous êtes (?:maintenant|désormais)\b",
    r"(?:actúa|actua|compórtate|comportate|responde|habla) como\b|finge\b|haz como si\b|imagina que eres\b"
    r"|hazte pasar\b"
    r"|(?:ahora|a partir de ahora) eres\b|eres ahora\b",
    r"(?:aja|atue|comporte-se|responda|fale) como\b|finja\b|faça de conta\b|imagine que (?:você|tu) é\b"
    r"|(?:agora )?você é agora\b"
    r"|agora você é\b",
    r"(?:agisci|comportati|rispondi|parla) come\b|fingi\b|fai finta\b|immagina di essere\b|(?:ora|adesso) sei\b"
    r"|sei (?:ora|adesso)\b",
    r"doe alsof\b|gedraag je als\b|antwoord als een\b|je bent (?:nu|vanaf nu)\b|speel de rol\b",
    r"(?:zachowuj się|odpowiadaj) jak\b|udawaj\b|wyobraź sobie,? że jesteś\b|jesteś teraz\b",
    r"(?:действуй|веди себя|отвечай|говори) как\b|притворись\b|представь,? что ты\b|теперь ты\b|ты теперь\b"
    r"|сыграй роль\b",
    r"(?:agera|bete dig|svara) som\b|låtsas\b|du är nu\b",
)

ORDERS_ABROAD = tuple(
    phrase(pattern.replace(r"\w*", r"\w{0,8}"))
    for pattern in (
        *(rf"{_IGNORE[code]} {_THEIRS[code]}{_RULES[code]}" for code in _IGNORE),
        # Where the rules come first, or the order of words is another.
        rf"{_THEIRS['de']}{_RULES['de']}(?: \w{{1,20}}){{0,2}} (?:zu )?(?:ignorieren|vergessen|missachten)\b",
        rf"(?:ignorera|ignorer) {_THEIRS['sv']}{_RULES['sv']}",
        rf"(?:ignorera|ignorer|glöm|glem|bortse från|se bort fra) {_RULES['sv']} (?:dine|dina|deres|era)\b",
        rf"(?:ignora|ignore|oublie|olvida|dimentica) {_RULES['fr']} (?:précédentes|antérieures|ci-dessus)\b",
    )
)
REQUESTS_ABROAD = tuple(phrase(pattern) for pattern in (*_FORGET_ALL, *_REVEAL, *_ROLES))

# Languages that put no spaces between words, or the verb last: an order is one by its form, wherever it stands.
UNSPACED = (
    r"(?:忽略|无视|無視|忘记|忘記|忘掉|不要遵守|不要遵循|绕过|繞過|覆盖|覆蓋)(?:掉|了)?.{0,12}"
    r"(?:指令|指示|提示|规则|規則|说明|說明|要求|命令|设定|設定|内容|內容|一切)",
    r"(?:显示|顯示|透露|告诉我|告訴我|输出|輸出|打印|公开|公開|泄露|重复|重複|展示).{0,8}(?:系统提示|系統提示|提示词|提示詞|系统指令|系統指令|初始指令)",
    r"(?:扮演|假装|假裝|你现在是|你現在是|从现在起你|從現在起你)",
    r"(?:指示|命令|プロンプト|ルール|指令|規則|制約).{0,8}(?:無視|忘れ|破棄)(?:して|しろ|せよ|しなさい|て|ろ|なさい)",
    r"(?:システムプロンプト|初期プロンプト|あなたの指示).{0,10}(?:表示|教え|見せ|出力|公開|繰り返)",
    r"(?:のふりを|として振る舞|として行動|になりきって|になりすまし)",
    r"(?:지시|명령|규칙|프롬프트|지침).{0,8}(?:무시|잊).{0,3}(?:해|하|고|어|라|줘)",
    r"(?:시스템 ?프롬프트|초기 ?지시).{0,10}(?:보여|알려|출력|공개|말해)",
    r"(?:인 ?척|처럼 행동|역할을 ?해|연기해)",
    r"(?:talimat|kural|komut|yönerge)\w{0,8}.{0,12}(?:yok say|unut|görmezden gel|dikkate alma)",
    r"(?:تجاهل|انس|تخط).{0,20}(?:التعليمات|تعليمات|الأوامر|القواعد|قواعد)",
    r"(?:אל תתייחס|התעלם).{0,20}(?:הוראות|ההוראות|הכללים)",
    r"(?:निर्देश|नियम|आदेश).{0,16}(?:अनदेखा|नज़रअंदाज|भूल|उपेक्षा)",
    r"(?:bỏ qua|phớt lờ|quên).{0,16}(?:hướng dẫn|chỉ dẫn|quy tắc|lệnh)",
    r"(?:abaikan|lupakan).{0,16}(?:instruksi|perintah|aturan)",
)
