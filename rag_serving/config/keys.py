"""The names of all keys of the configuration, in file and environment, and the nearest one to a wrong name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin
from urllib.parse import unquote

from pydantic import BaseModel

PREFIX, DELIMITER = "CITELOCK_", "__"

_PROGRAM = frozenset({"CITELOCK_CONFIG", "CITELOCK_SECRET", "CITELOCK_TOKENS", "CITELOCK_DEBUG"})
_OF_TESTS = frozenset(
    {
        "CITELOCK_ADVERSARY", "CITELOCK_CACHE_PAIRS", "CITELOCK_CLUSTER_BROKER", "CITELOCK_CLUSTER_DATA",
        "CITELOCK_CLUSTER_KILLS", "CITELOCK_COMPOSE",
        "CITELOCK_ECONOMY_PAGES", "CITELOCK_ECONOMY_REQUEST_S",
        "CITELOCK_FALSE_SENTENCES", "CITELOCK_FAULTS",
        "CITELOCK_GROWTH", "CITELOCK_HOSTILE", "CITELOCK_IMAGES", "CITELOCK_IMAGES_STORE",
        "CITELOCK_INJECTIONS", "CITELOCK_KILLS",
        "CITELOCK_ALTERATIONS", "CITELOCK_LEAK_BACKENDS", "CITELOCK_LEAK_COMPARISONS",
        "CITELOCK_LEAK_DOORS", "CITELOCK_LEAK_PAIRS",
        "CITELOCK_LEAK_SEED",
        "CITELOCK_MODEL_QUESTIONS", "CITELOCK_MUTATED_FILES", "CITELOCK_MUTATIONS", "CITELOCK_OBJECT_KILLS",
        "CITELOCK_AZURITE", "CITELOCK_OBJECT_PUBLISHERS", "CITELOCK_OBJECT_RACES", "CITELOCK_OFFICE_ANEW",
        "CITELOCK_OPEN_STREAMS", "CITELOCK_POSTGRES_CHUNKS", "CITELOCK_REBUILDS",
        "CITELOCK_PARTIAL_UNITS", "CITELOCK_PUSH_EVENTS", "CITELOCK_QUALITY",
        "CITELOCK_SCREENSHOTS", "CITELOCK_STATEFUL_EXAMPLES",
    }
)  # fmt: skip
# Set by Kubernetes in every pod beside a service named `citelock` or `citelock-…`.
_OF_KUBERNETES = re.compile(r"CITELOCK(_[A-Z0-9_]{1,200})?_(SERVICE_(HOST|PORT)|PORT)(_[A-Z0-9_]{1,200})?")
_IN_KUBERNETES = "KUBERNETES_SERVICE_HOST"
# A user alone is a token over HTTP, and only a name to a database.
_URL_PASSWORD = re.compile(r"(?:://[^\s/?#@:]*:|(?<=http)://|(?<=https)://)([^\s/?#@]+)@", re.IGNORECASE)

Models = Sequence[type[BaseModel]]


def nearest_key(config: type[BaseModel], location: Sequence[object]) -> str | None:
    """Return the key that was probably meant by the unknown one at the end of a pydantic location, None where none is
    like it.

    One of the same section comes first; one of another section is given with its section.
    """
    *section, wrong = [str(part) for part in location]
    own = {name for model in _models_at((config,), section) for name in model.model_fields}
    if near := get_close_matches(wrong, sorted(own), n=1, cutoff=0.6):
        return near[0]
    elsewhere = {path.rpartition(".")[2]: path for path in sorted(_paths(config), reverse=True)}
    near = get_close_matches(wrong, sorted(elsewhere), n=1, cutoff=0.8)
    return elsewhere[near[0]] if near else None


def unknown_variable(config: type[BaseModel], environment: Mapping[str, str], content: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the first variable that looks like a key and is none, in a line; None where all are
    known.

    `content`: the configuration file's, whose keys `…_env` may name variables as they like.
    """
    named = {*_PROGRAM, *_OF_TESTS, *_named(content)}
    named |= {value for name, value in environment.items() if name.upper().endswith("_ENV")}
    for name in sorted(environment):
        upper = name.upper()
        if not upper.startswith(PREFIX) or not environment[name] or upper in named or name in named:
            continue
        if _IN_KUBERNETES in environment and _OF_KUBERNETES.fullmatch(upper):
            continue
        keys = upper.removeprefix(PREFIX).lower().split(DELIMITER)
        if now := next(filter(None, (replaced(config, keys[:end]) for end in range(1, len(keys) + 1))), None):
            return f"{name} is now {now}"
        if not _is_key(config, keys):
            near = _nearest_variable(config, upper)
            mend = f"did you mean {near}?" if near else "a key is set as CITELOCK_SECTION__KEY (docs/configuration.md)"
            return f"unknown environment variable {name}; {mend}"
    return None


def replaced(config: type[BaseModel], location: Sequence[object]) -> str | None:
    """Return what a key of an earlier version is now; None where it was none."""
    *section, name = [str(part) for part in location]
    for model in _models_at((config,), section):
        if now := getattr(model, "gone", {}).get(name):
            return str(now)
        if name in model.__class_vars__ and name != "gone":
            return f"fixed at {getattr(model, name)}; delete it"
    return None


def variable_of(keys: Sequence[str]) -> str:
    """Return the variable that sets a key, given by its path."""
    return PREFIX + DELIMITER.join(keys).upper()


def _nearest_variable(config: type[BaseModel], wrong: str) -> str | None:
    known = {variable_of(path.split(".")) for path in _paths(config)} | _PROGRAM
    known |= {variable_of([name]) for name in config.model_fields}
    _, _, rest = wrong.removeprefix(PREFIX).partition(DELIMITER)
    if rest:  # of sections whose keys are names: sources, tenants
        known |= {variable_of([name, rest]) for name, field in config.model_fields.items() if _is_mapping(field)}
    names = sorted(name.removeprefix(PREFIX) for name in known)
    near = get_close_matches(wrong.removeprefix(PREFIX), names, n=1, cutoff=0.6)
    return PREFIX + near[0] if near else None


def _is_key(config: type[BaseModel], keys: Sequence[str]) -> bool:
    """Return whether a path of lower-case keys leads to a value; what lies below a mapping of free names is not looked
    at."""
    models: Models = (config,)
    for number, key in enumerate(keys):
        fields = [field for model in models for name, field in model.model_fields.items() if name.lower() == key]
        if not fields:
            return False
        if any(_is_mapping(field) for field in fields):
            return True
        models = [model for field in fields for model in _models(field.annotation)]
        if not models:
            return number == len(keys) - 1
    return True


def _models_at(models: Models, keys: Sequence[str]) -> Models:
    """Return the models that may stand at a pydantic location: names of a mapping lead nowhere, tags of a union narrow
    it."""
    for key in keys:
        fields = [model.model_fields[key] for model in models if key in model.model_fields]
        if fields:
            models = [model for field in fields for model in _models(field.annotation)]
        else:
            kinds = ((model, model.model_fields.get("kind")) for model in models)
            models = [model for model, kind in kinds if kind and key in get_args(kind.annotation)] or models
    return models


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _is_mapping(field: Any) -> bool:
    return get_origin(field.annotation) is dict


def _paths(config: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield every key with its section, such as `retrieval.dense_k`; without those below free names."""
    for name, field in config.model_fields.items():
        inner = [] if _is_mapping(field) else _models(field.annotation)
        if not inner:
            yield f"{before}{name}"
        for model in inner:
            yield from _paths(model, f"{before}{name}.")


def secret_variables(content: object) -> Iterator[str]:
    """Yield the names of the variables whose values are secret; that of a user's name is not."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            if name == "env" and isinstance(value, list):
                yield from map(str, value)
            elif name.endswith("_env") and name != "user_env" and isinstance(value, str):
                yield value
            yield from secret_variables(value)


def url_passwords(content: object) -> Iterator[str]:
    """Yield the passwords in the addresses of a configuration, as they are written and as they are sent."""
    if isinstance(content, str) and "://" in content:
        match = _URL_PASSWORD.search(content)
        yield from (match[1], unquote(match[1])) if match else ()
    elif isinstance(content, Mapping | list):
        for value in content.values() if isinstance(content, Mapping) else content:
            yield from url_passwords(value)


def _named(content: object, key: str = "") -> Iterator[str]:
    """Yield the names of variables that a configuration gives: the values of its keys `…_env`."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _named(value, str(name))
    elif isinstance(content, list):
        for value in content:
            yield from _named(value, key)
    elif key.endswith("_env") and isinstance(content, str):
        yield content
