"""Run as a script: a manager that starts the given sessions, and prints their states."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from rookery.manager.sessions.session_folders import SessionOptions
from rookery.manager.sessions.supervisor import open_supervisor
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore


async def host(project: Path, sessions: list[dict[str, Any]], acts: dict[str, list[Any]]) -> None:
    """`acts` maps a state to the methods to call when a session first reaches it."""
    places = find_places(os.environ)
    async with open_supervisor(project, places, os.environ, TaskStore(places)) as supervisor:
        for options in sessions:
            folder = Path(options.pop("workspace"))
            print(
                "started",
                await supervisor.start(SessionOptions(workspace=folder, **options)),
                flush=True,
            )
        last = {}
        async for changed in supervisor.changes():
            for session_id in changed:
                shown = supervisor.session(session_id)
                if shown and last.get(session_id) != shown.record.state:
                    last[session_id] = shown.record.state
                    print(shown.record.state, session_id, flush=True)
                    if act := acts.pop(shown.record.state, None):
                        name, *arguments = act
                        if name == "approve" and shown.record.pending_ask:
                            arguments = [shown.record.pending_ask.ts]
                        if name == "reopen":
                            await supervisor.host_of(session_id, reopen=True)
                            continue
                        await getattr(supervisor, name)(session_id, *arguments)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    anyio.run(host, Path(given["project"]), given["sessions"], given["acts"])
