"""Names of people in a text, by a token-classification model. torch and transformers are imported when the first text
is read. A model that cannot be opened, or fails, is an error: the caller must not take that for a text without
names."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rag_serving.cli.printing import Finding
from rag_serving.privacy import NamesError, Span
from rag_serving.text.normalization import UNSPACED

if TYPE_CHECKING:
    from rag_serving.config.loading import Config

_PACKAGES = ("torch", "transformers")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_HEAD = "ForTokenClassification"
_LABELS = frozenset({"PER", "PERS", "PERSON", "NAME", "GIVENNAME", "FIRSTNAME", "MIDDLENAME", "SURNAME", "LASTNAME"})
_SCHEME = re.compile(r"^[BIELSU][-_]")
_MOST_TOKENS = 512
_WINDOWS_AT_ONCE = 16
_KEPT_TEXTS = 256
_LONGEST_OPENING_S = 60.0
_SURROGATE = re.compile("[\ud800-\udfff]")  # no character to a tokenizer
_NO_SPACES = re.compile(f"[{UNSPACED}]")
_BETWEEN = re.compile(r"[\s.'’-]{0,3}")
"""What may stand between two words of one name."""


class NameFinder:
    """Finds names of people by the model of one folder. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """Open nothing yet."""
        self._folder = folder
        self._opening = threading.Lock()
        self._opener: int | None = None
        self._model: _Model | NamesError | None = None
        self._recent: dict[bytes, list[Span]] = {}

    def spans(self, text: str) -> list[Span]:
        """Return where the names of a text begin and end. Spans of recent texts are remembered by their digests. Raises
        NamesError: the model cannot be opened, or failed."""
        digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
        found = self._recent.get(digest)
        if found is None:
            found = list(_joined(text, _widened(text, self._opened().tokens(text))))
            if len(self._recent) >= _KEPT_TEXTS:
                self._recent = {}
            self._recent[digest] = found
        return found

    def _opened(self) -> _Model:
        """Return the model. One that could not be opened is not tried again by this process."""
        if self._model is None:
            self._open()
        if isinstance(self._model, _Model):
            return self._model
        raise NamesError(str(self._model))

    def _open(self) -> None:
        """Open the model, or wait until another thread has."""
        # A waiting thread may have the lock of the log, which the thread that opens the model may need.
        if self._is_mine or not self._opening.acquire(timeout=_LONGEST_OPENING_S):
            raise NamesError("the model of names is being opened")
        try:
            self._opener = threading.get_ident()
            self._model = self._model or _Model(self._folder)
        except NamesError as error:
            self._model = error
        finally:
            self._opener = None
            self._opening.release()

    @property
    def _is_mine(self) -> bool:
        """Return whether this thread is opening the model: it also reads what the libraries log meanwhile."""
        return self._opener == threading.get_ident()


@cache
def name_finder(folder: Path) -> NameFinder:
    """Return the finder of a folder, one in a process: its model is opened once."""
    return NameFinder(folder)


def check_names_model(folder: Path) -> None:
    """Refuse a folder that cannot be a model of names, without opening it. Raises NamesError: packages are missing, or
    the folder has no token classifier with a label of persons."""
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise NamesError(f"names of people take {missing[0]}, which is not installed; pip install 'citelock[names]'")
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        architectures, labels = list(settings.get("architectures") or ()), dict(settings.get("id2label") or {})
    except (OSError, ValueError, TypeError, AttributeError):
        raise NamesError(f"{folder} is no folder of a model: it has no config.json that can be read") from None
    if not any(str(name).endswith(_HEAD) for name in architectures):
        told = ", ".join(map(str, architectures)) or "no architecture named"
        raise NamesError(f"{folder} has no token classifier ({told}); take a model of named entities")
    names = list(map(str, labels.values()))
    if not any(map(_is_person, names)):
        raise NamesError(f"{folder} has no label of persons, such as PER; it has {', '.join(names)}")
    if not any((folder / name).is_file() for name in _WEIGHTS):
        raise NamesError(f"{folder} has no {_WEIGHTS[0]}; save the model again in the format safetensors")


def _is_person(label: str) -> bool:
    """Return whether a label is one of persons, without marks of the beginning and the end of an entity."""
    return re.sub(r"[^A-Z]", "", _SCHEME.sub("", label.upper())) in _LABELS


class _Model:
    """A token classifier with its tokenizer."""

    def __init__(self, folder: Path) -> None:
        """Open it and read a word with it. Raises NamesError: it cannot be opened, or fails."""
        check_names_model(folder)
        self._tokenizing = threading.Lock()  # truncation is state of the tokenizer
        try:
            self._open(str(folder))
            list(self._labelled("Ann"))
        except NamesError:
            raise
        except Exception as error:  # of several libraries, about files that may be anything
            said = " ".join(str(error).split())[:300]
            raise NamesError(f"the model of names {folder} cannot be opened: {type(error).__name__}: {said}") from error

    def _open(self, folder: str) -> None:
        from transformers import AutoModelForTokenClassification, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        self._tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, local_files_only=True)
        if not self._tokenizer.is_fast:
            raise NamesError(f"the tokenizer of {folder} is no fast one, which says where its tokens stand")
        model, told = AutoModelForTokenClassification.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype="float32", output_loading_info=True
        )
        if told["missing_keys"]:
            raise NamesError(f"the weights of {folder} lack {min(told['missing_keys'])}")
        self._model = model.eval()
        self._persons = [number for number, label in model.config.id2label.items() if _is_person(label)]
        # Some families count positions from the padding token's id + 1: two less is within all of them.
        positions = int(getattr(model.config, "max_position_embeddings", 0) or 0) - 2
        limits = (_MOST_TOKENS, int(self._tokenizer.model_max_length), positions)
        self._window = min(limit for limit in limits if limit > 0)

    def tokens(self, text: str) -> list[Span]:
        """Return the spans of the tokens of names in a text, in its order. Raises NamesError: the model failed."""
        try:
            return sorted(set(self._labelled(_SURROGATE.sub("\ufffd", text))))
        except NamesError:
            raise
        except Exception as error:  # the message may quote the text
            raise NamesError(f"the model of names failed ({type(error).__name__})") from error

    def _labelled(self, text: str) -> Iterator[Span]:
        """Yield the tokens of names, window by window; in overlapping windows one vote suffices."""
        with self._tokenizing:
            encoded = self._tokenizer(
                text,
                truncation=True,
                max_length=self._window,
                stride=self._window // 4,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
            )
        offsets = encoded.pop("offset_mapping")
        encoded.pop("overflow_to_sample_mapping", None)
        for first in range(0, len(offsets), _WINDOWS_AT_ONCE):
            part = slice(first, first + _WINDOWS_AT_ONCE)
            flags = self._flags({name: column[part] for name, column in encoded.items()})
            for places, are_names in zip(offsets[part], flags, strict=True):
                for (start, end), is_name in zip(places, are_names, strict=False):  # the rest is padding
                    if is_name and end > start:
                        yield int(start), int(end)

    def _flags(self, windows: dict[str, Sequence[Sequence[int]]]) -> list[list[bool]]:
        """Return for each token of each window whether it is of a name: persons together outweigh any other label."""
        import torch

        inputs = self._tokenizer.pad(windows, padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(**inputs).logits.float()
        if not torch.isfinite(logits).all():
            raise NamesError("the model of names failed (its figures are no numbers)")
        shares = logits.softmax(-1)
        persons = shares[..., self._persons].sum(-1)
        shares[..., self._persons] = 0
        flags: list[list[bool]] = (persons >= shares.amax(-1)).tolist()
        return flags


def _widened(text: str, tokens: Sequence[Span]) -> Iterator[Span]:
    """Yield tokens, sorted, without the spaces around them and to the ends of their words; of each word once."""
    reached = 0
    for start, end in tokens:
        if end <= reached:
            continue
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        if start == end:
            continue
        while start > 0 and _is_within_word(text[start - 1], text[start]):
            start -= 1
        while end < len(text) and _is_within_word(text[end], text[end - 1]):
            end += 1
        reached = end
        yield start, end


def _is_within_word(character: str, beside: str) -> bool:
    """Return whether a character goes on with the word of the one beside it; combining marks do in every script."""
    if _is_mark(character):
        return True
    return _is_letter(character) and (_is_mark(beside) or _is_letter(beside))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _is_letter(character: str) -> bool:
    """Return whether a character is of a word with spaces around it."""
    return character.isalnum() and not _NO_SPACES.match(character)


def _joined(text: str, spans: Iterator[Span]) -> Iterator[Span]:
    """Yield spans of which those that touch, overlap or are words of one name are one."""
    begun: Span | None = None
    for start, end in sorted(spans):
        if begun and (start <= begun[1] or _BETWEEN.fullmatch(text, begun[1], start)):
            begun = begun[0], max(begun[1], end)
            continue
        if begun:
            yield begun
        begun = start, end
    if begun:
        yield begun


def examine(config: Config) -> Iterator[Finding]:
    """Yield the findings of `citelock doctor` on the model of names, if one is configured."""
    folder = config.privacy.names_model
    if folder is None or "names" not in config.privacy.redact:
        return
    try:
        name_finder(folder).spans("Ann")
    except NamesError as error:
        mend = "set privacy.names_model to a model that opens; until then lines, questions and comments are withheld"
        yield Finding("names", "fail", str(error), mend)
    else:
        yield Finding("names", "ok", f"{folder} finds names of people")
