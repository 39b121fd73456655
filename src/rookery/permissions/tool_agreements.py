"""Which tools of a project a person has agreed to, kept in a file of the user's.

A model or a command may write a tool's files. So an agreement is for one content of them.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from rookery import NAME
from rookery.permissions.folder_marks import FolderMark
from rookery.platform.list_file import KeptList

HOW_TO_AGREE = f"To approve it, run: {NAME} trust"
_FOLDER_ITSELF = ""


class AgreedTool(Struct, frozen=True):
    """`file` defines the tool; it is empty in the entry that says that a person looked at the
    folder's tools."""

    folder: FolderMark
    file: str
    fingerprint: str


class ToolAgreements:
    """Of one workspace. Several processes may use the file at once."""

    def __init__(self, file: Path, workspace: Path) -> None:
        self._kept = KeptList(file, AgreedTool)
        self._folder = FolderMark.of(workspace)

    def missing(self, file: str, fingerprint: str) -> str:
        """Why a person has to agree first, in a sentence; empty if nobody has to."""
        if problem := self._kept.problem:
            return problem
        agreed = [each.fingerprint for each in self._here() if each.file == file]
        if fingerprint in agreed:
            return ""
        if agreed:
            return f"{file} or its program has changed since you approved this tool."
        return f"You have not approved this project's tool yet ({file})."

    @property
    def were_looked_at(self) -> bool:
        """Whether a person has agreed to this folder's tools before, even if it had none."""
        return any(each.file == _FOLDER_ITSELF for each in self._here())

    def agree(self, fingerprints: Mapping[str, str]) -> None:
        """A person agrees to these contents, by the files that define the tools. Raises
        `StorageError`."""
        wanted = {_FOLDER_ITSELF: "", **fingerprints}
        new = [AgreedTool(self._folder, file, print_) for file, print_ in wanted.items()]
        self._kept.update(
            lambda kept: [
                *(each for each in kept if each.folder != self._folder or each.file not in wanted),
                *new,
            ]
        )

    def _here(self) -> list[AgreedTool]:
        return [each for each in self._kept.believed() if each.folder == self._folder]
