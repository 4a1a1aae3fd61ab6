"""The languages that sentences exist in, and which one a caller or a shell asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
TAGS: dict[Language, str] = {"en": "en", "zh": "zh-Hans"}  # as the header Content-Language names them
VARIABLES = ("HORAE_LANG", "LC_ALL", "LANG")  # the first that is set decides


def preferred_language(header: str) -> Language:
    """Return English or Chinese, whichever an Accept-Language header prefers."""
    best: tuple[float, Language] = (0.0, "en")
    for part in header.split(","):
        name, _, rest = part.partition(";")
        found = re.fullmatch(r"\s*q=([01](?:\.[0-9]{0,3})?)\s*", rest)
        weight = float(found[1]) if found else 1.0
        language: Language = "zh" if name.strip().lower().startswith("zh") else "en"
        if name.strip().lower()[:2] in LANGUAGES and weight > best[0]:
            best = (weight, language)
    return best[1]


def from_environment(environment: Mapping[str, str]) -> Language:
    """Return the language of a shell: Chinese where its variables ask for it, else English."""
    chosen = next((environment[name] for name in VARIABLES if environment.get(name)), "")
    return "zh" if re.match(r"zh\b|zh_", chosen.lower()) else "en"
