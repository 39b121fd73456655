"""What the keys of the app do that lead from one thing to another."""

from collections.abc import Sequence

from rookery.core.commands import SwitchMode
from rookery.core.queries import AskModes
from rookery.tui.attachments import Attachments
from rookery.tui.interfaces import Controller
from rookery.tui.page import Page
from rookery.tui.picker_control import PickerControl
from rookery.tui.session_view import AT_WORK, Session
from rookery.tui.status_updates import StatusUpdates


def after(here: str, names: Sequence[str]) -> str:
    """The next of the names, which go round; the first if `here` is none of them."""
    at = names.index(here) if here in names else -1
    return names[(at + 1) % len(names)]


class Navigation:
    def __init__(
        self,
        controller: Controller,
        page: Page,
        session: Session,
        status_updates: StatusUpdates,
        picker_control: PickerControl,
        attachments: Attachments,
    ) -> None:
        self._controller = controller
        self._page = page
        self._session = session
        self._status_updates = status_updates
        self._picker_control = picker_control
        self._attachments = attachments

    async def back(self) -> None:
        """Close what is open, stop the work, or clear: the first of them that there is."""
        page = self._page
        if await self._picker_control.give_up() or (page.panel.has_focus and page.panel.back()):
            return
        if page.panel.is_typed_to and page.composer.has_focus:
            page.panel.focus()
            return
        asking = page.panel.asked is not None
        stops = self._session.works or (asking and self._status_updates.is_stopping)
        if stops and (stop := self._session.stop()):
            self._status_updates.stopped()
            await self._controller.send(stop)
        elif asking:
            if page.composer.has_focus:
                page.composer.empty()
            self._status_updates.warn_of_stopping()
        elif page.composer.text:
            page.composer.empty()
        else:
            self._attachments.clear()
        page.composer.focus()

    async def next_place(self) -> None:
        page = self._page
        if self._picker_control.is_picking:
            await self._picker_control.key("tab")
            return
        places = [page.panel] if page.panel.asked else []
        order = [page.composer, *places, page.transcript]
        here = next((at for at, place in enumerate(order) if place.has_focus), -1)
        order[(here + 1) % len(order)].focus()

    async def next_mode(self) -> None:
        modes = [mode.slug for mode in await self._controller.ask(AskModes())]
        if self._session.works:
            self._controller.toast(AT_WORK, "warning")
        elif len(modes) < 2:
            self._controller.toast("There is only one mode.")
        else:
            await self.go_on_in_mode(after(self._status_updates.mode_now, modes))

    async def go_on_in_mode(self, mode: str) -> None:
        """Go on in another mode, or begin in it."""
        if not await self._controller.send(
            SwitchMode(task_id=self._controller.task_id or "", mode=mode)
        ):
            return
        self._controller.toast(f"Mode: {mode}", "success")
        self._status_updates.around()

    def page(self, direction: int) -> None:
        """The conversation, wherever the keys are; a question that does not fit comes first."""
        panel = self._page.panel
        if panel.has_focus and not panel.is_seen_whole:
            panel.action_page(direction)
        else:
            self._page.transcript.action_half_page(direction)

    async def let_run_on(self) -> None:
        if offer := self._session.offer:
            await self._controller.send(offer.answer("yes"))
        else:
            self._controller.toast("No command is running that could run on.")
