"""What the keys of the app do that lead from one thing to another."""

from collections.abc import Sequence

from rookery.core.commands import SwitchMode
from rookery.core.queries import AskModes
from rookery.tui.attachments import Attachments
from rookery.tui.interfaces import Desk
from rookery.tui.page import Page
from rookery.tui.picker_control import Picking
from rookery.tui.session_view import Session
from rookery.tui.status_updates import Showing
from rookery.tui.task_switcher import AT_WORK


def after(here: str, names: Sequence[str]) -> str:
    """The next of the names, which go round; the first if `here` is none of them."""
    at = names.index(here) if here in names else -1
    return names[(at + 1) % len(names)]


class Steering:
    def __init__(
        self,
        desk: Desk,
        page: Page,
        session: Session,
        showing: Showing,
        picking: Picking,
        attachments: Attachments,
    ) -> None:
        self._desk = desk
        self._page = page
        self._session = session
        self._showing = showing
        self._picking = picking
        self._attachments = attachments

    async def back(self) -> None:
        """Close what is open, stop the work, or clear: the first of them that there is."""
        page = self._page
        if await self._picking.give_up() or (page.panel.has_focus and page.panel.back()):
            return
        if page.panel.is_typed_to and page.composer.has_focus:
            page.panel.focus()
            return
        asking = page.panel.asked is not None
        stops = self._session.works or (asking and self._showing.is_stopping)
        if stops and (stop := self._session.stop()):
            self._showing.stopped()
            await self._desk.send(stop)
        elif asking:
            if page.composer.has_focus:
                page.composer.empty()
            self._showing.warn_of_stopping()
        elif page.composer.text:
            page.composer.empty()
        else:
            self._attachments.clear()
        page.composer.focus()

    async def next_place(self) -> None:
        page = self._page
        if self._picking.is_picking:
            await self._picking.key("tab")
            return
        places = [page.panel] if page.panel.asked else []
        order = [page.composer, *places, page.transcript]
        here = next((at for at, place in enumerate(order) if place.has_focus), -1)
        order[(here + 1) % len(order)].focus()

    async def next_mode(self) -> None:
        modes = [mode.slug for mode in await self._desk.ask(AskModes())]
        if self._session.works:
            self._desk.toast(AT_WORK, "warning")
        elif len(modes) < 2:
            self._desk.toast("There is only one mode.")
        else:
            await self.go_on_in_mode(after(self._showing.mode_now, modes))

    async def go_on_in_mode(self, mode: str) -> None:
        """Go on in another mode, or begin in it."""
        if not await self._desk.send(SwitchMode(task_id=self._desk.task_id or "", mode=mode)):
            return
        self._desk.toast(f"Mode: {mode}", "success")
        self._showing.around()

    def page(self, direction: int) -> None:
        """The conversation, wherever the keys are; a question that does not fit comes first."""
        panel = self._page.panel
        if panel.has_focus and not panel.is_seen_whole:
            panel.action_page(direction)
        else:
            self._page.transcript.action_half_page(direction)

    async def let_run_on(self) -> None:
        if offer := self._session.offer:
            await self._desk.send(offer.answer("yes"))
        else:
            self._desk.toast("No command is running that could run on.")
