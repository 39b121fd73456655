"""Commands, behind `/`: the client's own first, then those that the model is given."""

from collections.abc import Sequence
from functools import partial

from rookery.core.queries import AskCommands, KnownCommand
from rookery.core.text.fuzzy import best_matches
from rookery.tui.interfaces import Choice, Desk
from rookery.tui.pickers.own_commands import OWN
from rookery.tui.pickers.picker import Picker


class CommandPicker(Picker):
    """Picking one of the client's own does it; another one is typed, for there may be more to
    say."""

    NOTHING = "There is no such command."

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._others: Sequence[KnownCommand] | None = None

    async def candidates(self, text: str) -> Sequence[Choice]:
        if self._others is None:
            self._others = await self._desk.ask(AskCommands())
        return self.known(text) or ()

    def known(self, text: str) -> Sequence[Choice] | None:
        own = [
            Choice(
                label=f"/{each.name}",
                detail=each.what,
                action=partial(each.do, self.app, self._desk, ""),
            )
            for each in OWN
        ]
        taken = {each.name for each in OWN}
        others = [_choice(each) for each in self._others or () if each.name not in taken]
        if self._others is None:
            exact = [each for each in own if each.label == f"/{text}"]
            return exact or None
        ours = best_matches(own, text, len(own), _name)
        return [*ours, *best_matches(others, text, self.MOST, _name)]


def _name(choice: Choice) -> str:
    return choice.label.removeprefix("/")


def _choice(command: KnownCommand) -> Choice:
    about = [command.description, command.argument_hint]
    if command.source != "built-in":
        about.append(f"({command.source})")
    return Choice(
        label=f"/{command.name}",
        detail="  ".join(filter(None, about)),
        insert=f"/{command.name} ",
    )
