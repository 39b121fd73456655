"""The folder that a request is about: the project, or the one that a session works in.

Where a session works is told by the user's own folder, never by the list in the project, which
anybody may have written.
"""

from pathlib import Path

from rookery.errors import CommandRejected
from rookery.manager.sessions.session_folders import Launch, SessionFolders
from rookery.platform.user_folders import Places


class Workspaces:
    def __init__(self, project: Path, places: Places) -> None:
        self._project = project
        self._folders = SessionFolders(places)

    def of(self, session_id: str = "") -> Path:
        """Raises `CommandRejected` if there is no such session, or its folder is gone: nothing is
        ever looked up elsewhere instead."""
        if not session_id:
            return self._project
        workspace = Path(self.launch_of(session_id).workspace)
        if not workspace.is_dir():
            raise CommandRejected(
                f"{workspace}, where this session works, is not there. If it was a worktree, "
                "recreate it first."
            )
        return workspace

    def launch_of(self, session_id: str) -> Launch:
        """How the processes of a session are started. Raises `CommandRejected` if there is none
        of the project."""
        launch = self._folders.of(session_id).launch()
        if launch is None or launch.project != str(self._project):
            raise CommandRejected(f"There is no session {session_id} here.")
        return launch
