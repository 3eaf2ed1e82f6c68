"""The section `privacy` of `config/app.yaml`.

Belongs here: which personal data is taken out of what is kept. Does not belong here: finding it
(`rag_serving.privacy`), the other sections (`sections`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Self, get_args

from pydantic import Field, field_validator, model_validator

from rag_serving.config.sources import Section
from rag_serving.plugins import HOOKS, loaded, one
from rag_serving.privacy import NamesError, PersonalKind, Redactor

_NAMES = "names"


class Privacy(Section):
    """Personal data in logs, telemetry, the audit log and cached answers. The answers that users see are not
    changed."""

    redact: list[str] = Field(["email", "iban", "card", "national_id", "phone"])
    """Kinds of personal data replaced by a label. Empty: none."""
    names_model: Path | None = Field(None)
    """Folder of the model that `names` needs. Needs citelock[names]."""
    regions: list[str] = Field([])
    """Countries whose telephone numbers and ids are recognized, with `citelock[governance]`. Numbers that begin with +
    are always recognized. National ids: AT, AU, BE, BR, CA, CH, DE, DK, ES, FI, FR, GB, IE, IN, IT, MX, NL, NO, PL, PT,
    SE, US."""

    @field_validator("redact")
    @classmethod
    def _known_kinds(cls, kinds: list[str]) -> list[str]:
        known = get_args(PersonalKind)
        if unknown := [kind for kind in kinds if kind not in known]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return kinds

    @field_validator("regions")
    @classmethod
    def _known_regions(cls, regions: list[str]) -> list[str]:
        upper = [region.upper() for region in regions]
        if not upper or "phones" not in loaded(HOOKS):  # which the configuration as a whole is refused for
            return upper
        known = one(HOOKS, "phones").regions()
        if unknown := [region for region in upper if region not in known]:
            raise ValueError(f"{unknown[0]!r} is no country of ISO 3166 with telephone numbers; DE and US are")
        return upper

    @model_validator(mode="after")
    def _usable_names_model(self) -> Self:
        if _NAMES not in self.redact:
            return self
        if self.names_model is None:
            raise ValueError("names in redact take a model; set names_model to its folder, or take names out")
        if "names" not in loaded(HOOKS):  # as above
            return self
        try:
            one(HOOKS, "names").check_names_model(self.names_model)
        except NamesError as error:
            raise ValueError(str(error)) from None
        return self

    def redactor(self) -> Redactor:
        """Return what takes out what is configured."""
        kinds = tuple(kind for kind in get_args(PersonalKind) if kind in self.redact)
        return Redactor(kinds, tuple(dict.fromkeys(self.regions)), self.names_model)
