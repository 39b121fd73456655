"""`rookery modes`: what is exported can be imported, and an import replaces nothing."""

import json
import os
from pathlib import Path

import pytest
import yaml

from rookery.cli.main import run
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.prompting.cli import append_modes, parse_export
from rookery.prompting.modes import load_modes
from support.each_row import each_row

MODE = r"""
customModes:
  - slug: docs
    name: Writer
    roleDefinition: You write.
    groups: [read, [edit, {fileRegex: '\.md$', description: pages}]]
    model: their-model
    rulesFiles:
      - {relativePath: rules-docs/style.md, content: "Be short.\n"}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "their.yaml"
    file.write_text(MODE)
    return file


def own(home: Path) -> Path:
    return home / "config" / "modes.yaml"


def test_imported_modes_are_shown_and_added_with_their_rules(
    home: Path, file: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["modes", "import", str(file), "-y"]) == 0
    reported = capsys.readouterr().out
    assert r"docs: Writer. It may use: read, edit (\.md$)." in reported
    assert "Be short." in reported
    (mode,) = load_modes(own(home).read_text(), "user")
    assert (mode.slug, mode.model) == ("docs", "")
    assert (home / "config" / "rules-docs" / "style.md").read_text() == "Be short.\n"
    assert run(["modes", "export", "docs"]) == 0
    again = parse_export(capsys.readouterr().out)
    assert [(each.mode.slug, [rule.path for rule in each.rules]) for each in again] == [
        ("docs", ["style.md"])
    ]


def test_without_a_terminal_an_import_needs_yes(home: Path, file: Path):
    assert run(["modes", "import", str(file)]) == 2
    assert not own(home).exists()


def test_an_import_replaces_no_existing_mode_or_rule(
    home: Path, file: Path, capsys: pytest.CaptureFixture[str]
):
    own(home).parent.mkdir(parents=True)
    mine = "customModes:\n  - {slug: docs, name: Mine, roleDefinition: x, groups: []}\n"
    own(home).write_text(mine)
    assert run(["modes", "import", str(file), "-y"]) == 2
    assert "the mode docs already exists. Nothing was changed." in capsys.readouterr().err
    assert own(home).read_text() == mine
    own(home).unlink()
    rule = own(home).parent / "rules-docs" / "style.md"
    rule.parent.mkdir()
    rule.write_text("mine")
    assert run(["modes", "import", str(file), "-y"]) == 2
    assert (rule.read_text(), own(home).exists()) == ("mine", False)


def test_an_import_with_project_writes_the_projects_modes_file(home: Path, file: Path):
    TrustStore(find_places(os.environ).trust_file).trust(Path.cwd())
    assert run(["modes", "import", str(file), "-y", "--project"]) == 0
    assert "docs" in (Path.cwd() / ".rookery" / "modes.yaml").read_text()


def test_an_import_does_not_follow_a_project_s_links(
    home: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = Path.cwd() / ".rookery"
    folder.mkdir()
    (folder / "rules-docs").symlink_to(elsewhere)
    assert run(["modes", "import", str(file), "-y", "--project"]) == 2
    assert "rules-docs is a symbolic link. Nothing was changed." in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []
    assert not (folder / "modes.yaml").exists()


def test_modes_are_listed_with_their_source(home: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["modes", "list", "--format", "json"]) == 0
    modes = json.loads(capsys.readouterr().out)["modes"]
    assert {"slug": "ask", "name": "Ask", "source": "built-in"} in modes


def test_the_list_is_aligned_with_spaces(home: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["modes", "list"]) == 0
    assert "ask           built-in  explain, compare" in capsys.readouterr().out


@each_row(
    ("text", "wrong"),
    [
        ("customModes: []", "no mode"),
        ("x: 1", "no list customModes"),
        (MODE.replace("rules-docs/style.md", "../../.bashrc"), "invalid path"),
        (MODE.replace("rules-docs/style.md", "/etc/passwd"), "invalid path"),
        (MODE.replace("rules-docs/style.md", ".hidden"), "invalid path"),
        (MODE.replace("rules-docs/style.md", "a\\..\\b"), "invalid path"),
        (MODE.replace("[read, ", "[all, "), "names the group 'all'"),
    ],
)
def test_a_faulty_file_is_refused(text: str, wrong: str):
    with pytest.raises(ValueError, match=wrong):
        parse_export(text)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# my modes\n",
        "customModes:\n  # mine\n  - slug: a\n    name: A\n    roleDefinition: r\n    groups: []\n",
        "customModes:\n- {slug: a, name: A, roleDefinition: r, groups: [read]}\n",
    ],
    ids=["nothing", "a comment", "indented", "not indented"],
)
def test_existing_modes_in_the_file_stay(before: str):
    after = append_modes(before, [parse_export(MODE)[0].mode])
    assert after.startswith(before.rstrip())
    slugs = [each["slug"] for each in yaml.safe_load(after)["customModes"]]
    assert slugs == [*(["a"] if "slug" in before else []), "docs"]


def test_a_mode_file_in_flow_style_is_not_changed():
    flow = "customModes: [{slug: a, name: A, roleDefinition: r, groups: []}]\n"
    with pytest.raises(ValueError, match="add the mode by hand"):
        append_modes(flow, [parse_export(MODE)[0].mode])
