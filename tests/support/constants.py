"""Configurations with other constants than the program's: smaller ones, so that a test need not be large or slow.

Belongs here: giving a section another constant. Does not belong here: keys, which `parse_config` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from rag_serving.config.keys import _models
from rag_serving.config.loading import Config, parse_config

Section = TypeVar("Section", bound=BaseModel)


def section_of(model: type[Section], /, **given: Any) -> Section:
    """Return a section of keys and constants."""
    keys, constants = _divided([model], given)
    return _with(model(**keys), constants)


def configured(content: Mapping[str, Any]) -> Config:
    """Return a configuration whose sections may give constants, too."""
    keys, constants = _divided([Config], content)
    return _with(parse_config(keys), constants)


def _divided(models: Iterable[type[BaseModel]], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keys of a section, and its constants."""
    keys, constants = dict[str, Any](), dict[str, Any]()
    for name, value in given.items():
        fields = [model.model_fields[name] for model in models if name in model.model_fields]
        if any(name in model.__class_vars__ for model in models):
            constants[name] = value
        elif isinstance(value, Mapping) and fields:
            keys[name], below = _divided([inner for field in fields for inner in _models(field.annotation)], value)
            constants |= {name: below} if below else {}
        else:
            keys[name] = value
    return keys, constants


def _with(section: Section, constants: Mapping[str, Any]) -> Section:
    below = {name: getattr(section, name) for name in constants.keys() & type(section).model_fields.keys()}
    inner = {name: _with(part, constants[name]) for name, part in below.items()}
    return section.model_copy(update={**constants, **inner}) if constants else section
