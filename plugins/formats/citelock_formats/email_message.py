"""E-mails as files (EML, MSG): the head as a table, the text, what is attached (RFC 5322, 2045 to 2047, 3676)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.header import decode_header
from email.message import Message

from citelock_formats.rtf import rtf_text
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.file_text import web_page
from rag_assets.steps.files.records import FileError, FileText, PagesDone, decoded
from rag_assets.steps.formats.blocks import clean, row_line
from rag_assets.steps.formats.element_tree import PageError, parse_html

_ATTRIBUTION = re.compile(
    r"[^\n]{0,300}\b(?:wrote|writes|schrieb|schreibt|a écrit|escribió|ha scritto|schreef|escreveu|napisał)\b"
    r"[^\n]{0,200}:\s*\Z"
)
_ORIGINAL = re.compile(
    r"^[ \t]*-{2,20} ?(?:Original(?: Message|nachricht| Appointment)|Ursprüngliche Nachricht|Message d.origine"
    r"|Mensaje original|Messaggio originale|Oorspronkelijk bericht)[^\n]{0,80}$"
    r"|^[ \t]*\*?(?:From|Von|De|Da|Van):\*? [^\n]{1,300}\n"
    r"[ \t]*\*?(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden)(?: [a-z]{1,3})?:\*? ",
    re.MULTILINE,
)
_FORWARDED = re.compile(r"\s*(?:fwd?|wg|tr|rv|i|enc)\s*:", re.IGNORECASE)  # what such a message quotes is its text
_MARKED = ("gmail_quote", "yahoo_quoted", "moz-cite-prefix", "protonmail_quote", "zmail_extra")
_QUOTED = "//blockquote[@type='cite' or @cite]" + "".join(f"|//*[contains(@class, '{name}')]" for name in _MARKED)
_BEGINS = (  # Outlook's: what follows is quoted
    "//*[@id='divRplyFwdMsg' or @id='appendonsend' or contains(@class, 'OutlookMessageHeader')]"
    "|//div[contains(@style, 'border-top:solid')]"
    "[.//b[normalize-space()][contains('From:|Von:|De:|De :|Da:', normalize-space())]]"
)
_MAY_QUOTE = re.compile(r"<blockquote|border-top:solid|_quote|divRplyFwdMsg|appendonsend|moz-cite|Outlook|zmail_extra")

HEAD = ("From", "To", "Cc", "Date", "Subject")
MOST_PARTS = 1_000
_HEADER_MAX = 2_000
"""Characters of a header that are shown: a list of a thousand recipients says nothing."""
_QUOTE = re.compile(r"(?:> ?)+")
_NOT_TEXT = frozenset({"winmail.dat"})


def email_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return a message with its attachments. Raises FileError: it has no head and no text."""
    message = message_from_bytes(content.lstrip(b"\r\n"), policy=policy.compat32)
    if not message.keys():
        raise FileError("it is not a readable e-mail: it has no head")
    return _shown(message, composed)


def outlook_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return a message in Outlook's format with its attachments. Raises FileError: it is broken, or has no message."""
    from citelock_formats.outlook_message import outlook_message  # few builds meet one

    return _shown(outlook_message(content), composed)


def _shown(message: Message, composed: Composed) -> FileText:
    _MailReader(composed).take(message, 1)
    return composed.text()


class _MailReader:
    """Reads one message and those inside it; what was quoted from one of them already is not said again."""

    def __init__(self, composed: Composed) -> None:
        self.composed = composed
        self._said: set[str] = set()
        self._parts = 0

    def take(self, message: Message, level: int) -> None:
        subject = header(message, "Subject")
        self.composed.heading(subject or "Message without a subject", level)
        self.composed.body(FileText(_head_table(message), "markdown"), level)
        texts: list[Message] = []
        attached: list[tuple[str, Message]] = []
        nested: list[Message] = []
        for part in self._leaves(message):
            name = _name(part)
            if part.get_content_type() == "message/rfc822":
                payload = part.get_payload()
                nested += [one for one in (payload if isinstance(payload, list) else []) if isinstance(one, Message)]
            elif part.get_content_maintype() == "text" and not name and part.get_content_disposition() != "attachment":
                texts.append(part)
            elif part.get_content_maintype() == "image" and part.get("Content-ID"):
                self.composed.lost("picture")
            else:
                attached.append((name or f"attachment {len(attached) + 1}{_ending(part)}", part))
        for part in texts:
            self._text(part, level, is_forwarded=bool(_FORWARDED.match(subject)))
        self._attachments(attached, level)
        for inner in nested:
            self.take(inner, min(level + 1, 6))

    def _leaves(self, message: Message) -> Iterator[Message]:
        """Yield the parts with content; of alternatives the richest one. Raises FileError if there are too many."""
        stack = [message]
        while stack:
            one = stack.pop()
            self._parts += 1
            if self._parts > MOST_PARTS:
                raise FileError(f"the e-mail has more than {MOST_PARTS:,} parts")
            payload = one.get_payload()
            if not one.is_multipart() or one.get_content_type() == "message/rfc822" or not isinstance(payload, list):
                yield one
            else:
                inside = [inner for inner in payload if isinstance(inner, Message)]
                stack += _best(inside) if one.get_content_subtype() == "alternative" else reversed(inside)

    def _text(self, part: Message, level: int, is_forwarded: bool) -> None:
        content, charset = _payload(part), part.get_content_charset()
        match part.get_content_subtype():
            case "html":
                html, count = web_page(content, charset).body, 0
                if not is_forwarded:
                    html, count = without_quoted_elements(html)
                self.composed.body(FileText(html, "html"), level)
                self.composed.hidden("quoted mail", count)
                return
            case "rtf":
                self.composed.body(rtf_text(content, self.composed), level)
                return
        text = decoded(_without_nul(content), charset)
        if str(part.get_param("format", "")).lower() == "flowed":
            text = _unfolded(text)
        own, count = (text, 0) if is_forwarded else without_quoted_lines(text)
        self.composed.body(FileText(self._said_once(own), "text"), level)
        self.composed.hidden("quoted mail", count)

    def _said_once(self, text: str) -> str:
        """Return a text without quoted paragraphs that already occurred in this message, or one inside it."""
        kept: list[str] = []
        for paragraph in re.split(r"\n[ \t]*(?:>[ \t]?)*\n", text.replace("\r\n", "\n")):
            lines = paragraph.split("\n")
            plain = "\n".join(_QUOTE.sub("", line, count=1) for line in lines)
            is_quoted = all(line.startswith(">") or not line.strip() for line in lines)
            key = clean(plain)
            if is_quoted and key in self._said:
                continue
            self._said.add(key)
            kept.append(plain if is_quoted else paragraph)
        return "\n\n".join(kept)

    def _attachments(self, attached: list[tuple[str, Message]], level: int) -> None:
        composed = self.composed
        if attached:
            composed.note(f"Attachments ({len(attached)}): " + ", ".join(name for name, _ in attached))
        for name, part in attached:
            try:
                if name.lower() in _NOT_TEXT:
                    raise FileError("it is of a form that only Outlook reads")
                composed.file(name, _payload(part), level + 1)
            except FileError as error:
                composed.lost("attachment")
                composed.note(f"{name} is not read: {error}")


def _head_table(message: Message) -> str:
    """Return the head of a message as a Markdown table of two rows."""
    shown = {name: value for name in HEAD if (value := header(message, name))}
    if not shown:
        return ""
    return f"{row_line([*shown])}\n|{'---|' * len(shown)}\n{row_line([_escaped(value) for value in shown.values()])}"


def header(message: Message, name: str) -> str:
    """Return the words of a header, decoded."""
    return _header_words(str(message.get(name, "")))


def _header_words(value: str) -> str:
    try:
        parts = decode_header(value)
    except (ValueError, LookupError, AttributeError):
        return clean(value)[:_HEADER_MAX]
    words = "".join(
        part if isinstance(part, str) else decoded(_without_nul(part), None if charset == "unknown-8bit" else charset)
        for part, charset in parts
    )
    return clean(words.encode("utf-8", "replace").decode())[:_HEADER_MAX]


def _unfolded(text: str) -> str:
    """Return a `format=flowed` text with the lines of each paragraph joined (RFC 3676)."""
    lines: list[str] = []
    goes_on = False
    for line in text.splitlines():
        quote = _QUOTE.match(line)
        words = line[quote.end() :] if quote and goes_on else line
        if goes_on and lines:
            lines[-1] += words
        else:
            lines.append(line)
        goes_on = line.endswith(" ") and line != "-- "
    return "\n".join(lines)


def _best(alternatives: list[Message]) -> list[Message]:
    """Return the richest alternative that has words, as the last are by RFC 2046; calendars and the like are not."""
    for one in reversed(alternatives):
        if one.is_multipart():
            return [one]
        if one.get_content_type() in ("text/html", "text/plain") and _payload(one).strip():
            return [one]
    return alternatives[:1]


def _payload(part: Message) -> bytes:
    try:
        found = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError):
        return b""
    return found if isinstance(found, bytes) else b""


def _name(part: Message) -> str:
    try:
        name = part.get_filename()
    except (ValueError, LookupError, TypeError):
        return ""
    words = _header_words((name or "").replace("\r", " ").replace("\n", " "))
    return words.replace("\\", "/").rpartition("/")[2][:200]


def _ending(part: Message) -> str:
    """Return the ending of a file without a name, where its type says one."""
    known = {"text/plain": ".txt", "text/html": ".html", "text/markdown": ".md", "text/csv": ".csv"}
    return known.get(part.get_content_type(), "")


def _without_nul(content: bytes) -> bytes:
    return content if content.startswith((b"\xff\xfe", b"\xfe\xff")) else content.replace(b"\x00", b"")


def _escaped(value: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#~])", r"\\\1", value)


def without_quoted_lines(text: str) -> tuple[str, int]:
    """Return the sender's own lines of a plain text, and how many quotes were left out."""
    text = text.replace("\r\n", "\n")
    original = _ORIGINAL.search(text)
    own, count = (text[: original.start()], 1) if original else (text, 0)
    kept: list[str] = []
    is_quoted = False
    for line in own.split("\n"):
        if line.startswith(">"):
            count += not is_quoted
            _drop_attribution(kept)
            is_quoted = True
        elif line.strip() or not is_quoted:
            kept.append(line)
            is_quoted = False
    return "\n".join(kept), count


def _drop_attribution(kept: list[str]) -> None:
    """Remove the attribution line, which may be broken in two, from the end of a text."""
    while kept and not kept[-1].strip():
        kept.pop()
    for lines in (1, 2):
        if _ATTRIBUTION.fullmatch(" ".join(kept[-lines:])):
            del kept[-lines:]
            return


def without_quoted_elements(html: str) -> tuple[str, int]:
    """Return HTML without parts that the sender's program marks as quoted, and their number."""
    from lxml import etree

    if not _MAY_QUOTE.search(html):
        return html, 0
    try:
        root = parse_html(html, huge=False)
    except PageError:
        return html, 0
    begins = root.xpath(_BEGINS)[:1]
    for begin in begins:
        # Take an element and all that follows it from its tree
        node = begin
        while (above := node.getparent()) is not None:
            for later in list(node.itersiblings()):
                above.remove(later)
            node.tail = None
            node = above
        begin.drop_tree()
    found = root.xpath(_QUOTED)
    inner = {one for each in found for one in each.iterdescendants()}
    outer = [one for one in found if one not in inner]
    for element in outer:
        element.drop_tree()
    said = [one for one in outer if "moz-cite-prefix" not in (one.get("class") or "")]
    return str(etree.tostring(root, encoding="unicode", method="html")), len(begins) + len(said)
