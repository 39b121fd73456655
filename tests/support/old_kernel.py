"""A sandbox as on older systems."""

from collections.abc import Sequence
from typing import Any

from rookery.engine.ports.workspace import Launch
from rookery.sandbox.sandbox import Sandbox


class WithoutLandlock(Sandbox):
    """A sandbox on a kernel too old for Landlock."""

    def launch(self, argv: Sequence[str], **kinds: Any) -> Launch:
        launch = super().launch(argv, **kinds)
        words = [*launch.argv]
        while "write" in words[: -len(argv)]:
            at = words.index("write")
            del words[at : at + 2]
        return Launch(tuple(words), launch.environment)
