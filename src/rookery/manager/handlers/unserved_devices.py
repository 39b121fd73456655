"""The paired devices while no page is served: none of them can be there, but one can be revoked."""

from pathlib import Path
from typing import Any

from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import ListDevices, RevokeDevice


class UnservedDevices:
    """The file is read when it is asked for: what is wrong with it is nobody else's concern."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def handlers(self) -> Handlers:
        return {ListDevices: self._do, RevokeDevice: self._do}

    async def _do(self, request: Any) -> Any:
        from rookery.manager.web.device_handler import DeviceFamily
        from rookery.manager.web.devices import Devices

        return await DeviceFamily(Devices(self._file), _is_away).handlers[type(request)](request)


def _is_away(device_id: str) -> None:
    """There is no connection of it to be ended."""
