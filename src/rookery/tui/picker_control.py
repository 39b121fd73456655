"""The picker that is open below the input area, or the list of what is to be done."""

from textual.containers import Vertical

from rookery.tui.composer import Composer, Typed
from rookery.tui.interfaces import Choice, Desk
from rookery.tui.pickers.picker import Picker
from rookery.tui.pickers.picker_choice import picker_for
from rookery.tui.screens.todo_panel import TodoPanel


class Picking:
    """Opens and closes what is in the slot. What was closed by hand stays so until another
    trigger is typed."""

    def __init__(self, desk: Desk, slot: Vertical, composer: Composer) -> None:
        self._desk = desk
        self._slot = slot
        self._composer = composer
        self._picker: Picker | None = None
        self._trigger = ""
        self._closed_by_hand = False

    @property
    def is_open(self) -> bool:
        return bool(self._slot.children)

    @property
    def is_picking(self) -> bool:
        return self._picker is not None

    async def typed(self, typed: Typed | None) -> None:
        """What is typed behind a trigger, or that nothing is."""
        if typed is None:
            self._closed_by_hand = False
            if self._picker:
                await self._empty()
            return
        if self._closed_by_hand:
            return
        if self._picker is None or self._trigger != typed.trigger:
            await self._open(picker_for(typed.trigger, self._desk))
            self._trigger = typed.trigger
        assert self._picker
        await self._picker.look_for(typed.text)

    async def key(self, key: str) -> bool:
        """A key that a picker may take. Whether it did."""
        if self._picker is None:
            return False
        if key in ("up", "down"):
            self._picker.move(-1 if key == "up" else 1)
            return True
        # whoever types fast is ahead of what was found, so it is looked for now
        if (choice := await self._picker.settle()) is None:
            return key == "tab"
        await self.take(choice)
        return True

    async def take(self, choice: Choice) -> None:
        await self._empty()
        self._composer.complete(choice.insert)
        self._composer.focus()
        if choice.action:
            await choice.action()

    async def close(self) -> bool:
        """Whether there was something to close."""
        was_open = self.is_open
        self._closed_by_hand = self._picker is not None
        await self._empty()
        return was_open

    async def give_up(self) -> bool:
        """The same by hand. What only asked for the list is taken out of the input area."""
        asked_for_keys = self._picker is not None and self._trigger == "?"
        was_open = await self.close()
        if asked_for_keys:
            self._composer.complete("")
        return was_open

    async def toggle_todos(self) -> None:
        if self._slot.query(TodoPanel):
            await self.close()
        elif self._desk.view and self._desk.view.todos:
            await self._empty()
            await self._fill(TodoPanel(self._desk))
        else:
            self._desk.toast("There is no list of things to do.")

    async def _open(self, picker: Picker) -> None:
        await self._empty()
        await self._fill(picker)
        self._picker = picker
        self._composer.picking = True

    async def _fill(self, widget: Picker | TodoPanel) -> None:
        self._slot.display = True
        await self._slot.mount(widget)

    async def _empty(self) -> None:
        self._picker = None
        self._composer.picking = False
        await self._slot.remove_children()
        self._slot.display = False
