"""Keys of a text field in the order in which they were pressed.

Textual puts letters into a field at once, but sends other keys a long way round before it looks
what they mean. Whoever types faster than the screen is drawn would see both in the wrong order.
"""

from textual import events
from textual.widget import Widget
from textual.widgets import Input, TextArea


async def is_done(field: Widget, event: events.Key) -> bool:
    """Whether the key means something other than a letter here; then that is done now."""
    if event.is_printable or not await field.app._check_bindings(event.key):
        return False
    event.stop()
    event.prevent_default()
    return True


class LineField(Input):
    async def _on_key(self, event: events.Key) -> None:
        if not await is_done(self, event):
            await super()._on_key(event)


class TextField(TextArea):
    async def _on_key(self, event: events.Key) -> None:
        if not await is_done(self, event):
            await super()._on_key(event)
