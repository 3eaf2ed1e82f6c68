"""Number formats of Excel: a stored number as the sheet shows it.

Belongs here: format codes (ECMA-376, 18.8.30 and 18.8.31). Does not belong here: cells.

Numbers are shown with `.` and `,`, whatever the country of who looks: the file does not say. The dates that Excel shows
by country (formats 14 and 22) are shown as ISO 8601.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 14: "yyyy-mm-dd",
    15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm", 37: "#,##0;-#,##0", 38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "0.0E+0", 49: "@",
}  # fmt: skip
_TOKEN = re.compile(
    r'"[^"]{0,200}"|\\.|_.|\*.|\[[^\]]{0,100}\]|AM/PM|A/P|[Gg]eneral|y+|m+|d+|h+|s+|\.0+(?=[^0-9]|$)|[0#?,.]+|E[+-]|.',
    re.DOTALL | re.IGNORECASE,
)
_DATE = re.compile(r"y+|m+|d+|h+|s+|AM/PM|A/P|\[[hms]+\]", re.IGNORECASE)
_CURRENCY = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DIGITS_MAX = 30  # decimals that a format may ask for
_CODE_MAX = 255  # characters of a code in Excel


def shown(value: str, code: str, from_1904: bool = False) -> str:
    """Return a stored number as a format code shows it; as it is stored where the code is not understood."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    if not number.is_finite() or abs(number) >= Decimal(10) ** 300:
        return value
    section, number = _section(code[:_CODE_MAX], number)
    tokens = _TOKEN.findall(section)
    if not tokens or "@" in tokens:
        return general(number)
    if any(token.lower() == "general" for token in tokens):
        return "".join(general(number) if token.lower() == "general" else _literal(token) or "" for token in tokens)
    if any(_DATE.fullmatch(token) for token in tokens):
        return _date(number, tokens, from_1904) or general(number)
    return _number(number, tokens)


def general(number: Decimal) -> str:
    """Return a number as a cell without a format shows it: eleven digits at most behind the point, no zeros at its
    end."""
    text = format(float(number), ".15g") if abs(number) < 10**15 else str(number)
    if "e" in text.lower():
        return text
    whole, point, decimals = text.partition(".")
    return whole + (point + decimals[:11]).rstrip("0").rstrip(".") if point else whole


def _section(code: str, number: Decimal) -> tuple[str, Decimal]:
    """Return the section of a code for a number, without its sign where the section is for negative ones."""
    sections = [""]
    for token in _TOKEN.findall(code):
        if token == ";":
            sections.append("")
        else:
            sections[-1] += token
    if number < 0 and len(sections) > 1:
        return sections[1], -number
    if number == 0 and len(sections) > 2:
        return sections[2], number
    return sections[0], number


def _literal(token: str) -> str | None:
    """Return the text of a token that is no placeholder; None for one that is."""
    if token[0] == '"':
        return token[1:-1]
    if token[0] == "\\":
        return token[1:]
    if token[0] in "_*" and len(token) == 2:
        return " " if token[0] == "_" and token[1] == " " else ""
    if token[0] == "[":
        match = _CURRENCY.fullmatch(token)
        return match[1] if match else ""
    return None if re.fullmatch(r"[0#?,.]+|E[+-]", token, re.IGNORECASE) else token


def _number(number: Decimal, tokens: list[str]) -> str:
    places = [place for place, token in enumerate(tokens) if _literal(token) is None]
    percent = tokens.count("%")
    if not places:
        return ("-" if number < 0 else "") + "".join(_literal(token) or "" for token in tokens)
    pattern = "".join(tokens[place] for place in places if tokens[place][0] in "0#?,.")
    scientific = any(token.upper() in ("E+", "E-") for token in tokens)
    if "/" in tokens:
        return general(number)
    before = "".join(_literal(token) or "" for token in tokens[: places[0]])
    after = "".join(_literal(token) or "" for token in tokens[places[-1] + 1 :])
    digits = _scientific(number, tokens[places[0]]) if scientific else _digits(abs(number) * 100**percent, pattern)
    sign = "-" if number < 0 and not scientific and digits.strip("0.,") else ""
    return f"{sign}{before}{digits}{after}".strip()


def _digits(number: Decimal, pattern: str) -> str:
    """Return digits by a pattern such as `#,##0.00`; commas at its end divide by thousand."""
    whole, _, decimals = pattern.partition(".")
    scale = len(pattern) - len(pattern.rstrip(","))
    number = number / 1000**scale
    decimals = decimals.rstrip(",").replace(",", "")[:_DIGITS_MAX]
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP) if number < 10**27 else number
    text = format(rounded, ",f" if "," in whole.rstrip(",") else "f")
    integer, _, fraction = text.partition(".")
    kept = len(decimals.rstrip("#?"))
    fraction = fraction[:kept] + fraction[kept:].rstrip("0")
    wanted = whole.replace(",", "").count("0")
    integer = integer if integer != "0" or wanted or not fraction else ""
    return integer.rjust(wanted, "0") + (f".{fraction}" if fraction else "")


def _scientific(number: Decimal, pattern: str) -> str:
    decimals = len(pattern.partition(".")[2])
    return format(float(number), f".{min(decimals, _DIGITS_MAX)}E")


def _date(number: Decimal, tokens: list[str], from_1904: bool) -> str:
    """Return the moment that a number counts days to; empty where it is before the first or after the last year."""
    try:
        seconds = (number * 86_400).quantize(Decimal("0.001"), ROUND_HALF_UP)
        days, rest = divmod(seconds, 86_400)
        if days < 0:
            return ""
        first = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 if days >= 60 else 31)
        moment = first + timedelta(days=int(days), microseconds=int(rest * 1_000_000))
    except (OverflowError, ArithmeticError):
        return ""
    is_clock = any(token.upper() in ("AM/PM", "A/P") for token in tokens)
    return "".join(_date_part(tokens, place, moment, is_clock, seconds) for place in range(len(tokens))).strip()


def _date_part(tokens: list[str], place: int, moment: datetime, is_clock: bool, seconds: Decimal) -> str:
    token = tokens[place]
    kind = token[0].lower()
    if token.upper() in ("AM/PM", "A/P"):
        return "AM" if moment.hour < 12 else "PM"
    if re.fullmatch(r"\[[hms]+\]", token, re.IGNORECASE):
        unit = {"h": 3600, "m": 60, "s": 1}[token[1].lower()]
        return str(int(seconds // unit)).rjust(len(token) - 2, "0")
    if not _DATE.fullmatch(token):
        is_fraction = re.fullmatch(r"\.0+", token) and place and tokens[place - 1][0].lower() == "s"
        if is_fraction:
            return f".{moment.microsecond:06}"[: len(token)]
        return token if token in (".", ",") else _literal(token) or ""
    if kind == "m" and _is_minutes(tokens, place):
        return str(moment.minute).rjust(min(len(token), 2), "0")
    hour = (moment.hour % 12 or 12) if is_clock else moment.hour
    values = {"y": moment.year, "m": moment.month, "d": moment.day, "h": hour, "s": moment.second}
    if kind == "y":
        return f"{moment.year:04}" if len(token) > 2 else f"{moment.year % 100:02}"
    if kind in "md" and len(token) > 2:
        name = _MONTHS[moment.month - 1] if kind == "m" else _DAYS[moment.weekday()]
        return name[:1] if len(token) == 5 else name if len(token) > 3 else name[:3]
    return str(values[kind]).rjust(min(len(token), 2), "0")


def _is_minutes(tokens: list[str], place: int) -> bool:
    """Return whether an `m` stands after hours or before seconds."""
    units = [(at, token.strip("[").lower()[:1]) for at, token in enumerate(tokens) if _DATE.fullmatch(token)]
    index = [at for at, _ in units].index(place)
    before = units[index - 1][1] if index else ""
    after = units[index + 1][1] if index + 1 < len(units) else ""
    return len(tokens[place]) < 3 and (before == "h" or after == "s")
