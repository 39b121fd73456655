"""A keyring for tests, selected with PYTHON_KEYRING_BACKEND: a file that is slow, locked or
unreliable as KEYRING_MOOD says."""

import json
import os
import threading
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

FILE = "KEYRING_FILE"
MOOD = "KEYRING_MOOD"


class FileKeyring(KeyringBackend):
    priority = 5  # type: ignore[assignment]

    @property
    def name(self) -> str:
        return "a file of the test's"

    def get_password(self, service: str, username: str) -> str | None:
        return self._kept().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._keep({**self._kept(), f"{service}/{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        kept = self._kept()
        if kept.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("there is none")
        self._keep(kept)

    def _kept(self) -> dict[str, str]:
        match os.environ.get(MOOD, ""):
            case "locked":
                raise KeyringLocked("sk-very-secret")
            case "stuck":
                threading.Event().wait()
            case "broken":
                raise RuntimeError("sk-very-secret")
            case _:
                pass
        file = Path(os.environ[FILE])
        kept: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
        return kept

    def _keep(self, kept: dict[str, str]) -> None:
        Path(os.environ[FILE]).write_text(json.dumps(kept))


class PlainKeyring(FileKeyring):
    """A keyring that stores keys unencrypted."""

    priority = 0.5  # type: ignore[assignment]
