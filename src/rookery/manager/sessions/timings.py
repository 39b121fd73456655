"""How long the manager waits for what, in seconds."""

from msgspec import Struct


class Timings(Struct, frozen=True, kw_only=True):
    creation: float = 30.0
    """Until a process has announced its session."""
    cancel: float = 3.0
    """Until a task that was cancelled says so; then its process is told to end."""
    end: float = 5.0
    """Until a process that was told to end is made to."""
    silence: float = 15.0
    """After which a process that works is asked whether it lives."""
    unresponsive: float = 60.0
    """Of silence, after which a session is shown as unresponsive."""
    last_words: float = 1.0
    """For what a process has said before it ended."""
    answer: float = 10.0
    """For a process to confirm an answer."""
    adoption: float = 5.0
    """For a process of an earlier manager to answer, before anything is shown."""
