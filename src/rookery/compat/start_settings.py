"""What of a start's `configuration` has a meaning here. It is written in other people's words."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rookery.core.unknown_fields import misspelled_field

APPROVAL = "autoApprovalEnabled"
MODELS = ("model", "apiModelId")
"""The first that is given counts."""


class StartSettings(Struct, frozen=True, kw_only=True):
    """Nothing, or None, leaves a thing as the run was started."""

    mode: str = ""
    provider: str = ""
    model: str = ""
    automatic: bool | None = None
    ignored: tuple[str, ...] = ()
    """What was given and has no meaning here, or not with such a value."""


def start_settings(given: Mapping[str, Any]) -> StartSettings:
    words = {name: text for name, text in given.items() if isinstance(text, str) and text.strip()}
    models = [words[name] for name in MODELS if name in words]
    automatic = given.get(APPROVAL)
    known = {name for name in ("mode", "apiProvider", *MODELS) if name in words}
    if isinstance(automatic, bool):
        known.add(APPROVAL)
    return StartSettings(
        mode=words.get("mode", ""),
        provider=words.get("apiProvider", ""),
        model=models[0] if models else "",
        automatic=automatic if isinstance(automatic, bool) else None,
        ignored=tuple(name for name in given if name not in known),
    )


def approval_problem(settings: StartSettings) -> str:
    """Why a start is refused: what it says of approval cannot be understood. Other settings that
    have no meaning here are let through, because other programs send many."""
    if APPROVAL in settings.ignored:
        return f"{APPROVAL} must be true or false. Nothing was done."
    if clause := misspelled_field(settings.ignored, [APPROVAL]):
        return f"The configuration {clause} Nothing was done."
    return ""
