"""The header of a GGUF file: what kind of model it is, and how much memory it takes.

A file can come from anywhere, so every count in it is checked against the bytes that were read.
Values beyond them, or damaged ones, are left out.
"""

import os
import struct
from math import prod
from pathlib import Path

from msgspec import Struct

from rookery.core.limits import KIB, MIB
from rookery.platform.disk import regular_file
from rookery.providers.catalogue import parameters_in_name

QUICK_BYTES = 64 * KIB
"""Enough for name, architecture and size. The vocabulary comes after them."""
WHOLE_BYTES = 32 * MIB
"""Enough for the largest vocabularies, and for the list of tensors after them."""
MOST_PAIRS = 10_000
MOST_TENSORS = 100_000
MOST_DIMENSIONS = 4
LONGEST_TEXT = 200

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_READERS = {
    kind: struct.Struct(f"<{code}")
    for kind, code in enumerate(["B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d"])
    if code
}
_COUNT = struct.Struct("<Q")
_KIND = struct.Struct("<I")
_TEXT, _LIST = 8, 9
_FRACTIONS = (6, 12)
_BILLION = 1_000_000_000
_CACHE_ENTRY_BYTES = 2


class NotGguf(ValueError):
    """The file is not a model file of this format."""


class GgufHeader(Struct, frozen=True, kw_only=True):
    """The facts in a header. 0 or empty: not given in the part that was read."""

    architecture: str = ""
    kind: str = ""
    """`model`, `adapter` or `mmproj`, if given."""
    parameters: float = 0.0
    """In billions."""
    context: int = 0
    """The tokens that the model was trained for."""
    token_bytes: int = 0
    """Memory for one token of context."""

    @property
    def is_chat_model(self) -> bool:
        embeds = self.architecture == "clip" or "bert" in self.architecture
        return self.kind in ("", "model") and not embeds


def read_header(path: Path, most: int = WHOLE_BYTES) -> GgufHeader:
    """Raises `NotGguf` or `OSError`."""
    with open(regular_file(path.resolve()), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return parse_header(file.read(min(most, size)))


def parse_header(data: bytes) -> GgufHeader:
    """The header at the beginning of `data`. Raises `NotGguf`."""
    if data[:4] != _MAGIC:
        raise NotGguf("it is not a GGUF file")
    cursor = _Cursor(data)
    facts: dict[str, object] = {}
    weights = 0
    try:
        version, tensors, pairs = cursor.number(_KIND), cursor.count(), cursor.count()
        if version not in _VERSIONS:
            raise NotGguf(f"its format version is {version}; versions 2 and 3 can be read")
        for _ in range(min(pairs, MOST_PAIRS)):
            key, value = cursor.text(LONGEST_TEXT), cursor.value()
            if key in _FACTS or key.partition(".")[2] in _MEASURES:
                facts[key] = value
        if pairs <= MOST_PAIRS:
            weights = sum(_weights(cursor) for _ in range(min(tensors, MOST_TENSORS)))
    except EOFError:
        pass
    return _understood(facts, weights)


_FACTS = (
    "general.architecture",
    "general.name",
    "general.type",
    "general.size_label",
    "split.count",
)
_MEASURES = (
    "context_length",
    "block_count",
    "embedding_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
)
"""Keys that follow the name of the architecture."""


class _Cursor:
    """Reads values one after the other. Raises `EOFError` at the end of the data, and where the
    data is damaged."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_MAGIC)

    def number(self, reader: struct.Struct) -> int:
        at = self._at
        self.skip(reader.size)
        return int(reader.unpack_from(self._data, at)[0])

    def count(self) -> int:
        return self.number(_COUNT)

    def skip(self, size: int) -> None:
        self._at += size
        if self._at > len(self._data):
            raise EOFError

    def text(self, longest: int) -> str:
        """A text, of which at most `longest` bytes are kept."""
        size = self.count()
        at = self._at
        self.skip(size)
        return self._data[at : at + min(size, longest)].decode("utf-8", "replace")

    def value(self) -> object:
        """A whole number or a text; None for anything else."""
        kind = self.number(_KIND)
        if kind == _TEXT:
            return self.text(LONGEST_TEXT)
        if kind == _LIST:
            self._pass_list()
            return None
        if kind not in _READERS:
            raise EOFError
        if kind not in _FRACTIONS:
            return self.number(_READERS[kind])
        self.skip(_READERS[kind].size)
        return None

    def _pass_list(self) -> None:
        kind, count = self.number(_KIND), self.count()
        if kind in _READERS:
            self.skip(count * _READERS[kind].size)
        elif kind == _TEXT:
            self._pass_texts(count)
        else:
            raise EOFError

    def _pass_texts(self, count: int) -> None:
        """A vocabulary has hundreds of thousands of texts, so this is written to be fast."""
        data, at, read = self._data, self._at, _COUNT.unpack_from
        last = len(data) - _COUNT.size
        for _ in range(min(count, len(data))):
            if at > last:
                raise EOFError
            at += _COUNT.size + read(data, at)[0]
        self._at = at
        self.skip(0)


def _weights(cursor: _Cursor) -> int:
    """The number of values in the next tensor of the list."""
    cursor.text(0)
    dimensions = cursor.number(_KIND)
    if dimensions > MOST_DIMENSIONS:
        raise EOFError
    size = prod(cursor.count() for _ in range(dimensions))
    cursor.skip(_KIND.size + _COUNT.size)
    return size


def _understood(facts: dict[str, object], weights: int) -> GgufHeader:
    architecture = _word(facts, "general.architecture")

    def measure(name: str) -> int:
        found = facts.get(f"{architecture}.{name}")
        return found if isinstance(found, int) and found > 0 else 0

    name = _word(facts, "general.name")
    is_part = facts.get("split.count") not in (None, 0, 1)
    label = _word(facts, "general.size_label")
    counted = 0.0 if is_part else weights / _BILLION
    heads = measure("attention.head_count") or 1
    width = measure("embedding_length") // heads
    keys, values = measure("attention.key_length"), measure("attention.value_length")
    entries = (measure("attention.head_count_kv") or heads) * ((keys or width) + (values or width))
    return GgufHeader(
        architecture=architecture,
        kind=_word(facts, "general.type"),
        parameters=parameters_in_name(label) or parameters_in_name(name) or counted,
        context=measure("context_length"),
        token_bytes=measure("block_count") * entries * _CACHE_ENTRY_BYTES,
    )


def _word(facts: dict[str, object], name: str) -> str:
    found = facts.get(name)
    return found.strip() if isinstance(found, str) else ""
