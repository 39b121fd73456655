"""Parts of an action for tests that perform none, or keep no output."""

from rookery.engine.ports.actions import Outcome, Permit


async def never(_: Permit) -> Outcome:
    raise AssertionError("Nothing is performed here.")


class Unkept:
    """An artifact that keeps nothing."""

    id = "cmd-1.txt"
    size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)

    def close(self) -> None:
        pass
