"""Pasted pictures: recognising, showing and sending them."""

import base64
import os
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.events import Key, Paste

from rookery.core.asks import AskKind
from rookery.core.blocks import Image
from rookery.core.commands import Answer, EditQueue, OpenTask, ReopenTask, Speak
from rookery.core.facts import Asked, TaskClosed, UserSpoke
from rookery.core.message import Message
from rookery.core.queries import AskModels, KnownModel
from rookery.protocol.picture_files import MOST
from rookery.tui import attachments
from rookery.tui.attachments import (
    MAX_IMAGES,
    MAX_READ,
    TOO_MANY,
    TOO_MUCH,
    Attached,
    clipboard_image,
    image_paths,
)
from rookery.tui.page import attached_line
from rookery.tui.rows.lines import ShownRow
from rookery.tui.short_texts import byte_count
from rookery.tui.theme import DARK, THEMES
from support.each_row import each_row
from support.scripted_host import ABOUT
from support.tui_rows import draw_row
from support.tui_scenes import COMMAND, EDIT, FOLLOWUP, working
from support.tui_session import Play, play
from support.tui_waiting import until

pytestmark = pytest.mark.anyio
BLIND = KnownModel(provider="anthropic", model=ABOUT.model, images=False)
HOME = "/home/ada"


def png(size: int = 0, width: int = 8) -> bytes:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, 6)
    return header.ljust(size, b"\n")


def image(data: bytes) -> Image:
    return Image(media_type="image/png", data=base64.b64encode(data).decode())


@each_row(
    ("text", "path"),
    [
        ("/a/shot.png", "/a/shot.png"),
        ("  /a/shot.PNG\n", "/a/shot.PNG"),
        ("~/shot.jpeg", "/home/ada/shot.jpeg"),
        ("'/a/my shot.jpg'", "/a/my shot.jpg"),
        ('"/a/my shot.gif"', "/a/my shot.gif"),
        ("'/a/it'\\''s.png'", "/a/it's.png"),
        ("/a/my\\ shot\\(1\\).webp", "/a/my shot(1).webp"),
        ("/a/my shot.png", "/a/my shot.png"),
        ("file:///a/my%20shot.png", "/a/my shot.png"),
        ("file://localhost/a/%E5%89%B2.png", "/a/割.png"),
        (f"file://{os.uname().nodename}/a/b.png", "/a/b.png"),
        ("/a/it's.png", "/a/it's.png"),
    ],
)
def test_a_pasted_path_is_recognised_in_any_terminals_notation(text: str, path: str):
    assert path in image_paths(text, HOME)


@each_row(
    "text",
    [
        "",
        "shot.png",
        "/a/notes.txt",
        "/a/one.png\n/a/two.png",
        "look at /a/one.png",
        "/a/one.png please",
        "file://elsewhere/a/b.png",
        "file://[/a.png",
        "https://example.org/a.png",
        "/a/\x1b[31m.png",
        "/" + "a" * 9000 + ".png",
    ],
)
def test_other_text_is_not_a_picture_path(text: str):
    assert image_paths(text, HOME) == []


@given(st.text())
def test_any_text_can_be_pasted(text: str):
    for path in image_paths(text, HOME):
        assert path.startswith("/")


@given(st.text(st.characters(exclude_characters="\0/", exclude_categories=["C"]), min_size=1))
def test_a_uri_names_any_file(name: str):
    assert image_paths(f"file:///a/{quote(name)}.png", HOME) == [f"/a/{name}.png"]


@given(st.binary(max_size=64))
def test_the_size_is_the_decoded_size(data: bytes):
    assert byte_count(image(data)) == len(data)


class Pasting(Play):
    """A played full screen with helpers for pasting."""

    @property
    def attached(self) -> list[str]:
        return [each.name for each in self.app._attachments.attached]

    @property
    def text(self) -> str:
        return self.composer.text

    async def shows(self, *texts: str) -> None:
        await until(self.pilot, lambda: all(text in self.screen for text in texts))

    async def gone(self, text: str) -> None:
        await until(self.pilot, lambda: text not in self.screen)

    def paste(self, text: object) -> None:
        self.app.post_message(Paste(str(text)))

    async def next(self, kind: type, count: int = 1) -> list[Any]:
        """Wait for `count` commands of a kind and return them."""
        await until(self.pilot, lambda: len(self.sent(kind)) >= count)
        return self.sent(kind)


@asynccontextmanager
async def pasting(**opening: Any) -> AsyncIterator[Pasting]:
    async with play(**{"task": False, "home": HOME, **opening}) as played:
        yield Pasting(played.app, played.host, played.pilot)


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    path = tmp_path / "shot.png"
    path.write_bytes(png(34 * 1024))
    return path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def install_clipboard(folder: Path, data: bytes, name: str = "wl-paste") -> None:
    held = folder / f"{name}.held"
    held.write_bytes(data)
    install(folder, name, f'echo "$@" > "{folder}/asked"; exec /bin/cat "{held}"')


@pytest.mark.parametrize(
    ("script", "reported"),
    [
        pytest.param("", "Install wl-clipboard or xclip", id="no-program"),
        pytest.param("exit 1", "There is no image in the clipboard", id="nothing-there"),
        pytest.param("echo words", "There is no image in the clipboard", id="only-text"),
        pytest.param(
            f"printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR\\0\\0\\0\\010\\0\\0\\0\\010'; "
            f"/bin/cat /dev/zero | /usr/bin/head -c {MAX_READ}",
            "too large",
            id="too-large",
        ),
    ],
)
async def test_the_reason_why_nothing_was_attached_is_shown(
    programs: Path, script: str, reported: str
):
    if script:
        install(programs, "wl-paste", script)
    async with pasting() as played:
        await played.pilot.press("ctrl+v")
        await played.shows(reported)
        assert played.attached == []


async def test_pictures_are_shown_above_the_input_and_removed(shot: Path):
    async with pasting(home=str(shot.parent)) as played:
        played.paste(shot)
        played.paste("~/shot.png")
        await played.shows("▣ 1 shot.png 34 KB  ▣ 2 shot.png 34 KB")
        await played.pilot.press("x", "backspace", "backspace")
        await played.gone("▣ 2")
        await played.shows("▣ 1 shot.png 34 KB")
        await played.pilot.press("x", "escape")
        await until(played.pilot, lambda: not played.text)
        assert played.attached == ["shot.png"]
        await played.pilot.press(*["slash", *"theme", "space", *"light", "enter"])
        await until(played.pilot, lambda: not played.text)
        await played.shows("▣ 1 shot.png")
        await played.pilot.press("escape")
        await played.gone("▣")
        played.host.refusal = "Not now."
        played.paste(shot)
        await played.pilot.press("a", "enter")
        await played.shows("Not now.", "▣ 1 shot.png")
        assert played.host.sent == []


async def test_pasted_paths_are_sent_with_or_without_a_first_message(shot: Path):
    other = shot.with_name("shot.jpg")
    other.write_bytes(b"GIF89a" + struct.pack("<HH", 4, 4) + b"\0" * 16)
    async with pasting() as played:
        played.paste(shot.as_uri())
        played.paste(other)
        await played.pilot.press("h", "i", "enter")
        (opened,) = await played.next(OpenTask)
        assert (opened.text, opened.images[0]) == ("hi", image(png(34 * 1024)))
        assert opened.images[1].media_type == "image/gif", (
            "the content decides the type, not the name"
        )
        assert played.attached == []
    async with pasting() as played:
        played.paste(shot)
        await played.pilot.press("enter")
        (opened,) = await played.next(OpenTask)
        assert (opened.text, len(opened.images)) == ("", 1)


async def test_a_path_to_an_invalid_or_large_picture_stays_text(tmp_path: Path):
    wrong, large = tmp_path / "wrong.png", tmp_path / "large.png"
    wrong.write_text("no picture")
    large.write_bytes(png(MOST + 1))
    async with pasting() as played:
        for text in (f"{tmp_path}/missing.png ", f"{wrong} ", "and\nwords"):
            played.paste(text)
        await until(played.pilot, lambda: played.text.endswith("words"))
        assert played.text == f"{tmp_path}/missing.png {wrong} and\nwords"
        await played.shows("Not attached: It is not an image.")
        played.paste(large)
        await played.shows("Not attached: Image, PNG, 8x6", "too large")
        assert played.attached == []


async def test_a_message_holds_at_most_20_pictures_and_a_bounded_total_size(shot: Path):
    large = shot.with_name("large.png")
    large.write_bytes(png(MOST))
    async with pasting() as played:
        for _ in range(5):
            played.paste(large)
        await played.shows(TOO_MUCH)
        assert len(played.attached) == 4
    async with pasting() as played:
        for _ in range(MAX_IMAGES + 1):
            played.paste(shot)
        await played.shows(TOO_MANY, "▣ 20 shot.png", "…  ▣")
        assert len(played.attached) == MAX_IMAGES


async def test_a_model_without_image_support_is_sent_no_picture(shot: Path):
    async with pasting() as played:
        played.host.answer(AskModels, (BLIND,))
        played.paste(shot)
        await played.shows("claude-opus-4.6 is not known to accept images")
        assert (played.attached, played.text) == ([], str(shot))
        played.host.answer(AskModels, (replace(BLIND, images=True),))
        played.paste(shot)
        await played.shows("▣ 1 shot.png")


async def test_a_queued_message_carries_its_pictures(shot: Path):
    async with pasting(task=True) as played:
        working(played.host)
        await played.shows("Esc stops")
        played.paste(shot)
        await played.pilot.press("b", "enter")
        (spoken,) = await played.next(Speak)
        assert (spoken.text, len(spoken.images)) == ("b", 1)
        played.host.tell(
            UserSpoke(message_id=spoken.message_id, text=spoken.text, images=spoken.images)
        )
        await played.shows("⋯ b  ▣ 1 PNG 34 KB")
        played.host.tell(Asked(ask_id="d1", ask=AskKind.COMPLETION_RESULT, text="Done."))
        (answer,) = await played.next(Answer)
        assert (answer.reply, answer.text, answer.images) == (
            "message",
            "and mention it in the changelog\n\nb",
            spoken.images,
        )
        assert len(await played.next(EditQueue)) == 2


async def test_an_answer_carries_pictures_and_a_rejection_sends_them_separately(shot: Path):
    async with pasting(task=True) as played:
        await played.ask(FOLLOWUP)
        played.composer.focus()
        played.paste(shot)
        await played.pilot.press("x", "enter")
        (answer,) = await played.next(Answer)
        assert (answer.reply, answer.text, len(answer.images)) == ("message", "x", 1)
        await played.ask(EDIT)
        played.composer.focus()
        played.paste(shot)
        await played.pilot.press("enter")
        (alone,) = await played.next(Speak)
        assert (alone.text, len(alone.images)) == ("", 1)
        assert played.sent(Answer) == []
        played.paste(shot)
        await played.pilot.press("x", "enter")
        (answer,) = await played.next(Answer)
        assert (answer.reply, answer.text, answer.images) == ("no", "x", ())
        assert len((await played.next(Speak, 2))[1].images) == 1
        assert isinstance(played.host.sent[-1], Answer)


async def test_a_follow_up_to_a_closed_task_carries_its_pictures(shot: Path):
    async with pasting(task=True) as played:
        played.host.tell(TaskClosed())
        played.host.end()
        await until(
            played.pilot, lambda: played.app._session.root and played.app._session.root.over
        )
        played.paste(shot)
        await played.pilot.press("m", "enter")
        await played.next(ReopenTask)
        played.host.tell(Asked(ask_id="r1", ask=AskKind.RESUME_TASK))
        (answer,) = await played.next(Answer)
        assert (answer.reply, answer.text, len(answer.images)) == ("message", "m", 1)


def test_the_clipboard_is_read_with_any_installed_program(programs: Path):
    for name, asked in (
        ("pngpaste", "-"),
        ("xclip", "-selection clipboard -t image/png -o"),
        ("wl-paste", "--type image/png"),
    ):
        install_clipboard(programs, png(2048), name)
        assert clipboard_image() == png(2048)
        assert (programs / "asked").read_text().strip() == asked
    install(programs, "wl-paste", "echo partly; exit 1")
    assert clipboard_image() == png(2048), "the next program is tried if one has nothing"


async def test_a_key_and_a_command_attach_the_clipboard_picture(programs: Path):
    async with pasting() as played:
        played.app.copy_to_clipboard("words")
        await played.pilot.press("ctrl+v")
        await until(played.pilot, lambda: played.text == "words")  # no picture in the clipboard
        played.composer.empty()
        install_clipboard(programs, png(2048))
        await played.pilot.press("slash", *"paste", "enter")
        await played.shows("▣ 1 clipboard 2 KB")
        assert played.text == ""
        await played.pilot.press("ctrl+v", "h", "enter")
        (opened,) = await played.next(OpenTask)
        assert (opened.text, opened.images) == ("h", (image(png(2048)),) * 2)


def test_a_clipboard_program_that_hangs_is_killed(programs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attachments, "CLIPBOARD_SECONDS", 0.5)
    install(programs, "wl-paste", f'echo $$ > "{programs}/pid"; exec /bin/sleep 300')
    began = time.monotonic()
    assert clipboard_image() == b""
    assert time.monotonic() - began < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int((programs / "pid").read_text()), 0)


async def busy_until(happened: Callable[[], object]) -> None:
    """Like `until`, without waiting for the screen to be idle."""
    with anyio.fail_after(60):
        while not happened():
            await a_moment()


async def a_moment() -> None:
    await anyio.sleep(0.01)


async def test_the_screen_stays_responsive_while_the_clipboard_is_read(
    programs: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(attachments, "CLIPBOARD_SECONDS", 60.0)
    asked, go, held = (programs / name for name in ("asked", "go", "held"))
    held.write_bytes(png())
    wait = f'while [ ! -e "{go}" ]; do /bin/sleep 0.01; done'
    install(programs, "wl-paste", f'echo > "{asked}"; {wait}; exec /bin/cat "{held}"')
    async with pasting() as played:
        played.app.post_message(Key("ctrl+v", None))
        await busy_until(asked.exists)
        played.app.post_message(Key("a", "a"))
        played.app.post_message(Key("f1", None))
        await busy_until(lambda: "Everywhere" in played.screen)
        assert (played.attached, played.text) == ([], "")
        go.touch()
        await until(played.pilot, lambda: played.text == "a")
        assert played.attached == ["clipboard"]


def test_endless_clipboard_output_is_refused(programs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attachments, "CLIPBOARD_SECONDS", 60.0)
    install(programs, "wl-paste", "exec /bin/cat /dev/zero")
    with pytest.raises(OSError, match="wrote too much"):
        clipboard_image()


def test_attachments_that_do_not_fit_are_dropped_from_the_start_of_the_line():
    attached = [Attached(name=f"{number}\x1b[2J.png", image=image(png())) for number in range(9)]
    line = attached_line(attached, 40).plain
    assert line.startswith("…  ▣")
    assert "▣ 9 8" in line
    assert "\x1b" not in line
    assert len(attached_line([Attached(name="n" * 99, image=image(png()))], 40).plain) == 40


@each_row(
    ("text", "expected"),
    [
        ("look", ["› look", "  ▣ 1 PNG 2 KB  ▣ 2 PNG 1 KB"]),
        ("", ["› ▣ 1 PNG 2 KB  ▣ 2 PNG 1 KB"]),
    ],
)
def test_pictures_of_the_user_are_shown_in_the_conversation(text: str, expected: list[str]):
    images = (image(png(2048)), image(png()))
    message = Message(ts=1, type="say", say="user_feedback", content=text, images=images)
    rows = draw_row(ShownRow(message=message), 60, THEMES[DARK])
    assert [row.text.rstrip() for row in rows] == expected


async def test_kept_output_goes_with_the_next_message_and_answers_no_question():
    async with play(task=False) as it:
        it.app.attach_text("$ echo kept (1 line)", "I ran this command\n")
        await it.see("$ echo kept (1 line)")
        await it.type("what is this?")
        await it.press("enter")
        (opened,) = it.sent(OpenTask)
        assert opened.text == "what is this?\n\nI ran this command\n"
        assert "$ echo kept (1 line)" not in it.screen
    async with play() as it:
        it.app.attach_text("$ ls (1 line)", "I ran this command")
        await it.ask(COMMAND)
        await it.key_by_key("yes", pause=0.02)
        await it.press("enter")
        await it.until(lambda: bool(it.sent(Answer)))
        assert [(each.reply, each.text) for each in it.sent(Answer)] == [("yes", "")]
        assert "$ ls (1 line)" in it.screen
        await it.press("backspace")
        await it.until(lambda: "$ ls (1 line)" not in it.screen)
