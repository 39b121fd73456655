"""The documents say what the code does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rookery.cli.main import run
from rookery.core.limits import FailureKind
from rookery.platform.user_folders import find_places
from rookery.providers.registry import BASE_URLS, KEY_VARIABLES, NAMES
from rookery.providers.scripted import read_script
from rookery.storage.sessions import OUTPUT_FOLDER
from support.each_row import each_row

ROOT = Path(__file__).parents[1]
PROVIDERS = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@each_row("name", NAMES)
def test_every_provider_is_in_the_table_with_its_url_and_key_variable(name: str):
    row = next((line for line in PROVIDERS.splitlines() if line.startswith(f"| `{name}` |")), "")
    assert row, "add a row to the table in docs/providers.md"
    assert BASE_URLS.get(name, "-m FILE.") in row
    assert KEY_VARIABLES.get(name, "none") in row


def test_every_file_named_in_the_architecture_page_exists():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|toml))`", text))
    homes = (ROOT, ROOT / "src" / "rookery")
    assert [name for name in named if not any((home / name).is_file() for home in homes)] == []


@each_row("kind", FailureKind)
def test_every_kind_of_failure_is_in_the_table(kind: FailureKind):
    rows = [line for line in PROVIDERS.splitlines() if line.startswith("| ")]
    assert any(re.search(rf"\b{kind}\b", row.split("|")[1]) for row in rows)


def test_the_script_in_the_providers_page_is_valid(tmp_path: Path):
    (text,) = re.findall(r"```yaml\n(.*?)```", PROVIDERS, re.DOTALL)
    file = tmp_path / "script.yaml"
    file.write_text(text, encoding="utf-8")
    assert len(read_script(file)) == len(yaml.safe_load(text)) == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_has_a_target(page: Path):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.skipif(sys.platform != "linux", reason="the pages name other places elsewhere")
def test_the_documented_folders_are_the_ones_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    usual = find_places({})
    below = find_places({"ROOKERY_HOME": "/root"})
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    journal = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
    assert f"`~/{usual.settings_file.relative_to(tmp_path)}`" in settings
    assert f"`$ROOKERY_HOME/{below.settings_file.relative_to('/root')}`" in settings
    assert f"`~/{usual.tasks.relative_to(tmp_path)}`" in journal
    assert f"`$ROOKERY_HOME/{below.data.relative_to('/root')}`" in journal
    assert f"    {OUTPUT_FOLDER}/cmd-" in journal


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_generated_pages_are_up_to_date(tmp_path: Path):
    made = (
        "settings.md",
        "facts-and-commands.md",
        "schemas/stream-json-events.schema.json",
        "schemas/stream-json-commands.schema.json",
        "schemas/engine-messages.schema.json",
        "schemas/protocol.schema.json",
    )
    for folder in ("docs/schemas", "tests/support"):
        (tmp_path / folder).mkdir(parents=True)
    documents = ("settings_document", "facts_document", "state_diagram")
    schemas = ("control_stream_schemas", "json_io_schema")
    writers = [f"tests/support/{name}.py" for name in (*documents, *schemas)]
    for name in ("Makefile", "pyproject.toml", *writers):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for name in made:
        (tmp_path / "docs" / name).write_text("outdated")
    drawn = (ROOT / "docs" / "manager.md").read_text().replace("stateDiagram", "outdated")
    (tmp_path / "docs" / "manager.md").write_text(drawn)
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    for name in ("bin/python", ".dev"):  # make sees that everything is installed
        (tmp_path / "venv" / name).touch()
    subprocess.run(
        ["make", "pages", "VENV=venv", f"BIN={Path(sys.executable).parent}"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    for name in (*made, "manager.md"):
        assert (tmp_path / "docs" / name).read_text() == (ROOT / "docs" / name).read_text()


def test_every_flag_in_the_readme_exists(capsys: pytest.CaptureFixture[str]):
    run(["--help-all"])
    run(["list", "--help"])
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", capsys.readouterr().out))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^rookery .*|`(?:rookery |-)[^`\n]*`|\| rookery [^`\n]*`", text, re.M)
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", "\n".join(commands)))
    assert {"-p", "-c", "--session-id"} <= named
    assert named - known == set()


OUR_NAME = r"(?:rookery|\{NAME\})"
FROM_AN_INDEX = re.compile(rf"(?:install|upgrade|uvx)\b.*?[ '\"]{OUR_NAME}(?:\[|==|[ '\"`]|$)")


@each_row("line", ["pip install rookery", "uv tool upgrade {NAME}", "pipx install 'rookery[web]'"])
def test_the_check_finds_mentions_of_a_package_on_an_index(line: str):
    assert FROM_AN_INDEX.search(line)


def test_no_page_or_message_refers_to_a_package_on_an_index():
    """Nothing of that name there is ours: anybody could register it."""
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    found = [
        f"{file.name}: {line.strip()}"
        for file in texts
        for line in file.read_text(encoding="utf-8").splitlines()
        if FROM_AN_INDEX.search(line)
    ]
    assert found == []
