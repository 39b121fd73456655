"""What is not in a snapshot although nobody asked to leave it out."""

from rookery.platform.paths import visible

_NAMED = 50


class Skipped:
    """All of it is counted, some of it is named."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._count = 0

    def add(self, path: str, why: str) -> None:
        self._count += 1
        if self._count <= _NAMED:
            self._names.append(f"{visible(path)} ({why})")

    def told(self) -> tuple[str, ...]:
        more = self._count - len(self._names)
        return (*self._names, f"and {more} more") if more else tuple(self._names)
