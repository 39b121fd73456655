import os
import unicodedata
from hashlib import sha256
from pathlib import Path

import pytest

from rookery.core.facts import Change
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.errors import ToolError
from rookery.platform import descriptors
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.paths import IgnoreFiles
from rookery.workspace.search import Ripgrep, SearchCommand, find_ripgrep, without_ripgrep
from rookery.workspace.tree import WorkspaceFinder
from support.workspace_folder import Workbench, permit_to_read

pytestmark = pytest.mark.anyio

RIPGREP = find_ripgrep()
ENGINES = [without_ripgrep, *([Ripgrep(RIPGREP)] if RIPGREP else [])]


def opened(root: Path, ignore: str = "", other: str = "") -> Workbench:
    if ignore:
        (root / ".rookeryignore").write_text(ignore)
    if other:
        (root / ".rooignore").write_text(other)
    bench = Workbench(root)
    bench.put("secrets/key.pem", "hidden key\n")
    bench.put("src/a.py", "open text\n")
    bench.put("src/b.env", "hidden value\n")
    return bench


RULES = "secrets/\n*.env\n!public.env\nCaf\u00e9.txt\n"


IGNORED = (
    *("secrets", "secrets/key.pem", "secrets/../secrets/key.pem", "src/../secrets/key.pem"),
    *("{root}/secrets/key.pem", "secrets/new/deep.txt", "src/b.env", "src/not-there.env"),
    *("SECRETS/key.pem", "src/B.ENV", "cafe\u0301.txt", "CAFE\u0301.TXT"),
    *(".rookeryignore", ".RooIgnore", ".rooignore", "to-file", "to-folder/key.pem"),
    *("chain/key.pem", "around/secrets/key.pem", "link.env", "hard.txt"),
)
OPEN = ("public.env", "src/hard.py", "src/a.py", "src", ".", "../secrets/key.pem")
LINKS = {
    "to-file": "src/b.env",
    "to-folder": "secrets",
    "chain": "to-folder",
    "around": "../work",
    "link.env": "src/a.py",
}


def test_an_ignored_file_is_ignored_by_any_path(tmp_path: Path):
    (tmp_path / "work").mkdir()
    bench = opened(tmp_path / "work", RULES)
    for name, target in LINKS.items():
        (bench.root / name).symlink_to(target)
    (bench.root / "hard.txt").hardlink_to(bench.root / "secrets/key.pem")
    (bench.root / "src/hard.py").hardlink_to(bench.root / "src/a.py")
    for said in IGNORED:
        whole = said.replace("{root}", str(bench.root))
        files = Workbench(bench.root).files  # a fresh object that has followed no link
        assert files.place(whole).ignored, said
        with pytest.raises(ToolError, match="hidden from you by the user"):
            files.locate(whole)
    assert [said for said in OPEN if Workbench(bench.root).files.place(said).ignored] == []


def test_a_hard_linked_file_is_hidden_if_its_names_cannot_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(descriptors, "MOST_ENTRIES", 2)
    bench = opened(tmp_path, RULES)
    (tmp_path / "hard.py").hardlink_to(tmp_path / "src/a.py")
    assert bench.files.place("hard.py").ignored


def test_a_rule_for_a_link_does_not_hide_its_target(tmp_path: Path):
    bench = opened(tmp_path, "link.env\n")
    (tmp_path / "link.env").symlink_to("src/a.py")
    assert not bench.files.place("src/a.py").ignored
    assert bench.files.place("link.env").ignored


async def test_an_ignored_file_is_neither_read_nor_written_with_any_permit(
    tmp_path: Path,
):
    bench = opened(tmp_path, RULES)
    change = Change(
        path="src/b.env",
        before=sha256(b"hidden value\n").hexdigest(),
        after=sha256(b"new").hexdigest(),
    )
    everything = Permit("", reads=frozenset(["src/b.env"]), changes=frozenset([change]))
    for refused in (
        bench.files.read("src/b.env", everything),
        bench.files.examine("src/b.env"),
        bench.files.sha("src/b.env"),
        bench.files.write(change, b"new", everything),
        bench.files.apply([(change, b"new")], everything),
    ):
        with pytest.raises(ToolError, match=r"src/b\.env is hidden from you"):
            await refused
    assert bench.bytes_of("src/b.env") == b"hidden value\n"


async def test_refusals_do_not_reveal_whether_an_ignored_file_exists(tmp_path: Path):
    bench = opened(tmp_path, RULES)
    (tmp_path / "secrets/dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "secrets/pipe")
    said = set()
    for name in ("key.pem", "not-there", "dangling", "pipe", "nul", "key.pem/below"):
        with pytest.raises(ToolError) as refusal:
            await bench.files.examine(f"secrets/{name}")
        said.add(str(refusal.value).replace(name, "NAME"))
    assert len(said) == 1


def test_rules_of_the_start_stay_even_if_the_file_is_removed(tmp_path: Path):
    bench = opened(tmp_path, "secrets/\n")
    (tmp_path / ".rookeryignore").write_text("src/\n")
    assert bench.files.place("secrets/key.pem").ignored
    assert bench.files.place("src/a.py").ignored
    (tmp_path / ".rookeryignore").unlink()
    assert bench.files.place("secrets/key.pem").ignored
    assert not bench.files.place("src/a.py").ignored
    (tmp_path / ".rooignore").write_text("*.py\n")
    assert bench.files.place("src/a.py").ignored
    assert not Workbench(tmp_path).files.place("secrets/key.pem").ignored


def test_both_ignore_files_apply(tmp_path: Path):
    bench = opened(tmp_path, "*.env\n", "secrets\n")
    assert bench.files.place("src/b.env").ignored
    assert bench.files.place("secrets/key.pem").ignored


def test_without_an_ignore_file_nothing_is_ignored(tmp_path: Path):
    bench = opened(tmp_path)
    for said in ("secrets/key.pem", ".rookeryignore", "src/b.env"):
        assert not bench.files.place(said).ignored


FAULTS = {
    "not UTF-8": lambda file: file.write_bytes(b"\xff\xfe"),
    "larger than": lambda file: file.write_text("a\n" * 200_000),
    "in line 2": lambda file: file.write_text("ok\n[z-a]\n"),
    "is a directory": lambda file: file.mkdir(),
    "o such file": lambda file: file.symlink_to("nowhere"),
    "enied": lambda file: (file.write_text("x"), file.chmod(0)),
    "not a file": os.mkfifo,
}


@pytest.mark.parametrize("words", FAULTS)
async def test_an_invalid_ignore_file_hides_everything_until_it_is_fixed(
    tmp_path: Path, words: str
):
    file = tmp_path / ".rookeryignore"
    FAULTS[words](file)
    bench = opened(tmp_path)
    with pytest.raises(ToolError, match=f"rookeryignore cannot be used: .*{words}"):
        await bench.files.examine("src/a.py")
    listed = (await bench.run("list_files", path=".")).text
    assert "src" not in listed
    assert "cannot be used" in listed
    file.chmod(0o700) if not file.is_symlink() else None
    file.rmdir() if file.is_dir() else file.unlink()
    file.write_text("*.env\n")
    assert not bench.files.place("src/a.py").ignored
    assert bench.files.place("src/b.env").ignored


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_search_skips_ignored_files(tmp_path: Path, engine: SearchCommand):
    (tmp_path / "work").mkdir()
    bench = opened(tmp_path / "work", RULES)
    (bench.root / "copy").symlink_to("secrets")
    (bench.root / "src/hard.txt").hardlink_to(bench.root / "secrets/key.pem")
    finder = WorkspaceFinder(bench.root, bench.files, bench.limits, command=engine)
    found = await finder.search(".", "hidden|open", None, permit_to_read("."))
    assert found == ("Found 1 match.\n\n# src/a.py\n  1 | open text\n(5 hidden by .rookeryignore.)")
    above = os.path.dirname(bench.files.boundaries.root)
    found = await finder.search("..", "hidden|open", None, permit_to_read(above))
    assert found.startswith(f"Found 1 match.\n\n# {above}/work/src/a.py\n")
    for said in ("secrets", "src/b.env", "secrets/not-there"):
        with pytest.raises(ToolError, match="hidden from you"):
            await finder.search(said, "hidden", None, permit_to_read(said))


async def test_a_listing_omits_ignored_files_and_counts_them(tmp_path: Path):
    bench = opened(tmp_path, RULES)
    (tmp_path / "copy").symlink_to("secrets/key.pem")
    assert (await bench.run("list_files", path=".", recursive=True)).text == (
        "src/\nsrc/a.py\n(4 hidden by .rookeryignore.)"
    )


async def test_an_ignore_file_can_be_an_allow_list(tmp_path: Path):
    bench = opened(tmp_path, "*\n!*/\n!*.py\n")
    assert (await bench.run("list_files", path="src")).text.startswith("src/a.py\n")
    assert bench.files.place("README.md").ignored


def test_an_ignore_file_may_be_a_link(tmp_path: Path):
    (tmp_path / ".gitignore").write_text("secrets/\n")
    (tmp_path / ".rooignore").symlink_to(".gitignore")
    assert opened(tmp_path).files.place("secrets/key.pem").ignored


def test_unchanged_ignore_files_are_not_read_again(tmp_path: Path):
    (tmp_path / ".rookeryignore").write_text("a\n")
    files = IgnoreFiles(tmp_path)
    assert files.rules() is files.rules()


@pytest.mark.parametrize(
    "name", ["stra\u00dfe.txt", "STRASSE.TXT", unicodedata.normalize("NFD", "\u00c4.txt")]
)
def test_names_are_compared_case_folded_and_normalised(tmp_path: Path, name: str):
    (tmp_path / ".rookeryignore").write_text("Stra\u00dfe.txt\n\u00e4.txt\n", encoding="utf-8")
    assert WorkspaceFiles(tmp_path, Limits()).place(name).ignored
