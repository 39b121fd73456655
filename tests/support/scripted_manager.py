"""A manager at its socket whose desk notes what it is asked and answers what it was told to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from rookery.manager.cli.host_dependencies import ProjectDependencies
from rookery.manager.handlers.router import Handlers
from rookery.manager.manager import open_manager
from rookery.manager.manager_socket import listening
from rookery.manager.requests import (
    REQUESTS,
)
from rookery.manager.shown_rows import Done
from rookery.platform.user_folders import Places


class PlayedFamily:
    """Takes every request there is."""

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
def played_desk(
    project: Path, places: Places, environ: Mapping[str, str], answers: Mapping[type[Any], Any]
) -> Iterator[PlayedFamily]:
    """In a thread of its own, so that a command can be run in this one."""
    family = PlayedFamily(answers)
    dependencies = ProjectDependencies(project, places, environ)
    opened = open_manager(project, places, environ, dependencies, handlers=[family])
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened) as manager,
        portal.wrap_async_context_manager(listening(manager, places)),
    ):
        yield family
