"""Which scripts of a project the user has looked at: each is known by its very text.

A project may bring programs. Trusting the project does not run them; agreeing to one does, until a
byte of it is another (TRUST-5).
"""

from pathlib import Path

from msgspec import Struct

from rookery.errors import CommandRejected
from rookery.manager.worktrees.project_scripts import ProjectScript, project_script
from rookery.manager.worktrees.worktree_project import RUN_SCRIPT, SETUP_SCRIPT
from rookery.platform.list_file import KeptList
from rookery.platform.user_folders import Places

FILE = "scripts.json"


class AgreedScript(Struct, frozen=True):
    project: str
    digest: str


class OfferedScript(Struct, frozen=True, kw_only=True):
    """A script as it is now, to be looked at."""

    name: str
    script: ProjectScript
    agreed: bool


class AgreedScripts:
    """Of one project, kept in a file of the user's. Several processes may use it at once."""

    def __init__(self, project: Path, places: Places) -> None:
        self._project = project
        self._kept = KeptList(places.config / FILE, AgreedScript)

    def knows(self, script: ProjectScript) -> bool:
        return self._known_as(script) in self._kept.believed()

    def offered(self) -> tuple[OfferedScript, ...]:
        found = [(name, project_script(self._project, name)) for name in (SETUP_SCRIPT, RUN_SCRIPT)]
        return tuple(
            OfferedScript(name=name, script=script, agreed=self.knows(script))
            for name, script in found
            if script
        )

    def agree_to(self, digest: str) -> None:
        """To the script that was shown under this digest. Raises `CommandRejected` if it is not
        that any more, and `StorageError` if it could not be kept."""
        shown = [each.script for each in self.offered() if each.script.digest == digest]
        if not shown:
            raise CommandRejected("There is no such script any more; look again.")
        new = self._known_as(shown[0])
        self._kept.update(lambda kept: [*(old for old in kept if old != new), new])

    def _known_as(self, script: ProjectScript) -> AgreedScript:
        return AgreedScript(str(self._project), script.digest)
