"""What was said and the model has not heard yet: change it, or take it back."""

from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from rookery.core.commands import EditQueue
from rookery.core.facts import UserSpoke
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.tui.interfaces import Controller
from rookery.tui.pickers.pick_list import PickList, TextField
from rookery.tui.screens.list_screen import MOVING
from rookery.tui.screens.side_screen import LOOK_AGAIN_SECONDS, SideScreen
from rookery.tui.short_texts import counted, one_line
from rookery.tui.theme import Theme


class Waiting(Struct, frozen=True):
    """Words that wait, and the task they were said to."""

    task_id: str
    said: UserSpoke


def waiting(controller: Controller) -> list[Waiting]:
    return [
        Waiting(task_id, said) for task_id, view in controller.views.items() for said in view.queue
    ]


class Words(TextField):
    """Enter is the screen's, as in the input area."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+enter,alt+enter,ctrl+j", "break_line", "New line", show=False),
    ]

    def action_break_line(self) -> None:
        self.insert("\n")


class QueueScreen(SideScreen[None]):
    """While words are being changed they may be heard: that is told, and nothing is lost. Nor is
    it by one Esc: the second one drops the change."""

    TITLE_WORDS = "Not heard yet"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,e", "change", "change"),
        Binding("d,delete", "take_back", "take back"),
        Binding("enter,ctrl+s", "keep", "keep the change"),
        *MOVING,
    ]
    DEFAULT_CSS = """
    QueueScreen TextField {
        height: 8; display: none; border: none; border-top: solid $line; padding: 0 1;
        background: $background;
    }
    QueueScreen TextField:focus { border: none; border-top: solid $primary; }
    QueueScreen.-changing TextField { display: block; }
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.list = PickList[Waiting](_drawn, lambda each: each.said.message_id)
        self._area = Words(compact=True, show_line_numbers=False)
        self._changing: Waiting | None = None
        self._warned = False

    def parts(self) -> list[Widget]:
        return [self.list, self._area]

    def on_mount(self) -> None:
        super().on_mount()
        self._look()
        self.set_interval(LOOK_AGAIN_SECONDS, self._look)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "keep":
            return self._changing is not None
        if action in ("change", "take_back"):
            return self._changing is None and self.list.marked is not None
        return True

    def _look(self) -> None:
        now = waiting(self._controller)
        if now != self.list.items or not now:
            self.list.show(now, nothing="The model has heard everything.")
            self.tell(str(len(now)))
            self.change_keys()

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def action_page(self, by: int) -> None:
        self.list.page(by)

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        self.action_change()

    def action_change(self) -> None:
        if words := self.list.marked:
            self._changing, self._warned = words, False
            self._area.load_text(harmless(words.said.text))
            self._area.move_cursor(self._area.document.end)
            self.add_class("-changing")
            self._area.focus()
            self.change_keys()

    async def action_keep(self) -> None:
        if not (words := self._changing):
            return
        text = self._area.text
        if words.said.message_id not in {
            each.said.message_id for each in waiting(self._controller)
        }:
            self._controller.insert(text)
            self._controller.toast(
                "It was heard meanwhile. Your change is in the input area.", "warning"
            )
        else:
            await self._send(words, text if text.strip() else None)
        self._stop_changing()

    async def action_take_back(self) -> None:
        if words := self.list.marked:
            await self._send(words, None)

    async def _send(self, words: Waiting, text: str | None) -> None:
        edit = EditQueue(task_id=words.task_id, message_id=words.said.message_id, text=text)
        if await self._controller.send(edit):
            self._controller.toast("Taken back." if text is None else "Changed.", "success")

    def _stop_changing(self) -> None:
        self._changing = None
        self.remove_class("-changing")
        self.set_focus(None)
        self.change_keys()

    def action_close(self) -> None:
        if (words := self._changing) is None:
            self.dismiss(None)
        elif self._warned or self._area.text == harmless(words.said.text):
            self._stop_changing()
        else:
            self._warned = True
            self._controller.toast("Enter keeps the change; Esc again drops it.", "warning")


def _drawn(words: Waiting, width: int, theme: Theme) -> Text:
    line = Text(harmless_line(one_line(words.said.text)), theme.ink(theme.words))
    if words.said.images:
        line.append(f"  +{counted(len(words.said.images), 'image')}", theme.ink(theme.quiet))
    return line
