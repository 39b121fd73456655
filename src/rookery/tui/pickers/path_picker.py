"""Files and folders of the workspace, behind `@`."""

from collections.abc import Sequence

from rookery.core.mentions import mention_of
from rookery.core.queries import AskPaths, FoundPath
from rookery.tui.interfaces import Choice
from rookery.tui.pickers.picker import ROWS, Picker

_WORDS = tuple(
    Choice(label=name, detail=what, insert=f"@{name} ")
    for name, what in (
        ("git-changes", "what is not committed yet"),
        ("problems", "what the workspace's tools complain about"),
        ("terminal", "what commands wrote last"),
    )
)


class PathPicker(Picker):
    NOTHING = "No file fits."

    async def candidates(self, text: str) -> Sequence[Choice]:
        letters = text.removeprefix("/").replace("\\", "")
        found = await self._desk.ask(AskPaths(letters=letters, most=self.MOST))
        paths = [_choice(each) for each in found]
        words = [each for each in _WORDS if each.label.startswith(text)]
        seen = ROWS - len(words)  # so that nobody has to know them to find them
        return [*paths[:seen], *words, *paths[seen:]]


def _choice(found: FoundPath) -> Choice:
    path = found.path.rstrip("/") + ("/" if found.folder else "")
    return Choice(
        label=path, detail="folder" if found.folder else "", insert=f"{mention_of(path)} "
    )
