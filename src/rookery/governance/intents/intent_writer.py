"""Changes of `active_intents.yaml` that the host makes on a person's order.

Between reading and renaming somebody may save the file in an editor. Whoever was faster wins, and
the other is refused: nothing that a person wrote is ever written over.
"""

import os
import tempfile
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from rookery.errors import RookeryError
from rookery.faults import kp
from rookery.governance.host_writes import note_write
from rookery.governance.intents.intent import Intent, IntentFile
from rookery.governance.intents.intent_edits import AddIntent, Edit, edited, expected
from rookery.governance.intents.intent_file import LARGEST, IntentText, parsed
from rookery.governance.layout import Layout
from rookery.platform.attributes import attributes_at, keep_attributes
from rookery.platform.disk import Unreadable, small_file
from rookery.platform.locks import file_lock

_BOM = b"\xef\xbb\xbf"


class IntentsNotWritten(RookeryError):
    """The file is as it was."""


class EditOf(Struct, frozen=True):
    intent_id: str
    edit: Edit


Decide = Callable[[IntentFile], Sequence[EditOf]]
"""What is to be changed in a file as it stands; it raises if nothing may be."""


class IntentWriter:
    def __init__(
        self,
        layout: Layout,
        *,
        tools: Collection[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._layout = layout
        self._name = layout.shown(layout.intent_file)
        self._tools = tools
        self._now = now

    def change(self, seen: IntentText, edits: Sequence[EditOf], decide: Decide) -> IntentText:
        """Writes the edits that were decided on what was `seen`. If the file is another by now it
        is decided once more. Raises `IntentsNotWritten` or `LockTimeout`; then nothing changed."""
        with file_lock(self._layout.own_folder(self._layout.locks) / "intents"):
            current = self._read()
            if current.data != seen.data:
                edits = decide(current.file)
            result = self._edited(current, edits)
            self._write(current.data, result.data)
        return result

    def _read(self) -> IntentText:
        try:
            data = small_file(self._layout.intent_file, self._layout.workspace, largest=LARGEST)
        except (FileNotFoundError, Unreadable) as error:
            raise self._not_written(f"it cannot be read ({error})") from error
        return parsed(data, self._name, now=self._now(), tools=self._tools)

    def _edited(self, current: IntentText, edits: Sequence[EditOf]) -> IntentText:
        text = current
        for each in edits:
            if text.root is None or not text.file.usable:
                raise self._not_written("it has errors; see: rookery intents validate")
            after = edited(text.data.decode("utf-8-sig"), text.root, each.intent_id, each.edit)
            bom = _BOM if current.data.startswith(_BOM) else b""
            result = parsed(bom + after.encode(), self._name, now=self._now(), tools=self._tools)
            self._check(text.file, result.file, each)
            text = result
        return text

    def _check(self, before: IntentFile, after: IntentFile, made: EditOf) -> None:
        """The edit did what it was to do, and nothing else. A status is read with care, so the
        spelling of other intents never changes either."""
        wanted = [_after(intent, made) for intent in before.intents]
        if isinstance(made.edit, AddIntent):
            wanted.append(made.edit.intent)
        if not after.usable or list(after.intents) != wanted or after.policy != before.policy:
            raise self._not_written("the change does not fit the way it is written")
        new = [each for each in after.errors if each.intent_id == made.intent_id]
        old = {each.code for each in before.errors if each.intent_id == made.intent_id}
        for problem in new:
            if problem.code not in old:
                raise self._not_written(f"{problem.intent_id} would be wrong: {problem.message}")

    def _write(self, before: bytes, after: bytes) -> None:
        path = self._layout.intent_file.resolve(strict=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "wb") as opened:
                opened.write(after)
                opened.flush()
                if like := attributes_at(path):
                    keep_attributes(handle, like)
                os.fsync(handle)
            kp("intents.written")
            if path.read_bytes() != before:
                raise self._not_written("somebody else is changing it")
            note_write(self._layout.written, path, after)
            os.replace(temporary, path)
            kp("intents.renamed")
        except OSError as error:
            Path(temporary).unlink(missing_ok=True)
            raise self._not_written(f"it cannot be written ({error.strerror})") from error
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _settle(path.parent)

    def _not_written(self, why: str) -> IntentsNotWritten:
        return IntentsNotWritten(f"{self._name} was left as it is: {why}.")


def _after(intent: Intent, made: EditOf) -> Intent:
    if isinstance(made.edit, AddIntent) or intent.id != made.intent_id:
        return intent
    return expected(intent, made.edit)


def _settle(folder: Path) -> None:
    """Makes the folder's entry as durable as the file."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
