"""The same conversation as each of the other agents stores it, by their public formats."""

import base64
import json
import shutil
import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 8, 6)).decode()
PROMPT = "Fix the parser, see @/notes.txt"
LOOK, FIXED, NEXT, LAST = "I look at it.", "Fixed it.", "Thanks. And now?", "Nothing more to do."
READ, FAILED = "def parse(): pass", "1 failed"
DAY = 1_760_000_000_000
"""Milliseconds of the first message."""


def _lines(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def _json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def _at(minute: int) -> str:
    return f"2025-10-09T08:{53 + minute}:20.000Z"


def claude(home: Path, folder: Path) -> Path:
    """With a rewound branch, a sub-agent, and the result of a parallel call beside the branch."""
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
    }
    used = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}

    def line(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> Any:
        answer = {"id": f"msg_{more.pop('of', uuid)}", "model": "opus", "usage": used}
        message = {"role": kind, "content": content, **(answer if kind == "assistant" else {})}
        known = {"type": kind, "uuid": uuid, "parentUuid": parent, "message": message}
        return {**known, "cwd": str(folder), "timestamp": _at(0), "isSidechain": False, **more}

    def call(call_id: str, name: str, **arguments: Any) -> Any:
        return [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}]

    def result(call_id: str, content: Any, **more: Any) -> Any:
        return [{"type": "tool_result", "tool_use_id": call_id, "content": content, **more}]

    return _lines(
        home / ".claude/projects/-work/3f0c3a5e-0000-4000-8000-000000000001.jsonl",
        {"type": "summary", "summary": "Parser repair", "leafUuid": "x"},
        {"type": "file-history-snapshot", "snapshot": {}},
        line("user", "m", None, "Caveat: The messages below", isMeta=True),
        line("user", "u1", "m", [{"type": "text", "text": PROMPT}, image]),
        line("assistant", "t", "u1", [{"type": "thinking", "thinking": "Hm", "signature": "s"}]),
        line("assistant", "a1", "t", [{"type": "text", "text": LOOK}], of="a1"),
        line("assistant", "a2", "a1", call("toolu_1", "Read", file_path="parse.py"), of="a1"),
        line("assistant", "a3", "a2", call("toolu_2", "Bash", command="pytest -q"), of="a1"),
        line("user", "r1", "a2", result("toolu_1", [{"type": "text", "text": READ}])),
        line("user", "s1", None, "work of a sub-agent", isSidechain=True),
        line("user", "r2", "a3", result("toolu_2", FAILED, is_error=True)),
        line("assistant", "a4", "r2", [{"type": "text", "text": FIXED}]),
        line("user", "u2", "a4", "a message that was taken back"),
        line("assistant", "a5", "u2", [{"type": "text", "text": "an answer to it"}]),
        line("user", "u3", "a4", NEXT),
        line("assistant", "a6", "u3", [{"type": "text", "text": LAST}]),
    )


def codex(home: Path, folder: Path) -> Path:
    """With the same usage reported twice."""

    def line(kind: str, **payload: Any) -> Any:
        return {"timestamp": _at(0), "type": kind, "payload": payload}

    def said(role: str, words: str, *more: Any) -> Any:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": words}, *more]
        return line("response_item", type="message", role=role, content=content)

    def done(call_id: str, output: Any) -> Any:
        return line("response_item", type="function_call_output", call_id=call_id, output=output)

    def call(call_id: str, name: str, **arguments: Any) -> Any:
        spelled = json.dumps(arguments)
        return line(
            "response_item", type="function_call", name=name, call_id=call_id, arguments=spelled
        )

    used = {"input_tokens": 100, "cached_input_tokens": 90, "output_tokens": 5}
    info = {"last_token_usage": used, "total_token_usage": used}
    tokens = line("event_msg", type="token_count", info=info)
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
    name = "rollout-2025-10-09T08-53-20-0199c000-0000-7000-8000-000000000001.jsonl"
    return _lines(
        home / ".codex/sessions/2025/10/09" / name,
        line("session_meta", id="0199c000-0000-7000-8000-000000000001", cwd=str(folder)),
        said("developer", "<permissions instructions>"),
        said("user", "<environment_context>\n  <cwd>/work</cwd>"),
        line("turn_context", model="gpt-5-codex", cwd=str(folder)),
        said("user", PROMPT, picture),
        line("event_msg", type="user_message", message=PROMPT),
        line("response_item", type="reasoning", summary=[], encrypted_content="gAAA"),
        said("assistant", LOOK),
        call("call_1", "read_file", path="parse.py"),
        call("call_2", "shell", command=["bash", "-lc", "pytest -q"]),
        done("call_1", READ),
        done("call_2", {"content": FAILED, "success": False}),
        tokens,
        tokens,
        said("assistant", FIXED),
        said("user", NEXT),
        said("assistant", LAST),
    )


def _roo_like(tasks: Path, folder: Path, *, item: bool) -> Path:
    """Calls by name, a result in words, and details of the environment."""
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
    }
    details = {
        "type": "text",
        "text": f"<environment_details>\n# Current Workspace Directory ({folder}) Files\n",
    }
    task = tasks / "1760000000000"
    used = {"request": "…", "tokensIn": 100, "tokensOut": 5, "cacheReads": 90, "cost": 0.5}
    _json(
        task / "ui_messages.json",
        [
            {"ts": DAY, "type": "say", "say": "text", "text": PROMPT},
            {"ts": DAY, "type": "say", "say": "api_req_started", "text": json.dumps(used)},
        ],
    )
    if item:
        about = {"id": task.name, "ts": DAY, "task": PROMPT, "workspace": str(folder)}
        _json(task / "history_item.json", about)

    def call(call_id: str, name: str, **arguments: Any) -> Any:
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def result(call_id: str, content: Any, **more: Any) -> Any:
        return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}

    def message(role: str, *content: Any) -> Any:
        return {"role": role, "content": list(content), "ts": DAY}

    return _json(
        task / "api_conversation_history.json",
        [
            message("user", {"type": "text", "text": f"<task>\n{PROMPT}\n</task>"}, image, details),
            message(
                "assistant",
                {"type": "reasoning", "text": "Hm"},
                {"type": "text", "text": LOOK},
                call("toolu_1", "read_file", path="parse.py"),
                call("toolu_2", "execute_command", command="pytest -q"),
            ),
            message("user", result("toolu_1", READ), result("toolu_2", FAILED, is_error=True)),
            message("assistant", call("toolu_3", "attempt_completion", result=FIXED)),
            message("user", result("toolu_3", f"<user_message>\n{NEXT}\n</user_message>"), details),
            message("assistant", {"type": "text", "text": LAST}),
        ],
    )


def roo(home: Path, folder: Path) -> Path:
    store = home / ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline"
    return _roo_like(store / "tasks", folder, item=True)


def cline(home: Path, folder: Path) -> Path:
    store = home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev"
    about = {"id": "1760000000000", "task": PROMPT, "cwdOnTaskInitialization": str(folder)}
    _json(store / "state/taskHistory.json", [about])
    return _roo_like(store / "tasks", folder, item=False)


def kilo(home: Path, folder: Path) -> Path:
    return _roo_like(home / ".kilocode/cli/global/tasks", folder, item=False)


def opencode(home: Path, folder: Path) -> Path:
    storage = home / ".local/share/opencode/storage"
    session = {"id": "ses_1", "title": "Parser repair", "directory": str(folder)}
    _json(storage / "session/p1/ses_1.json", {**session, "time": {"created": DAY, "updated": DAY}})
    _json(storage / "session/p1/ses_2.json", {"id": "ses_2", "parentID": "ses_1"})
    place = 0

    def message(role: str, *parts: Any, **more: Any) -> Path:
        nonlocal place
        place += 1
        mid = f"msg_{place:03}"
        for number, part in enumerate(parts):
            _json(storage / "part" / mid / f"prt_{number:03}.json", part)
        about = {"id": mid, "role": role, "time": {"created": DAY}, **more}
        return _json(storage / "message/ses_1" / f"{mid}.json", about)

    def words(said: str) -> Any:
        return {"type": "text", "text": said}

    def tool(call_id: str, name: str, **state: Any) -> Any:
        return {"type": "tool", "callID": call_id, "tool": name, "state": state}

    url = f"data:image/png;base64,{PICTURE}"
    message(
        "user",
        words(PROMPT),
        {"type": "file", "mime": "image/png", "url": url},
        {"type": "text", "text": "Called the Read tool", "synthetic": True},
    )
    tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 90, "write": 0}}
    answer = message(
        "assistant",
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm"},
        words(LOOK),
        tool("call_1", "read", status="completed", input={"filePath": "parse.py"}, output=READ),
        tool("call_2", "bash", status="error", input={"command": "pytest -q"}, error=FAILED),
        {"type": "step-finish"},
        modelID="glm",
        cost=0.5,
        tokens=tokens,
    )
    message("assistant", words(FIXED), modelID="glm")
    message("user", words(NEXT))
    message("assistant", words(LAST), modelID="glm")
    return answer


def gemini(home: Path, folder: Path) -> Path:
    import hashlib

    project = hashlib.sha256(str(folder).encode()).hexdigest()

    def call(call_id: str, name: str, status: str, args: Any, response: Any) -> Any:
        result = [{"functionResponse": {"id": call_id, "name": name, "response": response}}]
        known = {"id": call_id, "name": name, "args": args, "status": status}
        return {**known, "result": result, "timestamp": _at(0)}

    calls = [
        call("read-1", "read_file", "success", {"absolute_path": "parse.py"}, {"output": READ}),
        call("shell-2", "run_shell_command", "error", {"command": "pytest"}, {"error": FAILED}),
    ]
    picture = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
    tokens = {"input": 100, "output": 5, "cached": 90, "thoughts": 0, "total": 105}

    def message(kind: str, content: Any, **more: Any) -> Any:
        return {"id": "m", "timestamp": _at(0), "type": kind, "content": content, **more}

    return _json(
        home / f".gemini/tmp/{project}/chats/session-2025-10-09T08-53-abcd.json",
        {
            "sessionId": "abcd0000-0000-4000-8000-000000000001",
            "projectHash": project,
            "startTime": _at(0),
            "lastUpdated": _at(1),
            "messages": [
                message("user", [{"text": PROMPT}, picture]),
                message("gemini", LOOK, toolCalls=calls, tokens=tokens, model="gemini-pro"),
                message("info", "Update available"),
                message("gemini", FIXED),
                message("user", NEXT),
                message("gemini", LAST),
            ],
        },
    )


WRITERS: Mapping[str, Callable[[Path, Path], Path]] = {
    each.__name__: each for each in (claude, codex, roo, cline, kilo, opencode, gemini)
}
"""Each writes the conversation below a home folder, and returns the file that has most of it."""


def opencode_database(home: Path) -> Path:
    """The same conversation as newer versions store it."""
    WRITERS["opencode"](home, home / "work")
    data = home / ".local/share/opencode"
    file, storage = data / "opencode.db", data / "storage"
    stamps = "time_created INTEGER, time_updated INTEGER, data TEXT"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(
            "CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, title TEXT, "
            "revert TEXT, time_updated INTEGER)"
        )
        database.execute(f"CREATE TABLE message (id TEXT, session_id TEXT, {stamps})")
        database.execute(f"CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, {stamps})")
        row = ("ses_1", None, str(home / "work"), "Parser repair", None, DAY)
        database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
        database.execute("INSERT INTO session (id, parent_id) VALUES ('ses_2', 'ses_1')")
        for each in storage.glob("message/ses_1/*.json"):
            values = (each.stem, "ses_1", DAY, DAY, each.read_text())
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", values)
        for each in storage.glob("part/*/*.json"):
            part = (each.stem, each.parent.name, "ses_1", DAY, DAY, each.read_text())
            database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", part)
    shutil.rmtree(storage)
    return file


def gemini_lines(home: Path) -> Path:
    """The same conversation as newer versions store it, with a message that was taken back."""
    old = WRITERS["gemini"](home, home / "work")
    about = json.loads(old.read_text())
    first, answer, *rest = [
        {**each, "id": f"m{number}"} for number, each in enumerate(about.pop("messages"))
    ]
    lines = (
        about,
        first,
        {**answer, "toolCalls": []},
        answer,
        {"id": "m9", "type": "user", "content": "a message that was taken back"},
        {"$rewindTo": "m9"},
        *rest,
        {"$set": {"lastUpdated": "2025-10-09T08:59:20.000Z"}},
    )
    file = old.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    old.unlink()
    return file


NEWER: Mapping[str, Callable[[Path], Path]] = {
    "opencode": opencode_database,
    "gemini": gemini_lines,
}
"""Each writes the same in the form of newer versions, for the folder `work` below the home."""
