"""Hooks with where they come from, and whether they may run."""

from enum import StrEnum

from msgspec import Struct

from rookery.governance.external_hooks.hook_config import HookCommand


class HookSource(StrEnum):
    MANAGED = "managed"
    """The administrator's."""
    USER = "user"
    PROJECT = "project"
    IMPORTED = "claude"
    """The project's too, but written for another product."""

    @property
    def is_of_project(self) -> bool:
        return self in (HookSource.PROJECT, HookSource.IMPORTED)


class TrustStatus(StrEnum):
    MANAGED = "managed"
    UNTRUSTED = "untrusted"
    TRUSTED = "trusted"
    MODIFIED = "modified"

    @property
    def may_run(self) -> bool:
        return self in (TrustStatus.MANAGED, TrustStatus.TRUSTED)


class KnownHook(Struct, frozen=True):
    """`file` is where it is written, as it is shown."""

    source: HookSource
    file: str
    hook: HookCommand


class FileProblem(Struct, frozen=True):
    """What is wrong in a file of hooks. `where` is the element; empty for the file as a whole."""

    file: str
    where: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.where, self.text) if part)
