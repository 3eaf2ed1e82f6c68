"""Check a receipt against the files of its generation, with nothing but this file, Python and pyarrow.

    python verify_receipt.py RECEIPT.json GENERATION_DIR [RECEIPT_ID]

It shares no code with the product. RECEIPT.json is what `citelock receipt show ID --json` prints, or the receipt as it
is stored; GENERATION_DIR is `tenants/TENANT/generations/ID`. What the installation's secret alone shows is not checked:
signatures, the digests of question and asker, the encrypted question. Exit 1 with a line for each fault.
"""

# fmt: off
import hashlib
import json
import operator
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

Row = dict[str, Any]
Cells = list[tuple[str, str]]
split = str.split
IDENTITY = ("format", "tenant", "inputs_digest", "embedder", "shards", "chunks", "parts", "pages", "formats")
COLUMN = {name: name for name in split("title space status author source category words")} | {
    "language": "lang", "label": "labels", "updated": "updated_at"}
ORDER = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
YES, NO = split("yes true ja ✓ ✔ ✅"), split("no false nein ✗ ✘ ❌")
NUMBER = r"\d{1,3}(?:(?:,\d{3}){2,}(?:\.\d+)?|(?:\.\d{3}){2,}(?:,\d+)?|(?:,\d{3})+\.\d+|(?:\.\d{3})+,\d+" \
    r"|(?:[ '’]\d{3})+(?:[.,]\d+)?)|\d+[.,]\d+|\d+"
CODES = split("EUR USD GBP NOK SEK DKK CHF PLN JPY CNY CZK HUF AUD CAD INR BRL KRW")
MONEY = {code.lower(): code for code in CODES} | dict(pair.split("=") for pair in split(
    "€=EUR euro=EUR euros=EUR $=$ dollar=$ dollars=$ us$=USD £=GBP ¥=¥ zł=PLN kr=kr kr.=kr kroner=kr kronor=kr"))
TIMES = """1e-9 ns nanosecond nanoseconds; 1e-6 μs us microsecond microseconds; 1e-3 ms msec millisecond milliseconds
    millisekunde millisekunden; 1 s sec secs second seconds sekunde sekunden; 60 min mins minute minutes minuten m;
    3600 h hr hrs hour hours stunde stunden; 86400 d day days tag tage tagen; 604800 week weeks woche wochen"""
TIME = {name: (Fraction(each.split()[0]), "s") for each in TIMES.split(";") for name in each.split()[1:]} | {
    name: (Fraction(1 + 11 * (name[0] in "yj")), "months") for name in
    split("mo month months monat monate monaten year years jahr jahre jahren")}
SIZES = [(unit**power, "kMGTP"[power - 1] + end) for power in range(1, 6) for unit, end in ((1000, "B"), (1024, "iB"))]
LONG = {f"{word}byte": 1000**power for power, word in enumerate(("", "kilo", "mega", "giga", "tera", "peta"))}
BYTES = {n.lower(): size for size, n in SIZES} | LONG | {f"{name}s": size for name, size in LONG.items()} | {"b": 1}
NAMES = """january januar jan|february februar feb|march märz mars mar mär|april apr|may mai|june juni jun|july juli jul
    |august aug|september sep sept|october oktober oct okt|november nov|december dezember desember dec dez"""
MONTH = {name: number for number, names in enumerate(NAMES.split("|"), 1) for name in names.split()}
DAYS = (r"(?P<y>\d{4})[-/](?P<m>\d\d)[-/](?P<d>\d\d)", r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})",
        r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)? (?P<n>[^\W\d_]{3,9})\.?,? (?P<y>\d{4})",
        r"(?P<n>[^\W\d_]{3,9})\.? (?P<d>\d{1,2})(?:st|nd|rd|th)?,? (?P<y>\d{4})")
MARKS = ((r"(?i)<br ?/?>", " "), (r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?: \"[^\"]*\")?\)", r"\1"),
         (r"(?<!`)(`{1,3})(?!`)([^`]+)\1(?!`)", r"\2"),
         (r"(?<![\w*\\])(\*{1,3})(?=[^\s*])([^*]*[^\s*\\])\1(?![\w*])", r"\2"),
         (r"(?<![\w\\])(_{1,3})(?=[^\s_])([^_]*[^\s_\\])\1(?!\w)", r"\2"), (r"\\([\\`*_\[\]|<>#~-])", r"\1"))

class CountError(Exception):
    """Why a set cannot be counted."""

def digest(shape: object) -> str:
    text = json.dumps(shape, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

def plain(text: str) -> str:
    """Return a text as it is compared."""
    return " ".join(re.sub("[*`]", "", unicodedata.normalize("NFKC", text).casefold()).split())

def shown(text: str) -> str:
    """Return a cell without Markdown's marks."""
    for pattern, by in MARKS:
        text = re.sub(pattern, by, text)
    return " ".join(text.split())

def has(text: str, words: str) -> bool:
    """Return whether words are in a text with no letter, digit or underscore beside them."""
    text, words, at = f" {plain(text)} ", plain(words), -1
    while words and (at := text.find(words, at + 1)) >= 0:
        if not any(letter.isalnum() or letter == "_" for letter in (text[at - 1], text[at + len(words)])):
            return True
    return False

def number(text: str) -> Fraction | None:
    """Return a number; None for what is none, or may be a thousand or one and a fraction."""
    bare = text[1:] if text[:1] in ("-", "−", "+") else text
    if not re.fullmatch(NUMBER, bare) or re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", bare):
        return None
    parts, marks = re.split("[.,]", re.sub("[ '’]", "", bare)), re.findall("[.,]", bare)
    fraction = parts.pop() if len(marks) == 1 or len(set(marks)) == 2 else "0"
    return Fraction(f"{''.join(parts)}.{fraction}") * (-1 if text[0] in "-−" else 1)

def value(text: str) -> tuple[str, Fraction, str] | None:
    """Return kind, amount and unit of what is a value as a whole."""
    text = " ".join(text.split())
    low, sign = text.casefold(), r"[+\-−]?"
    if len(text) > 40 or low in (*YES, *NO):
        return ("flag", Fraction(low in YES), "") if low in (*YES, *NO) else None
    for told in [match.groupdict() for pattern in DAYS if (match := re.fullmatch(pattern, low))]:
        try:
            day = date(int(told["y"]), MONTH.get(told["n"], 0) if "n" in told else int(told["m"]), int(told["d"]))
            return "date", Fraction((day - date(1970, 1, 1)).days), ""
        except ValueError:
            return None
    found = [("number", number(text), "")]
    for name, unit in [*((name, "%") for name in ("%", "percent", "per cent", "prozent")), *MONEY.items()]:
        kind, cut = "number" if unit == "%" else "money", re.escape(name)
        sides = re.fullmatch(f"({sign}.*?) ?{cut}", text, re.I), re.fullmatch(f"{cut} ?(.*)", text, re.I)
        found += [(kind, number(side[1]), unit) for side in sides[: 1 + (kind == "money")] if side and side[1]]
    found.append(("duration", *duration(text, low)))
    if (match := re.fullmatch(r"(\d.*?) ?([A-Za-z]+)", text)) and (match[2][-1] != "b" or match[2] == match[2].lower()):
        size, amount = BYTES.get(match[2].lower()), number(match[1])
        found.append(("size", amount * size if size and amount is not None else None, "B"))
    return next(((kind, amount, unit) for kind, amount, unit in found if amount is not None), None)

def duration(text: str, low: str) -> tuple[Fraction | None, str]:
    """Return seconds or months with their unit; None for a mixture."""
    if match := re.fullmatch(r"P(?=[\dT])(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
                             r"(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text):
        years, months, *rest = (Fraction(part or 0) for part in match.groups())
        seconds = sum((size * part for size, part in zip((604800, 86400, 3600, 60, 1), rest, strict=True)), Fraction(0))
        months += 12 * years
        return (None, "") if months and seconds else (months, "months") if months else (seconds, "s")
    total, last, unit = Fraction(0), Fraction(0), ""
    while match := re.match(rf"({NUMBER}) ?([^\W\d_]+)(?!_) ?", low):
        amount, (size, kind) = number(match[1]), TIME.get(match[2], (Fraction(0), ""))
        is_next = size and (not unit or (size < last and unit == kind)) and (match[2] != "m" or last == 3600)
        if amount is None or not is_next:
            return None, ""
        total, last, unit, low = total + amount * size, size, kind, low[match.end() :]
    if last == 3600 and re.fullmatch(r"[0-5]?\d", low):
        return total + 60 * int(low), unit
    return (total, unit) if unit and not low else (None, "")

def is_shown(text: Any, made: Any) -> bool:
    """Return whether a text is what was made, with two decimals at most."""
    one = value(str(text)) if isinstance(made, tuple) else None
    return bool(text == made if one is None else one[::2] == made[::2] and abs(one[1] - made[1]) * 200 <= 1)

def units_of(chunk: Row) -> tuple[list[tuple[Any, ...]], str]:
    """Return the units of a chunk, each kind, start, end, block, marker and depth, and the header carried into it."""
    rows, carried, *_ = json.loads(chunk["structure"])
    whole = [[*row, *(0, -1, -1, -1, 0)[len(row) - 3 :]] for row in rows]
    kinds = ("sentence", "list", "table", "code", "heading", "header")
    return [(kinds[row[0]], row[1], row[1] + row[2], row[3], row[4], row[7]) for row in whole], carried

def table_rows(chunk: Row) -> Iterator[tuple[str, str, int, bool]]:
    """Yield the rows of a chunk's tables: the line of their header, their own, where it begins, whether it is whole."""
    units, carried = units_of(chunk)
    begins = [unit[4] if unit[4] >= 0 else unit[1] for unit in units]
    lines = [chunk["text"][begin:].split("\n")[0].strip() for begin in begins]
    for unit, begin, line in zip(units, begins, lines, strict=True):
        if unit[0] == "table":
            own = [one for each, one in zip(units, lines, strict=True) if each[0] == "header" and each[3] == unit[3]]
            header = own[0] if own else carried if unit[3] == units[0][3] else ""
            yield header, line, begin, unit[4] >= 0 and line.endswith("|")

def cells(line: str) -> list[str]:
    return [shown(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]

def named(header: list[str], row: list[str]) -> Cells:
    """Return the cells of a row with a name for each, no two alike."""
    width = max(len(header), len(row))
    names = [name or f"Column {place}" for place, name in enumerate([*header, *[""] * (width - len(header))], 1)]
    counts = [sum(plain(each) == plain(name) for each in names[: place + 1]) for place, name in enumerate(names)]
    names = [name if count == 1 else f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    return list(zip(names, [*row, *[""] * (width - len(row))], strict=True))

def properties(chunk: Row, key: str) -> Iterator[str]:
    """Yield the values of a key: of rows of two cells without a header, then of lines with a colon."""
    for header, line, _, is_whole in table_rows(chunk):
        if not header and is_whole and len(pair := cells(line)) == 2 and plain(pair[0]) == plain(key):
            yield pair[1]
    start, units = 0, units_of(chunk)[0]
    for line in chunk["text"].split("\n"):
        unit = next((unit for unit in units if unit[2] > start), ("", 0, 0))
        bare = re.sub(r"^\s*(?:>\s?)*(?:(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?)?", "", line)
        match = re.fullmatch(r"([^:|]{1,60}?)\s*:\s+(\S.*)", shown(bare))
        if unit[1] < start + len(line) and unit[0] in ("sentence", "list") and match and plain(match[1]) == plain(key):
            yield match[2]
        start += len(line) + 1

def fits(texts: list[str], comparison: str, wanted: str) -> bool:
    """Return whether one of some texts fits; of `ne`, that none is the value."""
    if comparison not in ORDER:
        one = any(has(text, wanted) if comparison == "contains" else plain(text) == plain(wanted) for text in texts)
        return one != (comparison == "ne")
    if (measure := value(wanted)) is None or measure[0] == "flag":
        raise CountError(f"{wanted!r} has no order")
    return any(ORDER[comparison](one[1], measure[1]) for one in map(value, texts) if one and one[::2] == measure[::2])

class Corpus:
    """Hold what some reader classes open of a generation."""

    def __init__(self, chunks: list[Row], facts: list[Row], classes: list[str]) -> None:
        self.pages = {row["page_id"]: row for row in facts if row["readers"] in classes}
        self.chunks: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(chunks, key=lambda row: int(row["chunk_idx"])):
            self.chunks[row["page_id"]] += [row] if row["readers"] in classes else []

    def texts(self, page: Row, name: str) -> list[str]:
        """Return the texts of a field of a page."""
        if name.startswith("property:"):
            return [text for chunk in self.chunks[page["page_id"]] for text in properties(chunk, name[9:])]
        if name == "above":
            return [each for each in page["ancestors"] or () if each in self.pages]
        if name == "links_to":
            pairs = [(link["page_id"], link["url"]) for link in page["links"] or ()]
            return [each for one, url in pairs for each in (one if one in self.pages else None, url) if each]
        if name == "linked_from":
            targets = {key: [link["page_id"] for link in one["links"] or ()] for key, one in self.pages.items()}
            return [key for key, found in targets.items() if page["page_id"] in found]
        if name not in COLUMN:
            raise CountError(f"pages have no field {name!r}")
        found = page[COLUMN[name]]
        told = [] if found is None else [str(found)[: 10 if name == "updated" else None]]
        return found or [] if name == "label" else told

    def page_fits(self, page: Row, name: str, comparison: str, wanted: str) -> bool:
        if name == "mentions":
            chunks = self.chunks[page["page_id"]]
            texts = [text for chunk in chunks for text in (chunk["text"], *(chunk["heading_path"] or ()))]
            return fits([page["title"], *texts], "contains", wanted)
        texts = self.texts(page, name)
        if name == "updated":
            compare = ORDER.get(comparison, operator.eq)
            return any(compare(text[: len(wanted)], wanted) for text in texts) != (comparison == "ne")
        if name in ("above", "links_to", "linked_from"):
            return (wanted in texts) == (comparison == "eq")
        return fits(texts, comparison, wanted)

    def parts(self, kind: str, page_id: str, anchor: str) -> Iterator[tuple[str, Cells]]:
        """Yield the rows, items or headings of a section: key and cells."""
        page = self.chunks[page_id]
        own = [chunk for chunk in page if chunk["anchor"] == anchor or (kind == "headings" and not anchor)]
        if not own:
            raise CountError(f"there is no section {anchor!r} on page {page_id}")
        if kind == "headings":
            yield from headings(page, own[0]["heading_path"][: None if anchor else 1])
        for chunk in own if kind == "rows" else []:
            for header, line, start, is_whole in table_rows(chunk):
                if header and not is_whole:
                    raise CountError(f"a row of {chunk['chunk_id']} is cut")
                if header:
                    yield f"{chunk['chunk_id']}:{start}:{start + len(line)}", named(cells(header), cells(line))
        for chunk in own if kind == "items" else []:
            for unit, start, _, block, marker, depth in (units := units_of(chunk)[0]):
                if unit == "list" and marker >= 0 and depth == 0:
                    end = max(each[2] for each in units if each[3] == block)
                    yield f"{chunk['chunk_id']}:{start}:{end}", [("text", shown(chunk["text"][start:end]))]

    def count(self, query: Row) -> tuple[list[tuple[str, Cells]], Any, dict[str, tuple[int, Any]]]:
        """Return the members of a query with their cells, in order, its value, and its groups."""
        asked = [*(each[0] for each in query["where"]), query["column"], query["group"], (query["order"] or [None])[0]]
        names = [name for name in dict.fromkeys(asked) if name]
        if query["kind"] == "pages":
            pages = [page for page in self.pages.values() if page["kind"] in ("page", "document")
                     and all(self.page_fits(page, *each) for each in query["where"])]
            pages.sort(key=lambda page: (plain(page["title"]), page["page_id"]))
            names = list(dict.fromkeys(["title", "space", "updated", *names]))
            names = [name for name in names if name in COLUMN or name.startswith("property:")]
            keys, rows = [page["page_id"] for page in pages], [{n: self.texts(one, n) for n in names} for one in pages]
            told = [[(name.removeprefix("property:"), ", ".join(row[name])) for name in names] for row in rows]
        else:
            sections = dict.fromkeys(map(tuple, query["sections"]))
            parts = list(dict(part for each in sections for part in self.parts(query["kind"], *each)).items())
            if missing := set(map(plain, names)) - {plain(name) for _, row in parts for name, _ in row}:
                raise CountError(f"there is no column {min(missing)!r}")
            every = [{n: [text for each, text in row if plain(each) == plain(n)] for n in names} for _, row in parts]
            kept = [at for at, row in enumerate(every)
                    if all(row[name] and fits(row[name], *rest) for name, *rest in query["where"])]
            keys, told, rows = [parts[at][0] for at in kept], [parts[at][1] for at in kept], [every[at] for at in kept]
        places = ordered(query, rows)
        kept_rows = [rows[at] for at in places]
        return [(keys[at], told[at]) for at in places], total(query, kept_rows), grouped(query, kept_rows)

def headings(page: list[Row], path: list[str]) -> Iterator[tuple[str, Cells]]:
    last = anchor = None
    for chunk in page:
        own, name = chunk["heading_path"], (chunk["heading_path"][len(path) :] or [None])[0]
        name, is_child = name if own[: len(path)] == path else None, len(own) == len(path) + 1
        if name is not None and (name != last or (is_child and anchor not in (None, chunk["anchor"]))):
            yield chunk["chunk_id"], [("text", name)]
            anchor = None
        last, anchor = name, chunk["anchor"] if is_child else anchor

def single(rows: Sequence[dict[str, list[str]]], name: str) -> list[str]:
    """Return the one text of a field of each member."""
    if any(len(set(map(plain, row[name]))) > 1 for row in rows):
        raise CountError(f"a member has several values of {name}")
    return ["" if not row[name] or row[name][0] in ("-", "–", "—") else row[name][0] for row in rows]

def ordered(query: Row, rows: Sequence[dict[str, list[str]]]) -> list[int]:
    """Return the places of the members that are kept, in order."""
    if not query["order"]:
        return list(range(len(rows)))
    name, is_reverse = query["order"]
    texts = single(rows, name)
    values = {text: value(text) for text in texts if text}
    kinds = {one and one[::2] for one in values.values()}
    if name != "title" and len(kinds) > 1:
        raise CountError(f"the values of {name} have no common order")
    is_words = name == "title" or kinds <= {None}
    keys: list[Any] = [plain(text) if is_words else (values.get(text) or ("", 0))[1] for text in texts]
    places = sorted((at for at, text in enumerate(texts) if text), key=lambda at: keys[at], reverse=is_reverse)
    if not query["first"]:
        return places + [at for at, text in enumerate(texts) if not text]
    border = [keys[at] for at in places[: query["first"]]][-1:]
    return [at for number, at in enumerate(places) if number < query["first"] or [keys[at]] == border]

def total(query: Row, rows: Sequence[dict[str, list[str]]]) -> Any:
    """Return the value of a query over its members: as a text, or by kind, amount and unit."""
    operation, column = query["operation"], query["column"]
    if operation in ("count", "list"):
        one = single(rows, column)[0] if operation == "list" and column and len(rows) == 1 else ""
        return str(len(rows)) if operation == "count" else one or None
    values = [value(text) for text in single(rows, column) if text]
    kinds = {one and one[::2] for one in values}
    able = ["number", "money", "duration", "size", *(["date"] if operation in ("min", "max") else [])]
    if len(kinds) != 1 or not values[0] or values[0][0] not in able:
        raise CountError(f"{column} has no {operation}")
    made = {"min": min, "max": max}.get(operation, sum)(one[1] for one in values if one)
    return values[0][0], Fraction(made) / (len(values) if operation == "average" else 1), values[0][2]

def grouped(query: Row, rows: Sequence[dict[str, list[str]]]) -> dict[str, tuple[int, Any]]:
    """Return how many members have each value of the grouping field, and their own value."""
    parts: dict[str, list[dict[str, list[str]]]] = defaultdict(list)
    for row in rows if query["group"] else []:
        for name in {plain(text) for text in row[query["group"]] or [""]}:
            parts[name].append(row)
    is_made = query["operation"] not in ("list", "count")
    return {name: (len(those), total(query, those) if is_made and any(single(those, query["column"])) else None)
            for name, those in parts.items()}

def identity_faults(receipt: Row, identifier: str | None) -> Iterator[str]:
    """Yield what is wrong with the id; whoever did not ask is shown a receipt without some fields, which has no id."""
    stored = {**receipt, "question": None} if "sealed" in receipt else receipt
    if "asker" not in receipt:
        print("not checked: the id, because who asked is not shown")
    elif identifier and digest(stored)[:32] != identifier:
        yield f"id: the receipt has {digest(stored)[:32]}, not {identifier}"
    else:
        print(f"the receipt's id is {digest(stored)[:32]}")

def generation_faults(receipt: Row, folder: Path, manifest: Row, files: Sequence[str]) -> Iterator[str]:
    """Yield where the generation is another, or a file of it is not what its manifest says."""
    if not receipt["generation"] == manifest["id"] == digest({n: manifest[n] for n in IDENTITY if n in manifest})[:16]:
        yield f"generation: this is {manifest['id']}, or was altered; the receipt is of {receipt['generation']}"
    for name in files:
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != manifest["files"][name]["sha256"]:
            yield f"generation: {name} has another SHA-256 than the manifest says"

def passage_faults(receipt: Row, chunks: dict[str, Row]) -> Iterator[str]:
    """Yield the passages with another text or version, and the citations whose quote is not at its place."""
    places = {each["index"]: each for each in receipt["passages"]}
    for index, each in places.items():
        chunk = chunks.get(each["chunk_id"], {"text": "", "version": None, "page_id": None})
        is_same = hashlib.sha256(chunk["text"].encode()).hexdigest()[:32] == each["text_hash"]
        if not is_same or (chunk["version"], chunk["page_id"]) != (each["page_version"], each["page_id"]):
            yield f"passage [{index}]: {each['chunk_id']} has another text, version or page"
        elif chunk["readers"] not in receipt.get("readers", [chunk["readers"]]):
            yield f"passage [{index}]: {each['chunk_id']} is open to others than the receipt's readers"
    for each in receipt["citations"]:
        chunk, passage = chunks.get(each["chunk_id"], {"text": ""}), places.get(each["passage"], {"chunk_id": None})
        if passage["chunk_id"] != each["chunk_id"]:
            yield f"citation [{each['index']}]: it is of no passage of the receipt"
        elif not each["quote"] or chunk["text"][each["start"] : each["end"]] != each["quote"]:
            yield f"citation [{each['index']}]: the quote is not at its offsets"
        elif [each["page_version"], each["page_id"]] != [chunk["version"], chunk["page_id"]]:
            yield f"citation [{each['index']}]: its page or version is another"

def set_faults(stated: Row, corpus: Corpus) -> Iterator[str]:
    """Yield the members that are missing or none, and whatever else another count finds otherwise."""
    try:
        counted, made, groups = corpus.count(stated["query"])
    except CountError as error:
        yield f"set: it cannot be counted ({error})"
        return
    true, said = [[key, digest(row)] for key, row in counted], stated["members"]
    for note, those, others in (("is missing", true, said), ("is none, or has other cells", said, true)):
        yield from (f"set: member {each[0]} {note}" for each in those if each not in others)
    if said != true and all(each in true for each in said):
        yield "set: its members are in another order, or one is there twice"
    if not is_shown(stated["value"], made):
        yield f"set: its value is {made}, not {stated['value']}"
    noted = {plain(name): (number, result) for name, number, result in stated.get("groups", ())}
    if noted.keys() != groups.keys() or not all(noted[name][0] == number and is_shown(noted[name][1], result)
                                                for name, (number, result) in groups.items()):
        yield f"set: its groups are {groups}"
    shape = {"query": stated["query"], "members": [[key, *row] for key, row in counted], "value": stated["value"]}
    if stated["digest"] != digest(shape):
        yield "set: its digest is another"

def faults_of(receipt: Row, folder: Path, identifier: str | None = None) -> list[str]:
    """Return the faults of a receipt, one per line."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    chunk_files = sorted(name for name in manifest["files"] if name.rpartition("/")[2] == "chunks.parquet")
    beside = ["page_facts.parquet", "duplicates.parquet"] if "set" in receipt else []
    faults = [*identity_faults(receipt, identifier)]
    faults += generation_faults(receipt, folder, manifest, [*chunk_files, *beside])
    names = ["chunk_id", "page_id", "version", "chunk_idx", "heading_path", "anchor", "text", "structure", "readers"]
    rows = [row for name in chunk_files for row in parquet.read_table(folder / name, columns=names).to_pylist()]
    faults += passage_faults(receipt, {row["chunk_id"]: row for row in rows})
    if "set" in receipt:
        facts, others = (parquet.read_table(folder / name).to_pylist() for name in beside)
        stated, readers = receipt["set"], receipt["readers"]
        if "among" in stated:  # of pages alone that are open in that generation, too, and show no other page's text
            now = folder.parent / stated["among"]
            published = json.loads((now / "manifest.json").read_text("utf-8"))
            faults += generation_faults({"generation": stated["among"]}, now, published, beside[:1])
            pages = parquet.read_table(now / beside[0]).to_pylist()
            still = {row["page_id"] for row in pages if row["readers"] in readers}
            facts = [row for row in facts if row["page_id"] in still and still.issuperset(row["includes"])]
        if "older" in stated:
            return [*faults, "set: changes are compared by `citelock receipt verify` alone"]
        kept = {row["page_id"] for row in facts}
        faults += set_faults(stated, Corpus([row for row in rows + others if row["page_id"] in kept], facts, readers))
        if stated.get("generation", receipt["generation"]) != receipt["generation"]:
            faults.append("set: it is of another generation")
    return faults

if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or "--help" in sys.argv:
        sys.exit(__doc__)
    try:
        receipt_shown = json.loads(Path(sys.argv[1]).read_text("utf-8"))
        found_faults = faults_of(receipt_shown, Path(sys.argv[2]), *sys.argv[3:4])
    except (OSError, ValueError) as error:
        sys.exit(f"the receipt or the generation cannot be read: {error}")
    print("\n".join(found_faults) or f"{len(receipt_shown['citations'])} quotes hold" + (
        f"; the set has exactly {len(receipt_shown['set']['members'])} members" if "set" in receipt_shown else ""))
    sys.exit(bool(found_faults))
