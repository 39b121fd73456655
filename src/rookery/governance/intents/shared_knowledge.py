"""`AGENT.md` on disk: read for the context of an intent, and given lessons, one writer at a time.

A failure to record a lesson is for the caller to mention; no work fails because of it.
"""

from pathlib import Path

from rookery.core.limits import MIB
from rookery.errors import RookeryError
from rookery.governance.intents.lessons import Lesson, with_lesson
from rookery.governance.layout import Layout
from rookery.governance.replaced_files import NotReplaced, replace_file
from rookery.platform.locks import file_lock
from rookery.platform.small_files import Unreadable, small_file

LARGEST = MIB
ARCHIVE = "AGENT.archive.md"


class SharedKnowledge:
    """Of one governance root."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def read(self) -> str:
        """What the file says; nothing if there is none. Raises `RookeryError`."""
        return self._text(self._layout.knowledge_file)

    def record(self, lesson: Lesson) -> Lesson:
        """Add or count the lesson, and give it as it now stands there. Raises `RookeryError`;
        then nothing was changed."""
        layout = self._layout
        with file_lock(layout.own_folder(layout.locks) / "knowledge"):
            amended = with_lesson(self.read(), lesson)
            if amended.archived:
                # before it leaves the one file it stands in the other
                archive = layout.folder / ARCHIVE
                kept = self._text(archive) + amended.archived
                replace_file(layout, archive, kept.encode())
            replace_file(layout, layout.knowledge_file, amended.text.encode())
        return amended.lesson

    def _text(self, path: Path) -> str:
        name = self._layout.shown(path)
        try:
            data = small_file(path, self._layout.workspace, largest=LARGEST)
            return data.decode("utf-8-sig")
        except FileNotFoundError:
            return ""
        except Unreadable as error:
            raise RookeryError(f"{name} is not read: {error}.") from error
        except UnicodeDecodeError as error:
            raise NotReplaced(f"{name} is not read: it is not UTF-8.") from error
