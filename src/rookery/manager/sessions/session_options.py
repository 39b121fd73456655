"""A session as the user wants it, before there is one."""

import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from rookery.manager.sessions.session_folders import Launch
from rookery.manager.sessions.session_record import (
    LABEL_LENGTH,
    ParallelMode,
    SessionRecord,
    label_of,
)


class Wish(Struct, frozen=True, kw_only=True):
    """A session to be started in a folder. `options` are further flags of `serve`."""

    prompt: str
    workspace: Path
    images: tuple[str, ...] = ()
    label: str = ""
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    auto_approve: bool = True
    intent: str = ""
    options: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    """Variables that its processes have beside those of the manager."""
    parallel_mode: ParallelMode | None = None
    worktree_id: str | None = None
    group_id: str = ""
    git_url: str | None = None


def launch_of(wish: Wish, project: Path) -> Launch:
    return Launch(
        project=str(project),
        workspace=str(wish.workspace.absolute()),
        provider=wish.provider,
        model=wish.model,
        mode=wish.mode,
        auto_approve=wish.auto_approve,
        intent=wish.intent,
        options=wish.options,
        env=dict(wish.env) if wish.env else None,
    )


def record_of(wish: Wish, session_id: str) -> SessionRecord:
    return SessionRecord(
        session_id=session_id,
        label=(wish.label or label_of(wish.prompt))[:LABEL_LENGTH],
        renamed=bool(wish.label),
        prompt=wish.prompt,
        start_time=time.time_ns() // 1_000_000,
        parallel_mode=wish.parallel_mode,
        worktree_id=wish.worktree_id,
        group_id=wish.group_id,
        workspace=str(wish.workspace.absolute()),
        intent=wish.intent,
        git_url=wish.git_url,
        model=wish.model,
        mode=wish.mode,
        provider=wish.provider,
        auto_approve=wish.auto_approve,
    )
