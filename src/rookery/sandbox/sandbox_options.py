"""What a sandbox is asked for, and how a command is started in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from rookery.sandbox.confinement import Network, WayOut


class SandboxWishes(Struct, frozen=True, kw_only=True):
    """`writable` and `hidden` are places the user added; a hidden place is never writable.
    `own` are the product's folders, of which commands see nothing."""

    root: Path
    home: Path
    mode: Literal["on", "required", "off"] = "on"
    network: Network = "on"
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


class Launch(Struct, frozen=True):
    """What to start, what to add to its environment, and its way to the network."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    way: WayOut | None = None
