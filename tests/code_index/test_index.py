import os
import select
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from rookery.code_index import update as updating
from rookery.code_index.code_index import NAME, REBUILT
from rookery.core.indexed_code import Source
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied, ToolError

from .conftest import CountingSources, Shelf, ask, ask_until, paths

pytestmark = pytest.mark.anyio

PARSER = (
    "def parse_headers(text):\n    '''Split the header lines of a request.'''\n    return text\n"
)
SENDER = (
    "class MailSender:\n    def deliverMessage(self, message):\n        self.socket.send(message)\n"
)


@pytest.fixture
def stocked(shelf: Shelf) -> Shelf:
    shelf.put("net/parser.py", PARSER)
    shelf.put("net/mail.py", SENDER)
    shelf.put("README.md", "# A project\n\nIt has words on bananas.\n")
    return shelf


FOUND = {
    "parsing the headers of requests": "net/parser.py",
    "deliver a message": "net/mail.py",
    "deliverMessage": "net/mail.py",
    "mail sender": "net/mail.py",
    "banana": "README.md",
    "where is the parser": "net/parser.py",
    '"quotes" AND (brackets) NEAR* -- headers': "net/parser.py",
}


async def test_code_is_found_by_words_and_a_hit_shows_its_lines(stocked: Shelf):
    index = stocked.open()
    with pytest.raises(Denied):
        await index.search("banana", ".", Permit("", reads=frozenset(["net"])), bool)
    assert stocked.reads() == [], "nothing is searched without a permit"
    for query, path in FOUND.items():
        found = await ask(index, query)
        assert (paths(found)[0], found.notes) == (path, ()), query
    (hit,) = (await ask(index, "header lines")).hits
    assert (hit.path, hit.start, hit.end, hit.text) == ("net/parser.py", 1, 3, PARSER)
    assert hit.score == 1.0
    for query in ("zebra", "héllo wörld", "日本語"):
        assert (await ask(index, query)).hits == (), query
    with pytest.raises(ToolError, match="no words"):
        await ask(index, "?! ()")
    assert paths(await ask(index, "header", may_show=lambda path: "parser" not in path)) == []


@pytest.mark.parametrize("embedded", [False, True])
async def test_a_file_name_that_is_not_text_does_not_hide_other_files(
    stocked: Shelf, embedded: bool
):
    odd = os.fsdecode(b"odd-\xff")
    try:
        stocked.put(f"{odd}.py", PARSER)
        stocked.put(f"{odd}/parser.py", PARSER)
    except OSError:
        pytest.skip("This file system has no such names.")
    index = stocked.open(embedder=_Letters() if embedded else None)
    for _ in range(2):
        found = await ask(index, "deliver a message")
        assert paths(found)[0] == "net/mail.py"
        assert found.notes == ("(Left out, because their names are not UTF-8: 2 files.)",)
    with pytest.raises(ToolError, match="search_files"):
        await ask(index, "headers", odd)


class _Letters:
    """Vectors of how often some letters are there."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + text.encode().count(letter) for letter in b"aeiou"] for text in texts]


async def test_a_search_keeps_to_its_folder(stocked: Shelf):
    stocked.put("network/parser.py", PARSER)
    index = stocked.open()
    assert paths(await ask(index, "header", "net")) == ["net/parser.py"]
    assert paths(await ask(index, "header", "network/parser.py")) == ["network/parser.py"]
    assert sorted(paths(await ask(index, "header"))) == ["net/parser.py", "network/parser.py"]


async def test_nothing_is_read_again_that_has_not_changed(stocked: Shelf):
    index = stocked.open()
    await ask(index, "zebra")
    assert stocked.reads() == ["README.md", "net/mail.py", "net/parser.py"]
    await ask(index, "zebra")
    assert stocked.reads() == []
    stocked.put("net/mail.py", SENDER + "# zebra\n")
    assert paths(await ask(index, "zebra")) == ["net/mail.py"]
    assert stocked.reads() == ["net/mail.py"]
    await ask(stocked.open(), "banana")
    assert stocked.reads() == ["README.md"]


async def test_a_file_that_was_touched_only_is_not_indexed_anew(stocked: Shelf):
    index = stocked.open()
    await ask(index, "zebra")
    os.utime(stocked.root / "README.md", ns=(1, 1))
    stocked.reads()
    await ask(index, "zebra")
    assert stocked.reads() == ["README.md"]
    await ask(index, "zebra")
    assert stocked.reads() == []


async def test_files_that_go_move_or_become_hidden_are_forgotten(stocked: Shelf):
    index = stocked.open()
    await ask(index, "banana")
    (stocked.root / "README.md").unlink()
    (stocked.root / "net/mail.py").rename(stocked.root / "post.py")
    stocked.put(".gitignore", "parser.py\n.gitignore\n")
    assert (await ask(index, "banana")).hits == ()
    assert (await ask(index, "header lines")).hits == ()
    assert paths(await ask(index, "mail")) == ["post.py"]
    with sqlite3.connect(stocked.cache / NAME) as database:
        left = database.execute("SELECT path FROM files").fetchall()
        rows = database.execute("SELECT count(*) FROM chunks").fetchone()
        words = database.execute("SELECT body FROM words").fetchall()
    database.close()
    assert left == [("post.py",)]
    assert rows == (1,)
    assert "banana" not in str(words)


async def test_ignored_files_are_never_indexed(stocked: Shelf):
    for name, folder in ((".gitignore", "net"), (".rookeryignore", "a"), (".rooignore", "b")):
        stocked.put(name, f"{folder}/\n")
        stocked.put(f"{folder}/code.py", "banana")
    found = await ask(stocked.open(), "header parser mail sender banana")
    assert paths(found) == ["README.md"]
    assert not any(path.startswith(("net", "a/", "b/")) for path in stocked.reads())


NOT_READ = """
.env .env.local prod.env id_rsa a.pem .npmrc credentials.json .git/config .ssh/config
node_modules/a.js Secrets.yaml yarn.lock package-lock.json app.min.js app.js.map go.sum
Library/Keychains/a.txt .kube/config .my.cnf
"""


async def test_secrets_noise_and_large_files_are_never_read(shelf: Shelf):
    shelf.sources = CountingSources(shelf.root, home=shelf.root)
    for path in NOT_READ.split():
        shelf.put(path, "secret banana\n")
    shelf.put("large.py", "banana\n" * 200_000)
    shelf.put("a.py", "banana = 1\n")
    assert paths(await ask(shelf.open(), "secret banana")) == ["a.py"]
    assert shelf.reads() == ["a.py"]


async def test_a_file_that_changes_during_the_search_is_left_out(stocked: Shelf):
    index = stocked.open()
    await ask(index, "header")
    asked = threading.Event()

    def change(path: str) -> bool:
        stocked.put(path, "something else\n")
        asked.set()
        return True

    found = await ask(index, "header", may_show=change)
    assert asked.is_set()
    assert found.hits == ()
    assert found.notes == ("(Left out, because they just changed: 1 files.)",)


async def test_no_link_is_followed(stocked: Shelf, tmp_path: Path):
    outside = tmp_path / "outside.py"
    outside.write_text("zebra = 1\n", encoding="utf-8")
    (stocked.root / "link.py").symlink_to(outside)
    (stocked.root / "linked").symlink_to(tmp_path)
    assert (await ask(stocked.open(), "zebra")).hits == ()


ODD = [b"", b"\0\1banana", b"\xff\xfe", b"banana\xff\xe9\n", b"x" * 2_000_000, b"\xed\xa0\x80"]


async def test_files_that_are_not_proper_text_do_no_harm(stocked: Shelf):
    for number, content in enumerate(ODD):
        stocked.put(f"odd{number}.py", content)
    index = stocked.open()
    assert paths(await ask(index, "header lines")) == ["net/parser.py"]
    stocked.reads()
    await ask(index, "zebra")
    assert stocked.reads() == []
    stocked.put("a.bin", b"\0\0")
    source = stocked.sources.read("a.bin", 10)
    assert isinstance(source, Source)
    assert source.text == ""


async def test_one_file_does_not_crowd_out_the_others(shelf: Shelf):
    part = "def zebra_{0}():\n    return zebra({0}, 'zebra', 'and some more on a zebra')\n\n\n"
    shelf.put("gen.py", "".join(part.format(n) for n in range(3000)))
    shelf.put("real.py", "# one zebra\n" + "# and other animals\n" * 40)
    found = await ask(shelf.open(), "zebra")
    assert sorted(hit.path for hit in found.hits) == ["gen.py"] * 3 + ["real.py"]


async def test_an_answer_waits_a_limited_time_and_indexing_continues(stocked: Shelf):
    go_on = threading.Event()
    stocked.sources.before_read = lambda path: None if path == "README.md" else _wait(go_on)
    index = stocked.open(patience=0.2)
    found = await ask_until(index, "header lines", "Not indexed yet")
    assert found.hits == ()
    assert found.notes == ("(Not indexed yet: 3 files. Search again for these.)",)
    go_on.set()
    patient = stocked.open()
    assert paths(await ask(patient, "header lines")) == ["net/parser.py"]


def _wait(event: threading.Event) -> None:
    assert event.wait(60)


async def test_a_closed_index_stops_and_the_next_one_continues(
    stocked: Shelf, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(updating, "_SECONDS_AT_ONCE", 0.0)
    reading, go_on = threading.Event(), threading.Event()

    def hold(path: str) -> None:
        reading.set()
        _wait(go_on)

    stocked.sources.before_read = hold
    index = stocked.open(patience=0.1)
    await ask(index, "header")
    _wait(reading)
    closing = threading.Thread(target=index.close)
    closing.start()
    while not index._closed:
        closing.join(0.01)
    go_on.set()
    closing.join(60)
    assert len(stocked.reads()) == 1
    with pytest.raises(ToolError, match="closed"):
        await ask(index, "header")
    assert paths(await ask(stocked.open(), "header")) == ["net/parser.py"]


def _spoil_head(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def _spoil_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096 * 2, len(data), 64):
        data[at] ^= 0xFF
    path.write_bytes(data)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def _wrong_values(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE files SET mark = x'00ff'")
    database.close()


@pytest.mark.parametrize("spoil", [_spoil_head, _spoil_middle, _other_version, _wrong_values])
async def test_a_damaged_index_is_moved_aside_and_rebuilt(stocked: Shelf, spoil: object):
    await ask(stocked.open(), "header")
    assert callable(spoil)
    spoil(stocked.cache / NAME)
    index = stocked.open()
    found = await ask(index, "header")
    assert paths(found) == ["net/parser.py"]
    assert found.notes == (f"({REBUILT})",)
    assert (stocked.cache / f"{NAME}.damaged").exists()
    assert (await ask(index, "header")).notes == ()


@pytest.mark.parametrize("remove", [_empty, Path.unlink])
async def test_an_index_that_is_gone_is_made_anew(stocked: Shelf, remove: object):
    await ask(stocked.open(), "header")
    for file in stocked.cache.iterdir():
        if file.name != NAME:
            file.unlink()
    assert callable(remove)
    remove(stocked.cache / NAME)
    assert paths(await ask(stocked.open(), "header")) == ["net/parser.py"]


async def test_other_users_cannot_read_the_index(stocked: Shelf):
    await ask(stocked.open(), "header")
    modes = {stat.S_IMODE(file.stat().st_mode) for file in stocked.cache.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(stocked.cache.stat().st_mode) == 0o700


async def test_a_search_fails_if_the_index_cannot_be_stored(stocked: Shelf):
    stocked.cache.parent.mkdir()
    stocked.cache.write_text("a file", encoding="utf-8")
    with pytest.raises(ToolError, match="search_files works without it"):
        await ask(stocked.open(), "header")


OTHER_PROCESS = """
    import sys, anyio
    from pathlib import Path
    from rookery.code_index.code_index import CodeIndex
    from rookery.code_index.syntax import SyntaxReader
    from rookery.core.limits import Limits
    from rookery.engine.ports.actions import Permit
    from rookery.workspace.files import WorkspaceFiles
    from rookery.workspace.source_files import WorkspaceSources

    async def main(root, cache):
        sources = WorkspaceSources(WorkspaceFiles(root, Limits()), Limits())
        index = CodeIndex(cache, sources, SyntaxReader(), patience=60)
        for number in range(4):
            (root / f"{sys.argv[3]}_{number}.py").write_text(f"def f():\\n    return {number}\\n")
            permit = Permit("", reads=frozenset(["."]))
            found = await index.search("zebra", ".", permit, lambda path: True)
            assert len(found.hits) == 12 and found.notes == (), found
        index.close()

    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_several_processes_use_one_index_at_once(shelf: Shelf):
    for number in range(40):
        shelf.put(f"folder/zebra_{number}.py", f"def stripes_{number}():\n    return 'zebra'\n")
    script = textwrap.dedent(OTHER_PROCESS)
    command = [sys.executable, "-c", script, str(shelf.root), str(shelf.cache)]
    others = [
        subprocess.Popen([*command, f"by_{number}"], stderr=subprocess.PIPE) for number in range(2)
    ]
    ended = [(other.communicate(timeout=120)[1], other.returncode) for other in others]
    assert ended == [(b"", 0)] * 2
    with sqlite3.connect(shelf.cache / NAME) as database:
        files, chunks, words = (
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("files", "chunks", "words")
        )
    database.close()
    assert (files, chunks, words) == (48, 48, 48)


KILLED_PROCESS = """
    import os, signal, sys, threading, anyio
    from pathlib import Path
    from rookery.code_index.code_index import CodeIndex
    from rookery.code_index.syntax import SyntaxReader
    from rookery.core.limits import Limits
    from rookery.engine.ports.actions import Permit
    from rookery.workspace.files import WorkspaceFiles
    from rookery.workspace.source_files import WorkspaceSources

    class Deadly(WorkspaceSources):
        reads = 0

        def read(self, path, largest):
            self.reads += 1
            if self.reads == int(sys.argv[3]):
                print(syntax._worker._process.pid, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            return super().read(path, largest)

    root, cache = map(Path, sys.argv[1:3])
    syntax = SyntaxReader()
    from rookery.code_index import update as updating
    updating._SECONDS_AT_ONCE = 0.0
    index = CodeIndex(cache, Deadly(WorkspaceFiles(root, Limits()), Limits()), syntax, patience=60)
    anyio.run(index.search, "zebra", ".", Permit("", reads=frozenset(["."])), bool)
"""


@pytest.mark.parametrize("reads", [2, 39])
async def test_an_index_of_a_killed_process_is_continued_by_the_next(shelf: Shelf, reads: int):
    for number in range(40):
        shelf.put(f"zebra_{number}.py", f"def stripes_{number}():\n    return 'zebra'\n")
    command = [sys.executable, "-c", textwrap.dedent(KILLED_PROCESS), shelf.root, shelf.cache]
    killed = await anyio.run_process([*map(str, command), str(reads)], check=False)
    assert killed.returncode == -signal.SIGKILL
    found = await ask(shelf.open(now=time.time_ns), "zebra")
    assert (len(found.hits), found.notes) == (12, ())
    assert _ends(int(killed.stdout))


def _ends(pid: int) -> bool:
    """Whether a process that need not be ours ends before long."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 20)[0])
    finally:
        os.close(process)


async def test_the_number_of_indexed_files_is_limited_and_reported(
    stocked: Shelf, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(updating, "MOST_FILES", 2)
    found = await ask(stocked.open(), "banana")
    assert found.notes == ("(Only 2 of 3 files are indexed.)",)


async def test_a_file_that_may_change_within_the_same_tick_is_looked_at_again(stocked: Shelf):
    index = stocked.open(now=time.time_ns)
    await ask(index, "zebra")
    stocked.reads()
    await ask(index, "zebra")
    assert stocked.reads() == ["README.md", "net/mail.py", "net/parser.py"]
