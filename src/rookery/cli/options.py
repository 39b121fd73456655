"""The options of one run, and their validation before anything is started."""

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery import NAME
from rookery.cli.main import FORMATS, PICK_SESSION, task
from rookery.cli.streams import piped_input
from rookery.core.instructions import PIPED_TEXT, quoted
from rookery.core.modes import Level, level_named
from rookery.core.text.characters import as_utf8
from rookery.errors import SettingsError

STANDARD_INPUT = "-"
"""A word that stands for piped input."""


class FrontEnd(Enum):
    """The client of a run."""

    SCREEN = "full screen"
    LINES = "lines, or events, of one task"
    CONTROL_STREAM = "commands on standard input"
    ENGINE_MESSAGES = "messages of the engine, both ways"


class Options(Struct, frozen=True, kw_only=True):
    words: tuple[str, ...]
    prompt_text: str | None
    """The prompt given with `--prompt`."""
    prompt_file: Path | None
    image: tuple[Path, ...]
    append_system_prompt: str | None
    workspace: Path
    add_dir: tuple[Path, ...]
    intent: str | None
    governance_allow: tuple[str, ...]
    once: bool
    yes: bool
    require_approval: bool
    permission_mode: str | None
    allowed_tools: tuple[str, ...]
    disallowed_tools: tuple[str, ...]
    full_auto: bool
    """`--full-auto`, as in Codex."""
    skip_permissions: bool
    """`--yolo` and other agents' words for it."""
    trust: bool
    allow_outside: bool
    allow_protected: bool
    sandbox: str | None
    provider: str | None
    model: str | None
    base_url: str | None
    fallback: tuple[str, ...]
    api_key: str | None
    mode: str | None
    resume_last: bool
    session_id: str | None
    resume: str | None
    """The value of `--resume`: an id, or `PICK_SESSION`."""
    create_with_session_id: str | None
    ephemeral: bool
    timeout: float | None
    max_turns: int | None
    output_format: str
    no_tui: bool
    stdin_prompt_stream: bool
    signal_only_exit: bool
    json_io: bool
    reasoning_effort: str | None
    consecutive_mistake_limit: int | None
    terminal_shell: str | None
    exit_on_error: bool
    oneshot: bool
    followup_timeout: float | None
    extension: str | None
    verbose: bool
    debug: bool

    @property
    def resumes(self) -> bool:
        lists = self.picks_session and self.front_end is not FrontEnd.SCREEN
        return self.resume_last or self.named_session is not None or lists

    @property
    def named_session(self) -> str | None:
        return self.session_id if self.picks_session else self.session_id or self.resume

    @property
    def picks_session(self) -> bool:
        """Whether the user chooses the session from a list; the full screen has one."""
        return self.resume == PICK_SESSION

    def workspace_flag(self) -> list[str]:
        """Return the flag for a later run from the current folder that selects this workspace."""
        return [] if self.workspace == _current_folder() else ["-w", str(self.workspace)]

    def check(self) -> None:
        """Raise `SettingsError` for the first thing that is wrong."""
        rules = chain(self._session_rules(), self._value_rules(), self._usage_rules())
        for wrong, sentence in rules:
            if wrong:
                raise SettingsError(sentence)

    def check_driver(self) -> None:
        """Raise `SettingsError` if --json-io has a terminal on standard input. Not called for a
        server, which gets its input over connections."""
        if self.json_io and sys.stdin.isatty():
            raise SettingsError(
                "--json-io (-i) needs a program on standard input, not a terminal. To start with "
                'a prompt: rookery "your task"'
            )

    def _session_rules(self) -> Iterator[tuple[bool, str]]:
        yield (
            bool(self.prompt_file and not self.prompt_file.is_file()),
            f"No such prompt file: {self.prompt_file}.",
        )
        yield (
            bool(self.prompt_file and (self.words or self.prompt_text)),
            "Give the prompt as an argument or with --prompt-file, not both.",
        )
        yield (
            bool(self.resume and (self.session_id or self.resume_last)),
            "Give only one of --resume, --session-id and --continue.",
        )
        yield self.resume == "", "--resume is empty; give an id, or -c for the last session."
        yield (
            self.picks_session and not self.interactive,
            (
                "--resume without an id needs a terminal. Give an id (rookery list shows them), "
                "or use -c for the last session."
            ),
        )
        yield (
            self.picks_session and self._has_prompt,
            "To add a message, give --resume an id, or use -c for the last session.",
        )
        yield self.session_id == "", "--session-id is empty; give an id, or -c for the last one."
        yield self.create_with_session_id == "", "--create-with-session-id is empty; give a UUID."
        wanted = self.create_with_session_id
        yield (
            wanted is not None and not _is_uuid(wanted),
            f"--create-with-session-id takes a UUID, not {wanted!r}.",
        )
        yield (
            wanted is not None and self.resumes,
            "--create-with-session-id starts a session; leave out -c.",
        )
        yield (
            self.session_id is not None and self.resume_last,
            "Give --session-id or --continue, not both.",
        )
        yield (
            self.ephemeral and self.resumes,
            "--ephemeral deletes the session after the run, so it cannot continue one.",
        )

    def _value_rules(self) -> Iterator[tuple[bool, str]]:
        from rookery.app.model_choice import checked_provider
        from rookery.core.limits import EFFORTS
        from rookery.permissions.trust import never_trusted

        most = self.consecutive_mistake_limit
        yield (
            most is not None and most < 0,
            f"--consecutive-mistake-limit is 0 or more, not {most}; 0 means never.",
        )
        if self.provider is not None:
            checked_provider(self.provider)
        yield "" in self.fallback, "--fallback is empty; give MODEL or PROVIDER:MODEL."
        yield (
            not self.workspace.is_dir(),
            f"No such folder: {self.workspace}. Give one with -w.",
        )
        for folder in self.add_dir:
            yield not folder.is_dir(), f"No such folder: {folder}. --add-dir takes a folder."
            yield bool(wrong := never_trusted(folder)), f"--add-dir: {wrong}"
        yield (
            bool(self.image) and (self.resumes or self.picks_session),
            "--image is for new sessions. In an existing one, mention the file: @/path/to/image",
        )
        yield (
            self.reasoning_effort is not None and self.reasoning_effort not in EFFORTS,
            f"--reasoning-effort is one of {', '.join(EFFORTS)}, not {self.reasoning_effort!r}.",
        )
        yield (
            self.output_format not in FORMATS,
            f"--output-format is one of {', '.join(FORMATS)}, not {self.output_format!r}.",
        )

    def _usage_rules(self) -> Iterator[tuple[bool, str]]:
        stream = self.stdin_prompt_stream
        yield (
            self.output_format != "text" and not self.once and sys.stdout.isatty(),
            f"--output-format {self.output_format} needs --print.",
        )
        yield stream and not self.once, "--stdin-prompt-stream needs --print."
        yield (
            self.signal_only_exit and not stream,
            "--signal-only-exit is for --stdin-prompt-stream only.",
        )
        yield (
            stream and self.output_format != "stream-json",
            "--stdin-prompt-stream needs --output-format stream-json.",
        )
        yield (
            stream and sys.stdin.isatty(),
            "--stdin-prompt-stream needs a program on standard input, not a terminal.",
        )
        yield (
            stream and self._has_prompt,
            "With --stdin-prompt-stream the prompt comes from the stream; do not give one.",
        )
        yield (
            stream and self.create_with_session_id is not None,
            (
                "--stdin-prompt-stream and --create-with-session-id cannot be combined: "
                "the stream names new sessions (taskId)."
            ),
        )
        yield (
            self.json_io and (self.once or stream),
            "--json-io cannot be combined with --print or --stdin-prompt-stream.",
        )
        yield self.intent == "", "--intent is empty; give an id, such as INT-001."
        yield (
            self.intent is not None and self.resumes,
            "--intent is for new sessions. In an existing one, use /intent.",
        )
        yield (
            self.yes and self.require_approval,
            "-y approves everything and -a asks about it; give only one of them.",
        )
        yield (
            None in self._levels,
            f"--permission-mode is one of ask, edits, plan, sandboxed and auto, "
            f"not {self.permission_mode!r}.",
        )
        yield (
            len(self._levels) > 1,
            "-y, -a, --full-auto and --permission-mode name different levels; give only one.",
        )

    @property
    def _has_prompt(self) -> bool:
        return bool(self.words or self.prompt_text or self.prompt_file)

    def prompt(self) -> str:
        """Return the prompt: from the command line, a file, or a pipe. With other words, piped
        input is quoted: it is material, not an instruction of the user."""
        words = [word for word in (self.prompt_text or "", *self.words) if word != STANDARD_INPUT]
        text = as_utf8(" ".join(filter(None, words)))
        if self.prompt_file:
            text = self.prompt_file.read_bytes().decode("utf-8", "replace")
        named = STANDARD_INPUT in self.words
        if not named and (self.front_end is not FrontEnd.LINES or sys.stdin.isatty()):
            return text
        piped = piped_input(needed=named or not (text or self.resumes))
        if text and piped.strip():
            return f"{text}\n\n{quoted(PIPED_TEXT, piped)}"
        return text or piped

    @property
    def front_end(self) -> FrontEnd:
        if self.stdin_prompt_stream:
            return FrontEnd.CONTROL_STREAM
        if self.json_io:
            return FrontEnd.ENGINE_MESSAGES
        drawable = self.wants_screen and find_spec("textual") is not None
        return FrontEnd.SCREEN if drawable else FrontEnd.LINES

    @property
    def wants_screen(self) -> bool:
        """Whether there is a terminal, and no option asks for another client."""
        plain = self.once or self.no_tui or self.output_format != "text"
        if plain or os.environ.get("TERM", "dumb") in ("", "dumb"):
            return False
        return sys.stdin.isatty() and sys.stdout.isatty()

    @property
    def interactive(self) -> bool:
        """Whether a user can answer questions; with `-p` only if `-a` is given."""
        unseen = self.output_format != "text" or (self.once and not self.require_approval)
        if self.driven or unseen:
            return False
        screen = sys.stderr if self.once else sys.stdout
        return sys.stdin.isatty() and screen.isatty()

    @property
    def driven(self) -> bool:
        """Whether a program writes commands and reads events."""
        return self.stdin_prompt_stream or self.json_io

    @property
    def level(self) -> Level | None:
        """The level that the flags ask for; None leaves it to the settings."""
        return next(iter(self._levels), None)

    @property
    def _levels(self) -> list[Level | None]:
        """All levels that flags ask for, each once; None for a word that names no level."""
        flags = (
            (self.yes or self.skip_permissions, Level.AUTO),
            (self.require_approval, Level.ASK),
            (self.full_auto, Level.SANDBOXED),
            (self.permission_mode is not None, level_named(self.permission_mode or "")),
        )
        return list(dict.fromkeys(level for given, level in flags if given))


def driven_options(flags: Mapping[str, Any]) -> Options:
    """The options of a server: not interactive, as for a run driven through pipes."""
    return Options(**{**task.make_context(NAME, []).params, **flags, "json_io": True})


def _current_folder() -> Path | None:
    """Return the current folder; None if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _is_uuid(text: str) -> bool:
    """Whether the text is a UUID of version 1 to 8 in its canonical form."""
    try:
        read = uuid.UUID(text)
    except ValueError:
        return False
    return str(read) == text.lower() and read.version in range(1, 9)
