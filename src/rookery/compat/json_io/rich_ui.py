"""What a webview with a text field and two buttons shows, and what it sends when they are used."""

from collections.abc import Sequence

from msgspec import Struct

from rookery.compat.json_io.consolidation import consolidated
from rookery.compat.json_io.controls import Button, Press, controls, destination, shows_streaming
from rookery.compat.json_io.message_rows import Wire, read_row
from rookery.compat.structured_output.output_rows import output
from rookery.core.message import Message

_RESPONSES = {Press.YES: "yesButtonClicked", Press.NO: "noButtonClicked"}
_OPERATIONS = (Press.CONTINUE, Press.ABORT)


class RichButton(Struct, frozen=True, kw_only=True):
    """A button, and the message that pressing it sends."""

    label: str
    message: Wire


class RichUi(Struct, frozen=True, kw_only=True):
    sending_disabled: bool
    buttons_enabled: bool
    primary: RichButton | None
    secondary: RichButton | None
    streaming: bool


def modified_messages(messages: Sequence[Wire]) -> list[Wire]:
    """All messages but the task, put together for reading."""
    return consolidated(messages[1:])


def rich_ui(
    messages: Sequence[Wire],
    *,
    text: str = "",
    images: Sequence[str] = (),
    is_subtask: bool = False,
) -> RichUi:
    """What is offered now. Buttons send along what is typed."""
    rows = _rows(messages)
    offered = controls(rows, is_subtask=is_subtask)
    asked = next((row.ts for row in reversed(rows) if row.type == "ask"), None)

    def button(known: Button | None) -> RichButton | None:
        if known is None:
            return None
        return RichButton(label=known.label, message=_sent(known.press, asked, text, images))

    return RichUi(
        sending_disabled=offered.sending_disabled,
        buttons_enabled=offered.buttons_enabled,
        primary=button(offered.primary),
        secondary=button(offered.secondary),
        streaming=shows_streaming(rows, is_subtask=is_subtask),
    )


def sent_text(
    messages: Sequence[Wire], text: str, images: Sequence[str] = (), *, queued: int = 0
) -> Wire:
    """The message that carries what the user typed to where it is heard."""
    rows = _rows(messages)
    words = {"text": text, "images": list(images) or None}
    match destination(rows, queued=queued):
        case "new_task":
            return output(type="newTask", **words)
        case "queue":
            return output(type="queueMessage", **words)
        case "answer":
            asked = rows[-1].ts if rows[-1].type == "ask" else None
            return output(
                type="askResponse", askResponse="messageResponse", messageTs=asked, **words
            )


def _rows(messages: Sequence[Wire]) -> list[Message]:
    return [row for message in messages if (row := read_row(message)) is not None]


def _sent(press: Press, asked: int | None, text: str, images: Sequence[str]) -> Wire:
    if press is Press.NEW_TASK:
        return {"type": "clearTask"}
    if press in _OPERATIONS:
        return {"type": "terminalOperation", "terminalOperation": press.value}
    return output(
        type="askResponse",
        askResponse=_RESPONSES[press],
        text=text or None,
        images=list(images) or None,
        messageTs=asked,
    )
