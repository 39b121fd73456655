"""A sandbox as on older systems."""

from msgspec.structs import replace

from rookery.sandbox.layers import Layers
from rookery.sandbox.sandbox import Sandbox


class WithoutSharedNetwork(Sandbox):
    """A sandbox on a system on which no network namespace can be kept for all commands."""

    def _open_shared_network(self) -> None:
        return None


class WithoutLandlock(Sandbox):
    """A sandbox on a kernel too old for Landlock."""

    def _get_layers(self) -> Layers:
        layers = super()._get_layers()
        if not layers.able:
            return layers
        return replace(layers, state=replace(layers.state, kind="bubblewrap", landlock=0))
