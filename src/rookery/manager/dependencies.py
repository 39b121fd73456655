"""What the manager is told by whoever puts it together, because it may not find it out itself."""

from typing import Literal, Protocol, TypeAlias

from rookery.core.queries import KnownMode, KnownModel
from rookery.core.settings import Settings

Form: TypeAlias = Literal["markdown", "json", "html"]


class Surroundings(Protocol):
    """Each answer is about this moment: what it is made of may have changed since the last."""

    def settings(self) -> Settings:
        """Those that hold for the project. Raises `SettingsError` if a file is faulty."""
        ...

    async def models(self) -> tuple[KnownModel, ...]:
        """Those that a session could be started with."""
        ...

    async def modes(self) -> tuple[KnownMode, ...]:
        """Those that a session of the project could be started in."""
        ...

    def document(self, task_id: str, form: Form) -> str:
        """A stored task and those that worked for it, to be read by people or programs."""
        ...
