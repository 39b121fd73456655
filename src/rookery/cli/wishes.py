"""What the flags of one run ask for, checked before anything is started."""

import sys
import uuid
from pathlib import Path

from rookery.cli.main import FORMATS
from rookery.core import values
from rookery.core.characters import as_utf8
from rookery.errors import SettingsError

STANDARD_INPUT = "-"
"""A word that stands for what comes through a pipe."""


@values.value
class Wishes:
    words: tuple[str, ...]
    prompt_file: Path | None
    workspace: Path
    once: bool
    yes: bool
    require_approval: bool
    trust: bool
    allow_outside: bool
    allow_protected: bool
    sandbox: str | None
    provider: str | None
    model: str | None
    base_url: str | None
    api_key: str | None
    mode: str | None
    resume_last: bool
    session_id: str | None
    create_with_session_id: str | None
    ephemeral: bool
    timeout: float | None
    output_format: str
    debug: bool

    @property
    def resumes(self) -> bool:
        return self.resume_last or self.session_id is not None

    def workspace_flag(self) -> list[str]:
        """What names the workspace in a later run that is started from the same folder."""
        return [] if self.workspace == _here() else ["-w", str(self.workspace)]

    def check(self) -> None:
        """Raises `SettingsError` with one sentence for the first thing that is wrong."""
        if self.prompt_file and not self.prompt_file.is_file():
            raise SettingsError(f"There is no file {self.prompt_file} to read the prompt from.")
        if self.prompt_file and self.words:
            raise SettingsError("Give the prompt in words or as --prompt-file, not both.")
        wanted = self.create_with_session_id
        if wanted is not None and not _is_uuid(wanted):
            raise SettingsError(f"--create-with-session-id takes a UUID, not {wanted!r}.")
        if self.create_with_session_id and self.resumes:
            raise SettingsError("--create-with-session-id starts a session; leave out -c.")
        if self.session_id and self.resume_last:
            raise SettingsError("Give --session-id or --continue, not both.")
        if self.ephemeral and self.resumes:
            raise SettingsError("--ephemeral keeps nothing, so there is nothing to go on with.")
        if self.output_format not in FORMATS:
            raise SettingsError(
                f"--output-format is one of {', '.join(FORMATS)}, not {self.output_format!r}."
            )
        if self.output_format != "text" and not self.once and sys.stdout.isatty():
            raise SettingsError(f"--output-format {self.output_format} needs --print.")
        if self.yes and self.require_approval:
            raise SettingsError("-y allows everything and -a asks about it; give one of them.")

    def prompt(self) -> str:
        """The words to start with: from the command line, a file, or a pipe."""
        said = as_utf8(" ".join(word for word in self.words if word != STANDARD_INPUT))
        if self.prompt_file:
            said = self.prompt_file.read_bytes().decode("utf-8", "replace")
        nothing_said = not (said or self.resumes or sys.stdin.isatty())
        if nothing_said or STANDARD_INPUT in self.words:
            piped = sys.stdin.buffer.read().decode("utf-8", "replace")
            said = f"{said}\n\n{piped}" if said else piped
        return said

    @property
    def interactive(self) -> bool:
        """Somebody can be asked. With `-p` only if `-a` wants it, and beside the output."""
        if self.output_format != "text" or (self.once and not self.require_approval):
            return False
        screen = sys.stderr if self.once else sys.stdout
        return sys.stdin.isatty() and screen.isatty()

    @property
    def approval(self) -> str | None:
        """What the flags say about asking; None leaves it to the settings."""
        if self.yes:
            return "auto"
        if self.require_approval:
            return "ask"
        return None


def _here() -> Path | None:
    """The current folder, unless it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
