"""Where the index gets what it indexes, and what makes vectors of it."""

from collections.abc import Sequence
from typing import Protocol

from rookery.core.indexed_code import Listing, Source


class Sources(Protocol):
    """Without what is kept from the agent, or holds credentials."""

    def list(self, most: int, largest: int) -> Listing:
        """At most so many files, none of them larger than that in bytes."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder, whatever is indexed of it."""
        ...

    def in_folder(self, folder: str) -> Sequence[str] | None:
        """The files in a folder, but not in folders in it; None if it is no folder."""
        ...

    def read(self, path: str, largest: int) -> Source | None:
        """None if there is no such file any more, or none that can be read."""
        ...


class Embedder(Protocol):
    """Makes vectors of texts. Vectors of different names cannot be compared."""

    name: str

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each, all of the same length. Raises `ProviderError`."""
        ...
