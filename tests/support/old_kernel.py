"""A sandbox as on older systems."""

from collections.abc import Sequence
from typing import Any

from rookery.engine.ports.workspace import Launch
from rookery.sandbox.sandbox import Sandbox


class WithoutSharedNetwork(Sandbox):
    """A sandbox on a system on which no network namespace can be kept for all commands."""

    def _open_shared_network(self) -> None:
        return None


class WithoutLandlock(Sandbox):
    """A sandbox on a kernel too old for Landlock."""

    def launch(self, argv: Sequence[str], **kinds: Any) -> Launch:
        launch = super().launch(argv, **kinds)
        words = [*launch.argv]
        while "write" in words[: -len(argv)]:
            at = words.index("write")
            del words[at : at + 2]
        return Launch(tuple(words), launch.environment)
