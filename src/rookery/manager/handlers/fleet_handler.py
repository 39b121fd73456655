"""Requests about the fleet that the manager was given with `--database`."""

from rookery.core.fleet_rows import FleetListing
from rookery.errors import CommandRejected
from rookery.manager.dependencies import FleetView
from rookery.manager.handlers.router import Handlers
from rookery.manager.list_requests import AnswerFleetSession, CancelFleetSession, ListFleet
from rookery.manager.shown_rows import Done

MOST_SESSIONS = 1_000
NO_FLEET = "This manager shows no fleet. Start it with --database."


class FleetHandler:
    def __init__(self, fleet: FleetView | None) -> None:
        self._fleet = fleet

    @property
    def handlers(self) -> Handlers:
        return {
            ListFleet: self._list,
            AnswerFleetSession: self._answer,
            CancelFleetSession: self._cancel,
        }

    async def _list(self, request: ListFleet) -> FleetListing:
        if not 1 <= request.most <= MOST_SESSIONS:
            raise CommandRejected(f"most must be a number from 1 to {MOST_SESSIONS}.")
        return await self._open.listing(request.most)

    async def _answer(self, request: AnswerFleetSession) -> Done:
        if request.reply == "message" and not request.text.strip():
            raise CommandRejected("The answer is empty.")
        await self._open.answer(request.id, request.reply, request.text, request.digest)
        return Done()

    async def _cancel(self, request: CancelFleetSession) -> Done:
        await self._open.cancel(request.id)
        return Done()

    @property
    def _open(self) -> FleetView:
        if not self._fleet:
            raise CommandRejected(NO_FLEET)
        return self._fleet
