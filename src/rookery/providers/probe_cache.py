"""Results of probes, in one file of the cache folder.

Results are stored by address of the server and name of the model. A damaged file is treated as
empty. Writers lock the file, so that two processes lose nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.platform.disk import private_folder, put, whole_file
from rookery.platform.locks import file_lock

LARGEST_FILE = 512 * 1024
MOST_MODELS = 500
LONGEST_NAME = 400
_VERSION = 1


class ProbedModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results for one model; None if unknown. `changed` is in seconds since the epoch."""

    address: str
    model: str
    changed: float = 0.0
    window: int | None = None
    calls: Literal["native", "text", "schema"] | None = None
    """How it calls tools: natively, as text, or as JSON that follows a schema."""
    printed: int = 0
    """Answers of runs in which it printed a call as text."""
    streaming: bool | None = None
    schema: bool | None = None
    """Whether its answers follow a JSON schema."""
    continuation: bool | None = None
    """Whether it continues an answer that we began (prefill)."""


class _CachedProbes(Struct, frozen=True, kw_only=True):
    version: int
    models: tuple[ProbedModel, ...]


def probed_model(file: Path, address: str, model: str) -> ProbedModel:
    """The stored results for a model."""
    return _read(file).get((address, model)) or ProbedModel(address=address, model=model)


def probed_facts(file: Path, address: str, model: str) -> dict[str, Any]:
    """The results that requests depend on, by the fields of `ModelInfo`."""
    known = probed_model(file, address, model)
    facts = {"window": known.window, "calls": known.calls}
    return {name: value for name, value in facts.items() if value is not None}


def remember(
    file: Path,
    address: str,
    model: str,
    change: Callable[[ProbedModel], ProbedModel],
    now: float,
) -> ProbedModel:
    """Change the stored results for a model. Raises `StorageError`, `LockTimeout` or `OSError` if
    they cannot be stored."""
    private_folder(file.parent)
    with file_lock(file.with_name(f"{file.name}.lock")):
        known = _read(file)
        before = known.pop((address, model), ProbedModel(address=address, model=model))
        after = change(before)
        if after == before or len(address) + len(model) > LONGEST_NAME:
            return after
        after = replace(after, changed=now)
        newest = sorted(known.values(), key=lambda each: -each.changed)[: MOST_MODELS - 1]
        kept = _CachedProbes(version=_VERSION, models=(after, *newest))
        put(file, [msgspec.json.encode(kept)], durable=False)
    return after


def _read(file: Path) -> dict[tuple[str, str], ProbedModel]:
    try:
        cached = msgspec.json.decode(whole_file(file, largest=LARGEST_FILE), type=_CachedProbes)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if cached.version != _VERSION:
        return {}
    return {(each.address, each.model): each for each in cached.models[:MOST_MODELS]}
