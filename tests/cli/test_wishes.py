"""Flags, checked in order, and the prompt they lead to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rookery.cli.wishes import Wishes
from rookery.core.characters import as_utf8
from rookery.errors import SettingsError

ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"
PLAIN = Wishes(
    words=("fix", "it"),
    prompt_file=None,
    workspace=Path("/far/away"),
    once=True,
    yes=False,
    require_approval=False,
    trust=False,
    allow_outside=False,
    allow_protected=False,
    sandbox=None,
    provider=None,
    model=None,
    base_url=None,
    api_key=None,
    mode=None,
    resume_last=False,
    session_id=None,
    create_with_session_id=None,
    ephemeral=False,
    timeout=None,
    output_format="text",
    debug=False,
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt_file": Path("nowhere")},
        {"create_with_session_id": "x"},
        {"create_with_session_id": ID, "resume_last": True},
        {"create_with_session_id": ID, "session_id": ID},
        {"session_id": ID, "resume_last": True},
        {"ephemeral": True, "resume_last": True},
        {"output_format": "xml"},
        {"yes": True, "require_approval": True},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]):
    PLAIN.check()
    with pytest.raises(SettingsError):
        replace(PLAIN, **wrong).check()


@pytest.mark.parametrize("session_id", [ID, ID.upper()])
def test_an_id_may_be_written_in_capitals(session_id: str):
    replace(PLAIN, session_id=session_id).check()


@pytest.mark.parametrize(
    ("flags", "approval"),
    [({}, None), ({"yes": True}, "auto"), ({"require_approval": True}, "ask")],
)
def test_flags_say_whether_to_ask_or_leave_it_to_the_settings(
    flags: dict[str, Any], approval: str | None
):
    assert replace(PLAIN, **flags).approval == approval


def test_words_of_the_command_line_are_one_prompt():
    assert PLAIN.prompt() == "fix it"


def test_a_prompt_file_is_used_as_it_is(tmp_path: Path):
    file = tmp_path / "prompt"
    file.write_bytes(b"  two\nlines \xe2\x9c\x93 \xff\n")
    assert replace(PLAIN, words=(), prompt_file=file).prompt() == "  two\nlines ✓ \ufffd\n"


@pytest.mark.parametrize(
    ("given", "text"),
    [("grüße", "grüße"), ("gr\udcc3\udcbc\udcc3\udc9fe", "grüße"), ("caf\udce9", "caf\ufffd")],
)
def test_bytes_that_the_locale_could_not_read_are_read_as_utf8(given: str, text: str):
    assert as_utf8(given) == text


def test_a_later_run_names_the_workspace_only_if_it_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert replace(PLAIN, workspace=tmp_path).workspace_flag() == []
    assert replace(PLAIN, workspace=Path("/far")).workspace_flag() == ["-w", "/far"]
