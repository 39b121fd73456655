"""Flags, checked in order, and the prompt they lead to."""

import os
import pty
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.cli.main import task
from rookery.cli.options import Options
from rookery.core.text.characters import as_utf8
from rookery.errors import SettingsError
from support.each_row import each_row

ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"
GIVEN = task.make_context("rookery", ["-p", "fix", "it"], help_option_names=["-h", "--help"])
PLAIN = replace(Options(**GIVEN.params), workspace=Path("/"))
STREAM = {"stdin_prompt_stream": True, "output_format": "stream-json", "words": ()}


@pytest.fixture(autouse=True)
def nothing_piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield


MISSING = Path("/proc/no-such-folder")

IN_ORDER: list[tuple[str, dict[str, Any], str]] = [
    (
        "missing prompt file",
        {"prompt_file": Path("nowhere"), "words": ()},
        "No such prompt file: nowhere.",
    ),
    (
        "two prompts",
        {"prompt_file": Path(__file__)},
        "Give the prompt as an argument or with --prompt-file",
    ),
    ("empty session", {"session_id": ""}, "--session-id is empty"),
    ("empty new session", {"create_with_session_id": ""}, "--create-with-session-id is empty"),
    (
        "new session with a bad id",
        {"create_with_session_id": "x"},
        "--create-with-session-id takes a UUID, not 'x'.",
    ),
    (
        "new session and continue",
        {"create_with_session_id": ID, "resume_last": True},
        "--create-with-session-id starts",
    ),
    (
        "new session and session",
        {"create_with_session_id": ID, "session_id": ID},
        "--create-with-session-id starts",
    ),
    (
        "session and continue",
        {"session_id": ID, "resume_last": True},
        "Give --session-id or --continue, not both.",
    ),
    (
        "ephemeral and continue",
        {"ephemeral": True, "resume_last": True},
        "--ephemeral deletes the session",
    ),
    (
        "negative limit",
        {"consecutive_mistake_limit": -1},
        "--consecutive-mistake-limit is 0 or more, not -1",
    ),
    (
        "unknown provider",
        {"provider": "nobody"},
        "No such provider: 'nobody'. Available: anthropic, ",
    ),
    ("misspelt provider", {"provider": "opnai"}, "No such provider: 'opnai'. Did you mean openai?"),
    ("missing folder", {"workspace": MISSING}, f"No such folder: {MISSING}. Give one with -w."),
    (
        "unknown effort",
        {"reasoning_effort": "much"},
        "--reasoning-effort is one of unspecified, disabled, ",
    ),
    (
        "unknown format",
        {"output_format": "xml"},
        "--output-format is one of text, json, stream-json, not ",
    ),
    ("stream without print", {**STREAM, "once": False}, "--stdin-prompt-stream needs --print."),
    (
        "exit flag without stream",
        {"signal_only_exit": True},
        "--signal-only-exit is for --stdin-prompt-stream only.",
    ),
    (
        "stream as json",
        {**STREAM, "output_format": "json"},
        "--stdin-prompt-stream needs --output-format s",
    ),
    (
        "stream with a prompt",
        {**STREAM, "words": ("go",)},
        "With --stdin-prompt-stream the prompt comes from the",
    ),
    (
        "stream with a prompt option",
        {**STREAM, "prompt_text": "go"},
        "With --stdin-prompt-stream the prompt comes",
    ),
    (
        "stream and new session",
        {**STREAM, "create_with_session_id": ID},
        "--stdin-prompt-stream and --create-with-session-id cannot",
    ),
    ("json-io and print", {"json_io": True}, "--json-io cannot be combined with --print"),
    (
        "yes and approval",
        {"yes": True, "require_approval": True},
        "-y approves everything and -a asks about it",
    ),
]
"""In the order in which they are reported."""


@each_row(
    ("wrong", "sentence"),
    [pytest.param(*rest, id=name) for name, *rest in IN_ORDER],
)
def test_invalid_option_combinations_are_refused(wrong: dict[str, Any], sentence: str):
    PLAIN.check()
    with pytest.raises(SettingsError, match="^" + re.escape(sentence)):
        replace(PLAIN, **wrong).check()


@each_row(
    ("first", "second"),
    [
        pytest.param(
            IN_ORDER[one], IN_ORDER[other], id=f"{IN_ORDER[one][0]} before {IN_ORDER[other][0]}"
        )
        for one in range(len(IN_ORDER))
        for other in range(one + 1, len(IN_ORDER))
        if not IN_ORDER[one][1].keys() & IN_ORDER[other][1].keys()
        # a stream and a prompt cannot be had together, so one of these hides the other
        and "words" not in IN_ORDER[other][1]
    ],
)
def test_the_first_of_two_option_errors_is_reported(
    first: tuple[str, dict[str, Any], str], second: tuple[str, dict[str, Any], str]
):
    with pytest.raises(SettingsError, match="^" + re.escape(first[2])):
        replace(PLAIN, **first[1], **second[1]).check()


def test_options_that_depend_on_a_terminal_are_checked(monkeypatch: pytest.MonkeyPatch):
    ours, theirs = pty.openpty()
    with open(ours, "w") as _, open(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setattr("sys.stdin", terminal)
        with pytest.raises(SettingsError, match="--output-format json needs --print"):
            replace(PLAIN, output_format="json", once=False).check()
        with pytest.raises(SettingsError, match="not a terminal"):
            replace(PLAIN, **STREAM).check()
        replace(PLAIN, output_format="json").check()


@each_row(
    ("given", "good"),
    [
        (f"3f0c3a5e-6c5e-{kind}d2a-9d0b-0c7a1d6f2b11", kind in "12345678")
        for kind in "0123456789abcdef"
    ]
    + [
        ("3F0C3A5E-6C5E-4D2A-9D0B-0C7A1D6F2B11", True),
        ("3f0c3a5e6c5e4d2a9d0b0c7a1d6f2b11", False),
        ("3f0c3a5e-6c5e-4d2a-1d0b-0c7a1d6f2b11", False),
        ("{3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11}", False),
    ],
)
def test_ids_are_uuids_of_version_1_to_8(given: str, good: bool):
    options = replace(PLAIN, create_with_session_id=given)
    if good:
        options.check()
        return
    with pytest.raises(SettingsError, match="takes a UUID"):
        options.check()


@each_row(
    ("words", "said", "prompt"),
    [((), "go on", "go on"), (("and", "more"), "go", "go and more"), (("fix",), None, "fix")],
)
def test_the_prompt_may_be_an_option(words: tuple[str, ...], said: str | None, prompt: str):
    assert replace(PLAIN, words=words, prompt_text=said).prompt() == prompt


@each_row("session_id", [ID, ID.upper()])
def test_an_id_may_be_in_upper_case(session_id: str):
    replace(PLAIN, session_id=session_id).check()


@each_row(
    ("flags", "approval"),
    [({}, None), ({"yes": True}, "auto"), ({"require_approval": True}, "ask")],
)
def test_flags_override_whether_the_settings_ask(flags: dict[str, Any], approval: str | None):
    assert replace(PLAIN, **flags).level == approval


def test_command_line_words_are_joined_into_one_prompt():
    assert PLAIN.prompt() == "fix it"


def test_a_prompt_file_is_used_unchanged(tmp_path: Path):
    file = tmp_path / "prompt"
    file.write_bytes(b"  two\nlines \xe2\x9c\x93 \xff\n")
    assert replace(PLAIN, words=(), prompt_file=file).prompt() == "  two\nlines ✓ \ufffd\n"


@each_row(
    ("given", "text"),
    [("grüße", "grüße"), ("gr\udcc3\udcbc\udcc3\udc9fe", "grüße"), ("caf\udce9", "caf\ufffd")],
)
def test_bytes_the_locale_cannot_decode_are_read_as_utf8(given: str, text: str):
    assert as_utf8(given) == text


def test_the_workspace_flag_is_printed_only_for_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert replace(PLAIN, workspace=tmp_path).workspace_flag() == []
    assert replace(PLAIN, workspace=Path("/far")).workspace_flag() == ["-w", "/far"]
