"""Every number at which the product stops, waits or cuts: bytes and seconds. Effort of models."""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

Effort: TypeAlias = Literal[
    "unspecified", "disabled", "none", "minimal", "low", "medium", "high", "xhigh"
]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
NOT_AT_ALL = ("disabled", "none")
"""Both are in use; they mean the same."""


def effort_word(effort: Effort) -> str:
    """What most servers call it; nothing if it is left to the model."""
    if effort == "unspecified":
        return ""
    return "none" if effort in NOT_AT_ALL else effort


KIB = 1024
MIB = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True):
    """The user may set these; a project may only make them smaller."""

    mistakes: int = 3
    """Consecutive mistakes after which the user is asked; 0 means never."""
    requests: int = 200
    """Requests per approval after which the user is asked; 0 means never."""
    cost: float = 0.0
    """Dollars per approval after which the user is asked; 0 means never."""
    tokens: int = 0
    """Tokens, in and out, per approval after which the user is asked; 0 means never."""
    seconds: float = 0.0
    """Seconds of work per approval after which the user is asked; 0 means never."""
    repeats: int = 3
    """Identical calls in a row that are run; the next is answered with a warning."""
    calls_per_message: int = 20
    task_depth: int = 16
    """How many tasks may wait for one another."""
    continuations: int = 10
    """How often a provider may pause one answer."""

    command_seconds: float = 1800.0
    """After which a command is ended."""
    command_soft_seconds: float = 120.0
    """After which a call comes back while its command runs on."""
    quiet_seconds: float = 10.0
    """Without output after which a command may be waiting for input."""
    command_grace: float = 2.0
    """Between asking a process group to end and killing it; also how long pipes may outlive it."""
    command_text: int = 64 * KIB
    output_for_model: int = 16 * KIB
    output_head: int = 4 * KIB
    output_on_disk: int = 16 * MIB
    output_total: int = 1024 * MIB

    read_bytes: int = 256 * KIB
    read_lines: int = 2000
    read_line_length: int = 2000
    edit_bytes: int = 10 * MIB
    image_bytes: int = 5 * MIB
    arguments_bytes: int = 2 * MIB

    list_entries: int = 200
    search_matches: int = 300
    search_line_length: int = 500
    search_seconds: float = 20.0
    search_files: int = 200_000

    checkpoint_file_bytes: int = 20 * MIB
    checkpoint_files: int = 100_000
    checkpoint_seconds: float = 60.0
    checkpoint_bytes: int = 1024 * MIB
    """What the shadow repository of a workspace may hold before the oldest of it goes."""

    connect_seconds: float = 15.0
    first_byte_seconds: float = 120.0
    first_byte_seconds_local: float = 600.0
    idle_seconds: float = 90.0
    progress_seconds: float = 300.0
    event_bytes: int = 16 * MIB
    response_bytes: int = 64 * MIB
