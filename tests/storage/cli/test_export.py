"""`rookery export`: whole, harmless, in little memory, and without secrets in a bundle."""

import hashlib
import json
import os
import re
import stat
import tracemalloc
import zipfile
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery import VERSION
from rookery.cli.main import run
from rookery.core.asks import AskKind
from rookery.core.blocks import Image, Text, Thinking, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Fact,
    Noted,
    RequestStarted,
    TaskFailed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.text.scrubber import Scrubber
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import kind_of
from rookery.protocol.transcript_page import as_html, as_page
from rookery.protocol.transcript_text import PassageKind, TranscriptPassage
from rookery.storage.cli.export import SessionDocument
from rookery.storage.keys import save_key
from support.stored_sessions import CHILD, GRANDCHILD, PARENT, keep, keep_family, store

Captured = pytest.CaptureFixture[str]
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
IMAGE = Image(media_type="image/png", data=PIXEL)
FORMS = ("markdown", "json", "jsonl", "html")


def facts_with(text: str) -> tuple[Fact, ...]:
    """A session with a text in every place that can hold one."""
    return (
        TaskOpened(text=text, workspace=text, images=(IMAGE,), mode="code"),
        UserSpoke(message_id="m1", text=text),
        RequestStarted(request_id="r1", model=text, details={text: text}),
        AssistantSpoke(
            request_id="r1",
            blocks=(
                Text(text=text),
                Thinking(text=text, signature=text),
                ToolCall(id="c1", name="read_file", arguments={"path": text, text: [text]}),
                ToolCall(id="c2", name="execute_command", arguments={"command": text}),
            ),
        ),
        Asked(
            ask_id="q1", ask=AskKind.TOOL, text=json.dumps({"tool": text}), title=text, call_id="c1"
        ),
        Answered(ask_id="q1", ask=AskKind.TOOL, reply="yes", text=text),
        ToolStarted(call_id="c1", tool="read_file", title=text, text=json.dumps({"tool": text})),
        ToolFinished(call_id="c1", text=text, images=(IMAGE,)),
        ToolStarted(call_id="c2", tool="execute_command", title=text, command=text),
        ToolFinished(call_id="c2", text=text),
        Noted(text=text),
        TaskFailed(message=text),
        CompletionOffered(result=text),
    )


def exported(task_id: str, form: str) -> str:
    assert run(["export", task_id, "--format", form, "-o", f"out.{form}"]) == 0
    return Path(f"out.{form}").read_text(encoding="utf-8")


def bundled(task_id: str) -> dict[str, str]:
    assert run(["export", task_id, "--format", "bundle", "-o", "out.zip", "--force"]) == 0
    with zipfile.ZipFile("out.zip") as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist()}


class PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.sources: set[str] = set()
        self.read: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names.update(name for name, _ in attrs)
        self.sources.update(str(value) for name, value in attrs if name in ("src", "href"))

    def handle_data(self, data: str) -> None:
        self.read.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


OUR_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "section", "p", "pre", "span"),
    *("code", "details", "summary", "strong", "h1", "h2", "img"),
}
OUR_NAMES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "open", "alt", "src"),
}
HOSTILE = st.text(alphabet=st.sampled_from("<>&\"'/ !-=scriptonerror\n+`"), max_size=60)


@given(text=HOSTILE, diff=HOSTILE, below=HOSTILE, title=HOSTILE, kind=HOSTILE)
def test_a_page_contains_only_our_markup(text: str, diff: str, below: str, title: str, kind: str):
    images = (IMAGE, Image(media_type=kind, data=PIXEL), Image(media_type="image/png", data=kind))
    reported = [
        TranscriptPassage(
            kind=each, text=text, diff=diff, below=below, result=below, images=images, undone=kind
        )
        for each in PassageKind
    ]
    reader = PageReader()
    reader.feed("".join(as_page(title, as_html(reported))))
    assert reader.tags <= OUR_TAGS
    assert reader.names <= OUR_NAMES
    assert all(each.startswith("data:image/png;base64,") for each in reader.sources)
    assert text in "".join(reader.read)


ATTACKS = (
    '</script><script>alert(1)</script><img src=x onerror="alert(1)">',
    "</style></pre></details><svg/onload=alert(1)> --> ]]>",
    "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp.exe",
    "half a pair \ud83d and nothing",
    "```\n# heading\n```` <details open ontoggle=alert(1)>",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_in_every_field_stays_text(attack: str):
    keep("hostile", *facts_with(attack))
    page, document = exported("hostile", "html"), exported("hostile", "markdown")
    reader = PageReader()
    reader.feed(page)
    assert reader.tags <= OUR_TAGS
    assert reader.names <= OUR_NAMES
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page + document)
    lines = exported("hostile", "jsonl").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["export", "session", *["event"] * 13]
    json.loads(exported("hostile", "json"))


def test_a_page_folds_calls_and_shows_their_results_and_images():
    keep("pictures", *facts_with("plain"))
    page = exported("pictures", "html")
    assert f'src="data:image/png;base64,{PIXEL}"' in page
    assert "<details><summary><code>plain</code></summary>\n<pre>\nplain</pre>" in page
    assert "[image/png, 1 KB]" in exported("pictures", "markdown")


def test_lines_have_the_session_and_its_sub_tasks_in_order():
    keep_family(Path.cwd())
    lines = [json.loads(line) for line in exported(PARENT, "jsonl").splitlines()]
    assert lines[0] == {"type": "export", "format": 1, "tool": "rookery", "version": VERSION}
    assert [each["id"] for each in lines if each["type"] == "session"] == [
        PARENT,
        CHILD,
        GRANDCHILD,
    ]
    events = [each["event"] for each in lines if each.get("session") == PARENT]
    assert [each["seq"] for each in events] == list(range(1, 14))
    assert events[0]["kind"] == "task_opened"


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_journal_is_exported_as_far_as_it_can_be_read(form: str, capsys: Captured):
    keep_family(Path.cwd())
    journal = store().folder(PARENT) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"done", b"gone")
    journal.write_bytes(b"".join(lines))
    text = exported(PARENT, form)
    assert f"The journal of session {PARENT} is damaged: 9 events are not included." in text
    assert "Edit a.txt" in text
    assert "Run cat a.txt" not in text
    assert "9 events are not included" in capsys.readouterr().err


def test_a_journal_without_a_readable_line_is_an_error_and_writes_nothing(capsys: Captured):
    keep("ruined", Noted(text="x"))
    (store().folder("ruined") / "journal.jsonl").write_bytes(b"nonsense\n")
    assert run(["export", "ruined", "-o", "out.md"]) == 9
    assert "Nothing of session ruined can be read" in capsys.readouterr().err
    assert not Path("out.md").exists()


def test_a_bundle_needs_a_file_name_and_replaces_one_only_with_force(capsys: Captured):
    keep("mine", *facts_with("plain"))
    assert run(["export", "mine", "--format", "bundle"]) == 2
    assert "-o FILE.zip" in capsys.readouterr().err
    Path("out.zip").write_text("mine")
    assert run(["export", "mine", "--format", "bundle", "-o", "out.zip"]) == 2
    assert Path("out.zip").read_text() == "mine"


def test_a_bundle_has_hashes_counts_and_a_caution(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    home = os.path.expanduser("~")
    save_key(find_places(os.environ).keys_file, "anthropic", "a-stored-key-of-mine")
    monkeypatch.setenv("MY_DEPLOY_TOKEN", "correct horse battery")
    keep(
        "secrets",
        TaskOpened(text="use a-stored-key-of-mine", images=(IMAGE,), workspace=f"{home}/x"),
        Noted(text="ghp_" + "x1Y2" * 9),
        Noted(text="correct horse\n  battery"),
    )
    files = bundled("secrets")
    assert list(files) == ["session.jsonl", "session.html", "manifest.json"]
    manifest = json.loads(files["manifest.json"])
    for each in manifest["files"]:
        data = files[each["name"]].encode()
        assert (each["bytes"], each["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    # the workspace is in the summary and in the opening
    assert manifest["replaced"] == {
        "environment": 1,
        "github-token": 1,
        "home folder": 2,
        "image": 1,
        "key": 1,
    }
    said = capsys.readouterr().err
    assert "Replaced: environment 1, github-token 1, home folder 2, image 1, key 1." in said
    assert "A search cannot find every secret" in said
    assert "<title>use [redacted:key]</title>" in files["session.html"]
    assert stat.S_IMODE(Path("out.zip").stat().st_mode) == 0o600
    first = Path("out.zip").read_bytes()
    bundled("secrets")
    assert Path("out.zip").read_bytes() == first


@pytest.mark.parametrize("user", ["text", "tool", "end", "done", "task_opened", "ada"])
def test_a_user_may_have_any_name(user: str):
    keep("named", *facts_with(f"by {user}, in /home/{user}/x"))
    scrub = Scrubber(homes=[f"/home/{user}"], user=user)
    with closing(SessionDocument(store(), "named", scrub)) as document:
        lines = [json.loads(line) for line in document.pieces("jsonl")]
    kinds = [each["event"]["kind"] for each in lines if each["type"] == "event"]
    assert kinds == [kind_of(type(fact)) for fact in facts_with("")]
    assert lines[2]["event"]["text"] == "by user, in ~/x"


def wrapped(secret: str) -> str:
    return "\n".join(secret[at : at + 5] for at in range(0, len(secret), 5))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in JSON": json.dumps,
    "in JSON in JSON": lambda secret: json.dumps({"a": json.dumps([secret])}),
    "in HTML": escape,
    "in an address": lambda secret: f"https://x.example/?q={quote(secret, safe='')}",
    "over lines": wrapped,
    "over lines of a diff": lambda secret: "+" + wrapped(secret).replace("\n", "\n+"),
    "coloured": lambda secret: f"{secret[:4]}\x1b[31m{secret[4:]}\x1b[0m",
    "in base64": lambda secret: b64encode(f"user:{secret}:x".encode()).decode(),
    "in hexadecimal": lambda secret: secret.encode().hex(),
    "after long text": lambda secret: "word " * 22 + secret,
}
SECRETS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Z", "Co", "Cn", "M")),
    min_size=7,
    max_size=40,
).map("Zq{}7".format)  # no word of the page itself


@given(
    secret=SECRETS,
    spelling=st.sampled_from(sorted(SPELLINGS)),
    before=st.sampled_from(["", "x", "key=", "\\", '"', "\n"]),
)
def test_no_known_secret_survives_in_a_bundle(
    tmp_path_factory: pytest.TempPathFactory, secret: str, spelling: str, before: str
):
    text = before + SPELLINGS[spelling](secret)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROOKERY_HOME", str(tmp_path_factory.mktemp("home")))
        keep("s", *facts_with(text))
        scrub = Scrubber(keys=[secret])
        with closing(SessionDocument(store(), "s", scrub)) as document:
            made = {form: "".join(document.pieces(form)) for form in FORMS}  # type: ignore[arg-type]
    for form, whole in made.items():
        for read in (whole, unescape(whole), re.sub(r"\s|\\n|\n\+", "", whole)):
            assert not any(form in read for form in traces(secret)), form


def traces(secret: str) -> tuple[str, ...]:
    data = secret.encode()
    return (
        *(secret, json.dumps(secret)[1:-1], escape(secret), quote(secret, safe="")),
        *(data.hex(), b64encode(b"user:" + data).decode()[8:-4]),
    )


def test_a_long_session_takes_little_memory():
    result = "0123456789 abcdefghij\n" * 2_000
    keep(
        "long",
        TaskOpened(text="read a lot"),
        *(
            fact
            for number in range(150)
            for fact in (
                RequestStarted(request_id=f"r{number}", model="m"),
                AssistantSpoke(
                    request_id=f"r{number}", blocks=(ToolCall(id=f"c{number}", name="read_file"),)
                ),
                ToolStarted(call_id=f"c{number}", tool="read_file", title="Read x"),
                ToolFinished(call_id=f"c{number}", text=result),
            )
        ),
    )
    document = SessionDocument(store(), "long")
    for form in FORMS:
        tracemalloc.start()
        size = sum(map(len, document.pieces(form)))  # type: ignore[arg-type]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert size > 6_000_000 or form == "markdown"
        assert most < 2_000_000, form
