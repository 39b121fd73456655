"""No server to find, and nothing that a model or a file says is obeyed by a screen,
fetched, or hidden.
"""

import json
import os
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish, say
from support.canaries import KEY, World, run
from support.timeouts import patience

LISTENING = "0A"


def family_of(process: int, folder: Path) -> list[int]:
    """A run, and all processes in its folder: the parents of a command may have ended."""
    found = {process}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                found.add(pid)
    return [process, *sorted(found - {process})]


def sockets_of(pid: int) -> set[str]:
    folder = f"/proc/{pid}/fd"
    targets = {os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}
    return {target[8:-1] for target in targets if target.startswith("socket:[")}


def listening() -> set[str]:
    """The inodes of all listening sockets, on any address."""
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[9] for row in rows if row[3] == LISTENING}


def test_a_run_opens_no_port_and_gives_its_children_no_key(world: World):
    """Checked while a command runs that waits to be released."""
    os.mkfifo(world.workspace / "pipe")
    with LlmServer([run("cat pipe; true")], [finish()]) as server:
        flags = ["--provider", "anthropic", "-m", "m", "--base-url", server.url, "go"]
        process = world.start("-p", "-y", *flags, ANTHROPIC_API_KEY=KEY)
        # opening the pipe blocks until the command reads from it
        with process, patience(), (world.workspace / "pipe").open("wb") as pipe:
            family = family_of(process.pid, world.workspace)
            assert any(b"cat\0pipe" in _words_of(pid) for pid in family)
            assert set().union(*map(sockets_of, family)) & listening() == set()
            environs = [Path(f"/proc/{pid}/environ").read_bytes() for pid in family[1:]]
            assert [KEY.encode() in environ for environ in environs] == [False] * len(environs)
            arguments = list(map(_words_of, family))
            assert [KEY.encode() in words for words in arguments] == [False] * len(arguments)
            pipe.close()
            process.communicate(timeout=60)
        assert process.returncode == 0
    assert world.harm() == []


def _words_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


# ── what reaches a terminal ─────────────────────────────────────────────────────────────

EVIL = (
    "<script>alert(1)</script>[bold]x[/bold]\x1b]0;OWNED\x07\x1b]8;;http://x\x07y\x1b]52;c;eA==\x07"
    "\x1b[2J\x1b[6n\x1bP$q\x1b\\\x1b_a\x1b\\\x1b^b\x1b\\\x9b2J\x9d0;t\x9c\x7f\b\b"
    "a\u202eb\u2066c\u200bd\u2060e\U000e0041\U000e0042f\u00adg"
)
NEVER = [
    *("\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1b\\", "\x1b[2J", "\x1b[6n", "\x07", "\x7f", "\x08"),
    *("\x9b", "\x9d", "\x9c", "\x90", "\u202e", "\u2066", "\u200b", "\u2060", "\U000e0041"),
]


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Everything that a terminal was sent while a model said, ran, wrote and named such things."""
    world = World(tmp_path_factory.mktemp("screen"))
    world.put("\x1b]0;OWNED\x07.txt", EVIL)
    world.put("a.txt", EVIL)
    with LlmServer(
        [say(EVIL), call("read_file", path="a.txt")],
        [call(f"no_{EVIL[:40]}", path="x")],
        [call("read_file", path=f"no{EVIL}")],
        [call("search_files", path=".", regex="OWNED", file_pattern=None)],
        [call("edit", file_path="a.txt", old_string="script", new_string=EVIL)],
        [run("cat a.txt; ls; true")],
        [run(f"echo '{EVIL}'; true")],
        [call("update_todo_list", todos=f"[ ] {EVIL}")],
        [finish(EVIL)],
    ) as server:
        flags = ["--provider", "anthropic", "-m", f"m{EVIL[:60]}", "--base-url", server.url, EVIL]
        with world.terminal("-y", *flags, columns=300) as terminal:
            terminal.wait_for("Done. [")
            terminal.type("")
            assert terminal.exit_code() == 0
            assert len(server.requests) == 9
            yield terminal.raw
    world.close()


@pytest.mark.parametrize("sequence", NEVER, ids=ascii)
def test_control_sequences_never_reach_the_terminal(screen: str, sequence: str):
    assert sequence not in screen


def test_markup_is_shown_as_text(screen: str):
    assert "<script>alert(1)</script>[bold]x[/bold]" in screen


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_structured_output_is_one_valid_line_each_without_control_characters(
    world: World, form: str
):
    visit = world.visit(
        [say(EVIL + "\ud800\x00\u2028\x85"), run(f"printf '{EVIL!a}'; true")],
        [finish(EVIL)],
        flags=("-p", "-y", "--output-format", form),
    )
    texts = visit.out.split("\n")[:-1] if form == "stream-json" else [visit.out]
    for text in texts:
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    raw = {f"U+{ord(c):04X}" for c in visit.out if c != "\n" and unicodedata.category(c) == "Cc"}
    assert raw == set()
    assert len(visit.out.splitlines()) == visit.out.count("\n")


# ── nothing is fetched ──────────────────────────────────────────────────────────────────


def test_urls_in_messages_files_and_output_are_never_requested(world: World):
    url = world.sink.url
    said = f"![a]({url}/a?d=1) <img src='{url}/b'> [c]({url}/c) {url}/d\n<link href='{url}/e'>"
    world.put("schema.json", json.dumps({"$schema": f"{url}/s", "$ref": f"{url}/r"}))
    world.put("note.ipynb", json.dumps({"cells": [{"cell_type": "markdown", "source": [said]}]}))
    world.put("entity.xml", f"<!DOCTYPE x [<!ENTITY y SYSTEM '{url}/entity'>]><x>&y;</x>")
    visit = world.visit(
        [say(said), call("read_file", path="schema.json")],
        [call("read_file", path="note.ipynb")],
        [call("read_file", path="entity.xml")],
        [call("read_file", path=f"{url}/tool")],
        [call("list_files", path=f"{url}/", recursive=None)],
        [call("search_files", path=f"{url}/", regex="x", file_pattern=None)],
        [run("cat schema.json note.ipynb")],
        [finish(said)],
    )
    assert world.harm(visit) == []
    assert visit.code == 0
