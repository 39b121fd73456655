"""The lists of models that were fetched last, in one file of the cache folder.

Lists are stored by address, because a provider can have several. A damaged file is treated as
empty. The file never contains a key.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from rookery.platform.disk import private_folder, put, whole_file
from rookery.providers.listing_shapes import ListedModel

LARGEST_FILE = 8 * 1024 * 1024
MOST_LISTS = 40
_VERSION = 1


class ModelList(Struct, frozen=True, kw_only=True):
    """The models at one address. `fetched` is in seconds since the epoch."""

    provider: str
    address: str
    fetched: float
    models: tuple[ListedModel, ...]


class _CachedLists(Struct, frozen=True, kw_only=True):
    version: int
    lists: tuple[ModelList, ...]


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
    try:
        cached = msgspec.json.decode(whole_file(file, largest=LARGEST_FILE), type=_CachedLists)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if cached.version != _VERSION:
        return {}
    return {each.address: each for each in cached.lists}


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
