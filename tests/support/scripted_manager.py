"""A manager on its socket that records requests and gives prepared answers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.handlers.router import Handlers
from rookery.manager.manager import open_manager
from rookery.manager.manager_socket import listening
from rookery.manager.requests import REQUESTS
from rookery.manager.shown_rows import Done
from rookery.platform.user_folders import Places


class PlayedFamily:
    """Handles every kind of request."""

    def __init__(self, answers: Mapping[type[Any], Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[Any] = []

    @property
    def handlers(self) -> Handlers:
        return dict.fromkeys(REQUESTS, self._answer)

    async def _answer(self, request: Any) -> Any:
        self.asked.append(request)
        answer = self.answers.get(type(request), Done())
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def scripted_handler(
    project: Path, places: Places, environ: Mapping[str, str], answers: Mapping[type[Any], Any]
) -> Iterator[PlayedFamily]:
    """Run it in another thread, so that a command can run in this one."""
    family = PlayedFamily(answers)
    dependencies = ProjectDependencies(project, places, environ)
    opened = open_manager(project, places, environ, dependencies, handlers=[family])
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened) as manager,
        portal.wrap_async_context_manager(listening(manager, places)),
    ):
        yield family
