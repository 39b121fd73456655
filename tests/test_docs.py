"""The documents say what the code does."""

import re
from pathlib import Path

import pytest
import yaml

from rookery.core.failures import FailureKind
from rookery.providers import BASE_URLS, KEY_VARIABLES, NAMES
from rookery.providers.script_files import read_script

ROOT = Path(__file__).parents[1]
PROVIDERS = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", NAMES)
def test_every_provider_is_in_the_table_with_its_address_and_key(name: str):
    row = next(line for line in PROVIDERS.splitlines() if line.startswith(f"| `{name}` |"))
    assert BASE_URLS.get(name, "FILE.yaml") in row
    assert KEY_VARIABLES.get(name, "none") in row


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_is_in_the_table(kind: FailureKind):
    rows = [line for line in PROVIDERS.splitlines() if line.startswith("| ")]
    assert any(re.search(rf"\b{kind}\b", row.split("|")[1]) for row in rows)


def test_the_script_in_the_document_can_be_played(tmp_path: Path):
    (text,) = re.findall(r"```yaml\n(.*?)```", PROVIDERS, re.DOTALL)
    file = tmp_path / "script.yaml"
    file.write_text(text, encoding="utf-8")
    assert len(read_script(file)) == len(yaml.safe_load(text)) == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []
