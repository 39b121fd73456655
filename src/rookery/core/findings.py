"""Problems in files that people wrote, and findings of an examination of the installation."""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a file. Lines and columns count from 1; 0 means the file as a
    whole. `text` is the line at fault as it stands there, `path` the element, such as
    `owned_scope[1]`."""

    file: str
    code: str
    message: str
    line: int = 0
    column: int = 0
    intent_id: str = ""
    path: str = ""
    text: str = ""
    fix: str = ""

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self.code.startswith("W") else Severity.ERROR

    @property
    def of_whole_file(self) -> bool:
        """Nobody knows what a policy that cannot be read would have forbidden."""
        return self.code.startswith("E1") or (
            self.severity is Severity.ERROR and self.path.startswith("policy")
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "severity": str(self.severity),
            "code": self.code,
            "intent_id": self.intent_id or None,
            "path": self.path or None,
            "text": self.text,
            "message": self.message,
            "fix": self.fix or None,
        }


class Health(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It works, with less than one might expect."""
    BAD = "bad"


class Finding(Struct, frozen=True):
    """`text` is a sentence or a few words; `todo` what the user can do, if anything."""

    name: str
    health: Health
    text: str
    todo: str = ""
