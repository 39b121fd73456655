"""What becomes of a session that an earlier version has recorded."""

import json
from pathlib import Path
from typing import Any

import golden.scenarios
import golden.sessions
from golden.frozen import sessions_of
from golden.normal import Line, Normaliser, without_pieces, words_of
from golden.scenarios import SESSION, at
from llm_server import LlmServer, finish
from support.json_io_client import JsonIo
from support.terminal_session import Installed

NEXT = "And what now?"
RESULT = "Went on with it."
RESUMED = ("resume_task", "resume_completed_task")
KEPT_WORDS = (
    words_of(Path(golden.scenarios.__file__))
    | words_of(Path(golden.sessions.__file__))
    | {NEXT, RESULT}
)


def resumed(rookery: Installed) -> dict[str, Any]:
    """It is listed, opened and shown, and goes on with a message: all that can be seen of it."""
    normal = Normaliser(script=KEPT_WORDS | _words(rookery), names=names_of(rookery))
    listed = json.loads(rookery.run("list", "--format", "json").stdout)
    with LlmServer([finish(RESULT)]) as server, JsonIo(rookery, "-y", *at(server)) as driver:
        driver.send("webviewDidLaunch")
        driver.wait(type="mcpServers")
        driver.send("showTaskWithId", text=main_session(rookery))
        asked = driver.wait_for(_resume_question, {"ask": RESUMED})
        driver.send("askResponse", askResponse="messageResponse", messageTs=asked["ts"], text=NEXT)
        driver.wait_row(ask="completion_result", text="")
        code = driver.end()
    return {
        "list": normal(listed),
        "exit": code,
        "shown": normal(without_pieces(driver.lines)),
        "request": normal(server.requests[0].body["messages"]),
        "facts": list(enumerate(_kinds(rookery), start=1)),
    }


def main_session(rookery: Installed) -> str:
    sessions = sessions_of(rookery)
    return SESSION if SESSION in sessions else sessions[0]


def facts_of(rookery: Installed) -> list[Line]:
    journal = rookery.home / "data" / "tasks" / main_session(rookery) / "journal.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines()
    return [json.loads(line.rpartition("\t")[0]) for line in lines]


def _kinds(rookery: Installed) -> list[str]:
    """Of all facts but those that did not exist when sessions were recorded."""
    return [each["kind"] for each in facts_of(rookery) if each["kind"] != "call_permitted"]


def names_of(rookery: Installed) -> dict[str, str]:
    return {str(rookery.workspace.resolve().parent): "<root>"}


def _resume_question(line: Line) -> Line | None:
    rows = [line.get("clineMessage", {}), *line.get("state", {}).get("clineMessages", ())]
    return next(
        (row for row in rows if row.get("ask") in RESUMED and not row.get("isAnswered")), None
    )


def _words(rookery: Installed) -> set[str]:
    """All texts in the journal and the files beside it."""
    blobs = rookery.home.glob("data/tasks/*/blobs/*")
    found = {path.read_text(encoding="utf-8") for path in blobs}

    def collect(value: Any) -> None:
        match value:
            case dict():
                for each in value.values():
                    collect(each)
            case list():
                for each in value:
                    collect(each)
            case str() if " " in value:
                found.add(value)
            case _:
                pass

    collect(facts_of(rookery))
    return found
