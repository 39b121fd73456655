"""What no setting allows by itself: files kept from the agent, credentials, what lies outside
the workspace, and files by which text becomes execution or policy.
"""

from collections.abc import Callable, Iterator

from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Deed
from rookery.core.protected_paths import ORDINARY_BY_HAND
from rookery.core.replies import CREDENTIALS, KEPT_FROM_YOU
from rookery.core.rulings import Ruling, ask, deny, joined
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.files import Files, Place
from rookery.errors import ToolError


class Restrictions:
    """Heard for every file an action reads or changes, and for where a command runs. What its
    command line names is judged elsewhere, but for files that it could not read anyway: about
    those nobody need be asked. The flags are for a run whose user said so."""

    def __init__(
        self,
        files: Files,
        *,
        allow_outside: bool = False,
        allow_protected: bool = False,
        automatic: Callable[[], bool] = lambda: False,
    ) -> None:
        self._files = files
        self._allow_outside = allow_outside
        self._allow_protected = allow_protected
        self._automatic = automatic

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        opinions = [*self._on_files(action), *self._on_command(action)]
        return joined(opinions) if opinions else Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    def _on_files(self, action: Action) -> Iterator[Ruling]:
        changed = dict.fromkeys(change.path for change in action.changes)
        read = dict.fromkeys(path for path in (*action.reads, action.cwd) if path)
        for path in dict.fromkeys([*changed, *read]):
            try:
                place = self._files.place(path)
            except ToolError as error:
                yield deny(str(error))
                continue
            yield from self._refused(place)
            yield from self._outside(place)
            if path in changed and path not in action.ordinary:
                yield from self._protected(place)
            if place.link:
                yield Ruling(notes=(f"a symbolic link leads to {place.path}",))

    def _on_command(self, action: Action) -> Iterator[Ruling]:
        judged = action.judgement
        if judged is None or judged.why_not:
            return  # which of its words are files is then a guess
        for target in judged.targets:
            if target.deed is Deed.READ and self._is_ignored(target.path):
                yield deny(KEPT_FROM_YOU.format(path=target.path))

    def _is_ignored(self, path: str) -> bool:
        try:
            return self._files.place(path).ignored
        except ToolError:
            return False

    def _refused(self, place: Place) -> Iterator[Ruling]:
        if place.ignored:
            yield deny(KEPT_FROM_YOU.format(path=place.path))
        if place.credential:
            yield deny(CREDENTIALS.format(path=place.path))

    def _outside(self, place: Place) -> Iterator[Ruling]:
        if place.outside and not self._allow_outside:
            yield ask(f"outside the workspace: {place.path}")

    def _protected(self, place: Place) -> Iterator[Ruling]:
        ordinary = place.protected in ORDINARY_BY_HAND and not self._automatic()
        if place.protected and not ordinary and not self._allow_protected:
            yield ask(f"protected, because {place.protected}: {place.path}")
