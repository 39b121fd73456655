"""What holds of a setting in a folder, and who says so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.settings import Key, shown
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places
from rookery.storage.settings_files import DEFAULT, FoundSettings, find_settings


class Held(Struct, frozen=True, kw_only=True):
    """What holds here, and where from."""

    value: Any
    origin: str


def settings_here(places: Places, workspace: Path, environ: Mapping[str, str]) -> FoundSettings:
    """Those that hold in a folder, whose own file is heard only if the user trusts it. Raises
    `SettingsError`."""
    trusted = TrustStore(places.trust_file).trusts(workspace)
    return find_settings(places.settings_file, workspace if trusted else None, environ, {})


def held_in(found: FoundSettings, key: Key) -> Held:
    at: Any = found.settings
    for name in key:
        at = at.get(name) if isinstance(at, Mapping) else getattr(at, name, None)
    return Held(value=at, origin=found.origins.get(key, DEFAULT))


def other_voice(found: FoundSettings, key: Key, file: Path) -> str:
    """A sentence if something else than this file decides a setting; usually nothing."""
    held = held_in(found, key)
    if held.origin in (str(file), DEFAULT):
        return ""
    return f"{held.origin} decides it here: {spoken(held.value)}"


def spoken(said: Any) -> str:
    return shown(tuple(said) if isinstance(said, list) else said)
