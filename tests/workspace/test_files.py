import os
import signal
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.facts import Change
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import FileBytes, FileText
from rookery.errors import Denied, ToolError
from rookery.platform.descriptors import content, name_anew, opened_folder
from rookery.workspace.files import KnownTexts, WorkspaceFiles, decoded
from support.warm_programs import run_program
from support.workspace_folder import Workbench, permit_to_read

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return Workbench(root)


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def change(path: str, before: bytes | None, after: bytes) -> Change:
    return Change(path=path, before="" if before is None else digest(before), after=digest(after))


async def write(bench: Workbench, path: str, before: bytes | None, after: bytes) -> None:
    wanted = change(path, before, after)
    await bench.files.write(wanted, after, Permit("", changes=frozenset([wanted])))


LOCATED = {
    "a.txt": "a.txt",
    "./src//a.txt": "src/a.txt",
    "src/../a.txt": "a.txt",
    ".": ".",
    "new/deep/file.py": "new/deep/file.py",
    "routes/$id.tsx": "routes/$id.tsx",
    "folder-link/b.txt": "src/b.txt",
    "file-link": "src/b.txt",
    "folder-link/../b.txt": "b.txt",
    "..data/x": "..data/x",
}


def test_a_path_is_located_in_the_workspace(bench: Workbench):
    bench.put("src/b.txt", "b")
    (bench.root / "folder-link").symlink_to("src")
    (bench.root / "file-link").symlink_to("folder-link/b.txt")
    assert {said: Workbench(bench.root).files.locate(said) for said in LOCATED} == LOCATED


def test_an_absolute_path_in_the_workspace_is_made_relative(bench: Workbench, tmp_path: Path):
    assert bench.files.locate(f"{bench.root}/a/../b.txt") == "b.txt"
    (tmp_path / "alias").symlink_to(bench.root)
    other = WorkspaceFiles(tmp_path / "alias", Limits())
    assert other.locate(f"{tmp_path}/alias/b.txt") == "b.txt"
    assert other.locate(f"{bench.root}/b.txt") == "b.txt"


def test_an_absolute_link_to_a_file_of_the_workspace_is_followed(bench: Workbench, tmp_path: Path):
    bench.put("src/b.txt", "b")
    (tmp_path / "alias").symlink_to(bench.root)
    (bench.root / "deep").mkdir()
    (bench.root / "deep/link").symlink_to(bench.root / "src")
    (bench.root / "other").symlink_to(tmp_path / "alias/deep/link/b.txt")
    assert bench.files.locate("deep/link/b.txt") == "src/b.txt"
    assert WorkspaceFiles(tmp_path / "alias", Limits()).locate("other") == "src/b.txt"
    assert bench.files.locate("other") == "src/b.txt"


def test_an_existing_file_may_have_any_name(bench: Workbench):
    for name in ("notes: today.md", "aux", "a~1.txt", "name.", "folder /x"):
        bench.put(name, "x")
        assert bench.files.locate(name) == name
    bench.put("a: b/c.txt", "x")
    assert bench.files.locate("a: b/d.txt") == "a: b/d.txt"
    with pytest.raises(ToolError, match="device"):
        bench.files.locate("a: b/nul")


REFUSED = {
    "which does not exist": ("dangling", "loop", "below-loop/a"),
    "belongs to the operating system": (
        *("/proc/self/environ", "/sys/kernel/x", "/dev/null", "/DEV/null", "magic/etc/passwd"),
        "../../../../../../../../../../../proc/version",
    ),
    "address": ("//server/share", "https://example.org/x", "file:///etc/passwd"),
    "unusual characters": ("odd-target",),
    "empty": ("", "  "),
    "control characters": ("a\0b", "a\nb"),
    "invisible or control": ("a\u202eb", "a\u200bb"),
    "backslash": ("a\\b",),
    "would need expansion": ("~/x", "~root/x", "$HOME/x", "${HOME}/x"),
    "ends with a dot": ("name.",),
    "ends with a dot or a space": ("folder /x",),
    "colon": ("a.txt:stream",),
    "device": ("src/NUL",),
    "abbreviated": ("PROGRA~1/x",),
    "longer than 4096 bytes": ("a/" * 3000, "ä" * 2049),
}
LINKS = {
    "dangling": "nowhere",
    "loop": "loop",
    "below-loop": "loop",
    "magic": "/proc/self/root",
    "odd-target": "odd\u202e.txt",
}


def test_invalid_paths_are_refused(bench: Workbench):
    bench.put("odd\u202e.txt", "x")
    for name, target in LINKS.items():
        (bench.root / name).symlink_to(target)
    for words, paths in REFUSED.items():
        for said in paths:
            with pytest.raises(ToolError, match=words):
                bench.files.locate(said)


def test_no_link_is_followed_on_the_way_to_a_file(bench: Workbench):
    bench.put("src/a.txt", "mine")
    (bench.root / "link").symlink_to("src")
    (bench.root / "src/link.txt").symlink_to("a.txt")
    with pytest.raises(OSError, match="Not a directory"), opened_folder(bench.root, ["link"]):
        pass
    with opened_folder(bench.root, ["src"]) as folder:
        assert folder is not None
        assert content(folder, "a.txt", "src/a.txt", 10) == (b"mine", 4)
        with pytest.raises(ToolError, match="symbolic link"):
            content(folder, "link.txt", "src/link.txt", 10)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
async def test_only_regular_files_are_opened(bench: Workbench, kind: str):
    there = bench.root / "thing"
    if kind == "fifo":
        os.mkfifo(there)
    elif kind == "folder":
        there.mkdir()
    else:
        try:
            os.mknod(there, 0o20666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("making a device needs root")
    words = "is a folder" if kind == "folder" else "device, pipe or socket"
    with pytest.raises(ToolError, match=words):
        await bench.files.read("thing", permit_to_read("thing"))
    with pytest.raises(ToolError, match=words):
        await bench.files.examine("thing")
    with pytest.raises(ToolError, match=words):
        await write(bench, "thing", None, b"x")


async def test_reading_needs_a_permit_for_the_exact_file(bench: Workbench):
    bench.put("a.txt", "a")
    bench.put("b.txt", "b")
    with pytest.raises(Denied):
        await bench.files.read("a.txt", permit_to_read("b.txt"))
    read = await bench.files.read("./a.txt", permit_to_read("a.txt"))
    assert read == FileText(path="a.txt", text="a", sha=digest(b"a"), size=1)


async def test_writing_needs_a_permit_for_the_exact_change(bench: Workbench):
    bench.put("a.txt", "a")
    wanted = change("a.txt", b"a", b"new")
    for permit in (
        permit_to_read("a.txt"),
        Permit("", changes=frozenset([change("a.txt", b"a", b"other")])),
        Permit("", changes=frozenset([change("b.txt", b"a", b"new")])),
    ):
        with pytest.raises(Denied):
            await bench.files.write(wanted, b"new", permit)
    with pytest.raises(Denied):
        await bench.files.write(wanted, b"other", Permit("", changes=frozenset([wanted])))
    crooked = change("x/../a.txt", b"a", b"new")
    with pytest.raises(Denied):
        await bench.files.write(crooked, b"new", Permit("", changes=frozenset([crooked])))
    assert bench.bytes_of("a.txt") == b"a"


async def test_a_file_is_replaced_atomically_and_keeps_its_mode(bench: Workbench):
    file = bench.put("run.sh", "old")
    file.chmod(0o750)
    await write(bench, "run.sh", b"old", b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o7777 == 0o750
    assert os.listdir(bench.root) == ["run.sh"]


async def test_a_new_file_gets_its_folders_and_obeys_the_umask(bench: Workbench):
    old = os.umask(0o027)
    try:
        await write(bench, "a/b/c.txt", None, b"new")
    finally:
        os.umask(old)
    assert bench.bytes_of("a/b/c.txt") == b"new"
    assert (bench.root / "a/b/c.txt").stat().st_mode & 0o777 == 0o640


async def test_writing_breaks_a_hard_link(bench: Workbench):
    file = bench.put("a.txt", "old")
    os.link(file, bench.root / "twin.txt")
    await write(bench, "a.txt", b"old", b"new")
    assert (bench.bytes_of("a.txt"), bench.bytes_of("twin.txt")) == (b"new", b"old")


async def test_writing_through_a_link_inside_replaces_its_target(bench: Workbench):
    bench.put("src/a.txt", "old")
    (bench.root / "link").symlink_to("src/a.txt")
    await write(bench, bench.files.locate("link"), b"old", b"new")
    assert bench.bytes_of("src/a.txt") == b"new"
    assert (bench.root / "link").is_symlink()


@pytest.mark.parametrize(
    ("before", "there", "words"),
    [
        (b"old", b"other", "changed on disk"),
        (b"old", None, "no longer exists"),
        (None, b"other", "created by another program"),
    ],
)
async def test_a_file_with_unexpected_content_is_not_written(
    bench: Workbench, before: bytes | None, there: bytes | None, words: str
):
    if there is not None:
        bench.put("a.txt", there)
    with pytest.raises(ToolError, match=words):
        await write(bench, "a.txt", before, b"new")
    assert sorted(os.listdir(bench.root)) == (["a.txt"] if there else [])
    if there:
        assert bench.bytes_of("a.txt") == there


def test_a_file_created_meanwhile_is_not_replaced(tmp_path: Path):
    (tmp_path / "finished.tmp").write_text("ours")
    (tmp_path / "a.txt").write_text("theirs")
    with opened_folder(tmp_path, []) as folder:
        assert folder is not None
        with pytest.raises(FileExistsError):
            name_anew(folder, "finished.tmp", "a.txt")
        name_anew(folder, "finished.tmp", "b.txt")
    assert (tmp_path / "a.txt").read_text() == "theirs"
    assert (tmp_path / "b.txt").read_text() == "ours"


async def test_a_file_that_became_a_link_is_not_written(bench: Workbench, tmp_path: Path):
    (bench.root / "a.txt").symlink_to("../secret.txt")
    with pytest.raises(Denied, match="was not permitted"):
        await write(bench, "a.txt", b"secret", b"new")
    assert (tmp_path / "secret.txt").read_text() == "secret"


async def test_a_read_only_file_is_not_written(bench: Workbench):
    bench.put("a.txt", "old").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        await write(bench, "a.txt", b"old", b"new")
    assert bench.bytes_of("a.txt") == b"old"


async def test_a_name_that_is_too_long_is_refused_and_its_folders_are_removed(
    bench: Workbench,
):
    with pytest.raises(ToolError, match="name is too long"):
        await write(bench, f"new/{'x' * 300}", None, b"new")
    assert os.listdir(bench.root) == []


async def test_a_file_in_the_place_of_a_folder_is_named(bench: Workbench):
    bench.put("a", "file")
    with pytest.raises(ToolError, match="not a folder"):
        await write(bench, "a/b.txt", None, b"new")


async def test_a_new_name_may_not_differ_only_in_case_or_composition(bench: Workbench):
    for name in ("README.md", "src/a.py", "caf\u00e9.txt"):
        bench.put(name, "x")
    for said in ("readme.md", "SRC/new.py", "cafe\u0301.txt"):
        with pytest.raises(ToolError, match="Did you mean"):
            await bench.files.examine(said)


FULL_DISK = """
import resource, sys
from pathlib import Path
import anyio
from hashlib import sha256
from rookery.core.facts import Change
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.errors import ToolError
from rookery.platform.descriptors import content, opened_folder
from rookery.workspace.files import WorkspaceFiles

async def main(root, data):
    if sys.argv[2:] == ["limited"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    change = Change(path="deep/a.txt", before=sys.stdin.read(), after=sha256(data).hexdigest())
    files = WorkspaceFiles(Path(root), Limits())
    try:
        await files.write(change, data, Permit("", changes=frozenset([change])))
    except ToolError as error:
        print(error)

anyio.run(main, sys.argv[1], b"n" * 100_000)
"""


def write_in_a_process(root: Path, before: str, *arguments: str, point: str = "") -> str:
    done = run_program(FULL_DISK, str(root), *arguments, given=before, ROOKERY_KILLPOINT=point)
    assert done.returncode == (-signal.SIGKILL if point else 0)
    assert not done.stderr
    return done.stdout


def test_a_write_stopped_by_the_system_leaves_the_original(bench: Workbench):
    bench.put("deep/a.txt", "old")
    said = write_in_a_process(bench.root, digest(b"old"), "limited")
    assert said == "deep/a.txt was not written: the file would be larger than the system allows.\n"
    assert bench.bytes_of("deep/a.txt") == b"old"
    assert os.listdir(bench.root / "deep") == ["a.txt"]


def test_a_new_file_stopped_by_the_system_leaves_nothing(bench: Workbench):
    write_in_a_process(bench.root, "", "limited")
    assert os.listdir(bench.root) == []


@pytest.mark.parametrize(
    ("point", "after"),
    [
        ("files.temp_written", b"old"),
        ("files.before_rename", b"old"),
        ("files.renamed", b"n" * 100_000),
        ("files.synced", b"n" * 100_000),
    ],
)
def test_a_kill_leaves_the_old_file_or_the_new_one(bench: Workbench, point: str, after: bytes):
    bench.put("deep/a.txt", "old")
    write_in_a_process(bench.root, digest(b"old"), point=point)
    assert bench.bytes_of("deep/a.txt") == after


@pytest.mark.parametrize(
    ("data", "text", "encoding", "mark"),
    [
        (b"a\r\nb\n", "a\r\nb\n", "utf-8", b""),
        (b"\xef\xbb\xbfa", "a", "utf-8", b"\xef\xbb\xbf"),
        ("ä\n".encode("utf-16"), "ä\n", "utf-16-le", b"\xff\xfe"),
        (b"\xfe\xff\0a", "a", "utf-16-be", b"\xfe\xff"),
        ("ä".encode("utf-32"), "ä", "utf-32-le", b"\xff\xfe\0\0"),
        (b"caf\xe9", "caf\udce9", "utf-8", b""),
        (b"", "", "utf-8", b""),
    ],
)
def test_text_is_recognised_whatever_its_encoding(
    data: bytes, text: str, encoding: str, mark: bytes
):
    file = decoded("a", data, len(data))
    assert isinstance(file, FileText)
    assert (file.text, file.encoding, file.bom) == (text, encoding, mark)
    assert file.encode(file.text) == data


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\0", b"a" * 9000 + b"\xff\0", b"%PDF-1.7\n", b"\xff\xfea"]
)
def test_binary_files_are_recognised_by_their_content(data: bytes):
    assert isinstance(decoded("a.txt", data, len(data)), FileBytes)


@given(st.binary(max_size=200))
def test_any_text_file_survives_a_round_trip(data: bytes):
    file = decoded("a", data, len(data))
    assert file.encode(file.text) == data if isinstance(file, FileText) else file.data == data


async def test_only_the_beginning_of_a_file_too_large_to_edit_is_read(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(edit_bytes=100))
    bench.put("big.log", "line of text\n" * 50)
    bench.put("fits.log", "x" * 100)
    with pytest.raises(ToolError, match="too large"):
        await bench.files.examine("big.log")
    read = await bench.files.read("big.log", permit_to_read("big.log"))
    assert read == FileText(path="big.log", text="line of text\n" * 7, sha="", size=650)
    assert await bench.files.examine("fits.log") is not None


def text(sha: str, length: int) -> FileText:
    return FileText(path="a", text=sha[-1:] * length, sha=sha)


def test_the_cache_keeps_the_newest_texts():
    known = KnownTexts(most=10)
    for file in (text("1", 4), text("2", 4), text("1", 4), text("3", 4)):
        assert known.remember(file) is file
    assert [known.get(sha) for sha in "123"] == ["1111", None, "3333"]


def test_long_texts_unhashed_files_and_binaries_are_not_cached():
    known = KnownTexts(most=10)
    for file in (text("1", 10), text("2", 11), text("", 1), FileBytes(path="a", data=b"", sha="3")):
        known.remember(file)
    assert known.remember(None) is None
    assert [known.get(sha) for sha in ("1", "2", "", "3")] == ["1" * 10, None, None, None]
