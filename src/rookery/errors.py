"""Every error raised on purpose.

RookeryError             its text is for a reader, and says what to do next
├── SettingsError        a settings file, a flag or an argument is wrong
│   └── IntentNotSelectable  the intent that a run was to work for
├── UsageError           a program used the Python API in a way that cannot work
├── CommandRejected      a client asked for what the task cannot do now
├── StorageError         a task could not be read from disk or written to it
├── ToolError            a tool could not do its work; the model reads the text
│   ├── BadArguments     the model called the tool wrongly; counts as a mistake
│   ├── ChangedMeanwhile a file is not as it was when the change of it was prepared
│   └── Denied           a rule or the user refused the call
└── ProviderError        the model could not be reached, or refused; `kind` says what to do

Anything else that escapes is a bug, and is allowed to look like one.
"""

from typing import Any

from rookery.core.limits import FailureKind


class RookeryError(Exception):
    """Base of the errors whose text is meant for a reader, not for a debugger."""


class SettingsError(RookeryError):
    pass


class IntentNotSelectable(SettingsError):
    pass


class UsageError(RookeryError):
    pass


class CommandRejected(RookeryError):
    pass


class StorageError(RookeryError):
    pass


class ToolError(RookeryError):
    pass


class BadArguments(ToolError):
    pass


class ChangedMeanwhile(ToolError):
    """A file is not as it was when the change of it was prepared."""


class Denied(ToolError):
    """`code` is of the rule of governance that refused, if one did. What is `retryable` may succeed
    later without a person, so it ends nothing else. With one that `halts`, the task stops.
    `would_change` says that the refused action might have changed something. `images` came with
    the user's no."""

    def __init__(
        self, message: str, *, code: str = "", retryable: bool = False, halts: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.halts = halts
        self.would_change = False
        self.images: tuple[Any, ...] = ()


class ProviderError(RookeryError):
    """One failed request. What is tried next is decided by `core.failures`, never here."""

    def __init__(
        self, message: str, *, kind: FailureKind, status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after


def first_error(error: BaseException) -> BaseException:
    """The first one in nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
