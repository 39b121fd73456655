"""Files and folders of the workspace, behind `@`."""

from collections.abc import Sequence

from rookery.clients.tui.pickers.picker import Picker
from rookery.clients.tui.seam import Choice
from rookery.core.mentions import mention_of
from rookery.core.queries import AskPaths, FoundPath


class PathPicker(Picker):
    NOTHING = "No file fits."

    async def candidates(self, text: str) -> Sequence[Choice]:
        letters = text.removeprefix("/").replace("\\", "")
        found = await self._desk.ask(AskPaths(letters=letters, most=self.MOST))
        return [_choice(each) for each in found]


def _choice(found: FoundPath) -> Choice:
    path = found.path.rstrip("/") + ("/" if found.folder else "")
    return Choice(
        label=path, detail="folder" if found.folder else "", insert=f"{mention_of(path)} "
    )
