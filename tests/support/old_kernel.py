"""A sandbox as it is on older systems."""

from collections.abc import Sequence
from typing import Any

from rookery.engine.ports.workspace import Launch
from rookery.sandbox.sandbox import Sandbox


class WithoutLandlock(Sandbox):
    """As it is where the kernel is too old for the second layer."""

    def launch(self, argv: Sequence[str], **kinds: Any) -> Launch:
        launch = super().launch(argv, **kinds)
        words = [*launch.argv]
        while "write" in words[: -len(argv)]:
            at = words.index("write")
            del words[at : at + 2]
        return Launch(tuple(words), launch.environment)
