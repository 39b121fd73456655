"""The user's own editor."""

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

USUAL_EDITOR = "vi"


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """The user's editor with its options. Raises `ValueError` for an unbalanced quote."""
    return shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or USUAL_EDITOR)


def edit_text(text: str, environ: Mapping[str, str], name: str = "message.md") -> str | None:
    """The text after the user has edited it; None if the editor failed. Blocks until the editor
    ends. Raises `OSError` or `ValueError` if it cannot be started."""
    with TemporaryDirectory(prefix="rookery-edit-") as folder:
        file = Path(folder, name)
        file.write_text(text, encoding="utf-8")
        if subprocess.run([*editor_command(environ), str(file)], check=False).returncode != 0:
            return None
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
