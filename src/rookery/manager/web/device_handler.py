"""The paired devices, as the page and `rookery sessions` see them."""

from collections.abc import Callable

from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import Done, ListDevices, RevokeDevice
from rookery.manager.shown_rows import Device
from rookery.manager.web.devices import Devices


class DeviceFamily:
    def __init__(self, devices: Devices, send_away: Callable[[str], None]) -> None:
        self._devices = devices
        self._send_away = send_away
        self.handlers: Handlers = {ListDevices: self._list, RevokeDevice: self._revoke}

    async def _list(self, _: ListDevices) -> tuple[Device, ...]:
        return self._devices.all()

    async def _revoke(self, request: RevokeDevice) -> Done:
        name = self._devices.revoke(request.id)
        self._send_away(request.id)
        return Done(notes=(f"{name} is let in no more.",))
