"""What is remembered about models, in two files of the cache folder: the lists that were fetched
last, and the results of probes.

Both are stored by address, because a provider can have several. A damaged file is treated as empty.
The files never contain a key.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.first_use import prepared
from rookery.platform.disk import private_folder, put, whole_file
from rookery.platform.locks import file_lock
from rookery.providers.listing_shapes import ListedModel

LARGEST_FILE = 8 * 1024 * 1024
MOST_LISTS = 40
MOST_PROBED = 500
LONGEST_NAME = 400
_VERSION = 1


class ModelList(Struct, frozen=True, kw_only=True):
    """The models at one address. `fetched` is in seconds since the epoch."""

    provider: str
    address: str
    fetched: float
    models: tuple[ListedModel, ...]


class _CachedLists(Struct, frozen=True, kw_only=True):
    version: int = 0
    lists: tuple[ModelList, ...] = ()


Cached = TypeVar("Cached", bound="_CachedLists | _CachedProbes")


def read_lists(file: Path) -> Mapping[str, ModelList]:
    """The stored lists by address."""
    try:
        status = file.stat()
    except OSError:
        return {}
    return _decoded(file, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=1)
def _decoded(file: Path, changed: int, number: int) -> Mapping[str, ModelList]:
    """The lists in this version of the file. Its facts are asked for model by model."""
    return {each.address: each for each in _stored(file, _CachedLists).lists}


def _stored(file: Path, kind: type[Cached]) -> Cached:
    """What is in a file; nothing if it is missing, damaged or of another version."""
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        cached = msgspec.json.decode(whole_file(file, largest=LARGEST_FILE), type=prepared(kind))
        if cached.version == _VERSION:
            return cached
    return kind()


def keep_lists(file: Path, lists: Iterable[ModelList]) -> None:
    """Add or replace lists. Raises `StorageError` or `OSError` if they cannot be stored."""
    known = {**read_lists(file), **{each.address: each for each in lists}}
    newest = sorted(known.values(), key=lambda each: -each.fetched)[:MOST_LISTS]
    data = msgspec.json.encode(_CachedLists(version=_VERSION, lists=tuple(newest)))
    while len(data) > LARGEST_FILE and newest:
        newest.pop()
        data = msgspec.json.encode(_CachedLists(version=_VERSION, lists=tuple(newest)))
    private_folder(file.parent)
    put(file, [data], durable=False)


def listed_facts(file: Path, url: str, model: str) -> dict[str, Any]:
    """Facts about a model in the last list of an address, by the fields of `ListedModel`."""
    known = read_lists(file).get(address_of(url))
    found = next((each for each in known.models if each.id == model), None) if known else None
    return facts_of(found) if found else {}


def facts_of(model: ListedModel) -> dict[str, Any]:
    """The known facts about a listed model, by the fields of `ListedModel`."""
    facts = msgspec.structs.asdict(model)
    return {name: value for name, value in facts.items() if value is not None and name != "id"}


def address_of(url: str) -> str:
    """The address without a name or password in it."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if not parts.netloc:
            return ""
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return ""


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
    version: int = 0
    models: tuple[ProbedModel, ...] = ()


def probed_model(file: Path, address: str, model: str) -> ProbedModel:
    return _read_probes(file).get((address, model)) or ProbedModel(address=address, model=model)


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
    """Change the stored results for a model, under a lock, so that two processes lose none. Raises
    `StorageError`, `LockTimeout` or `OSError` if they cannot be stored."""
    private_folder(file.parent)
    with file_lock(file.with_name(f"{file.name}.lock")):
        known = _read_probes(file)
        before = known.pop((address, model), ProbedModel(address=address, model=model))
        after = change(before)
        if after == before or len(address) + len(model) > LONGEST_NAME:
            return after
        after = replace(after, changed=now)
        newest = sorted(known.values(), key=lambda each: -each.changed)[: MOST_PROBED - 1]
        kept = _CachedProbes(version=_VERSION, models=(after, *newest))
        put(file, [msgspec.json.encode(kept)], durable=False)
    return after


def _read_probes(file: Path) -> dict[tuple[str, str], ProbedModel]:
    models = _stored(file, _CachedProbes).models[:MOST_PROBED]
    return {(each.address, each.model): each for each in models}
