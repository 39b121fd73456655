"""What a run does not load before its first request, because that request does not need it."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

START = """
import sys
from pathlib import Path

import rookery.cli.run
from rookery.app import use_declared_tools
from rookery.core.tool_traits import known_tools
from rookery.providers.registry import open_provider
from rookery.tools.registry import all_tools, offered
from rookery.workspace.boundaries import Boundaries
from rookery.prompting.config_files import ConfigPlaces
from rookery.prompting.modes import ModeFiles

here = Path(sys.argv[1])
open_provider("openai", model="any", api_key="none")
offered(all_tools())
use_declared_tools()
known_tools()
at = (here / "config", here, Boundaries(here, home=here, own=()))
ModeFiles(ConfigPlaces(*at, trusted=True)).read()
print(*sys.modules)
"""
"""All parts of a run put together, without its run."""

NOT_YET = {
    "the way through a proxy": "httpx2",
    "a parser of YAML": "yaml",
    "an editor of TOML": "tomlkit",
    "the reading of commands": "rookery.commands.judge",
    "what programs do": "rookery.commands.programs",
    "refusals with a code": "rookery.core.refusals",
    "governance": "rookery.governance.oversight",
    "the running of sub-tasks": "rookery.engine.children",
    "the checks of edits": "rookery.app.edit_checks",
    "the ledger": "rookery.governance.ledger",
    "hooks": "rookery.governance.external_hooks",
    "search and replace": "rookery.core.text.diff_blocks",
    "patches": "rookery.core.text.patch_places",
    "expressions over paths": "rookery.core.path_patterns",
    "the full screen": "textual",
    "language servers": "rookery.diagnostics.languages",
    "the sandbox": "rookery.sandbox.launcher",
    "the watch of a command": "rookery.tools.programs.command_watch",
    "the extraction of documents": "rookery.tools.documents.document_text",
    "the hooks about commands": "rookery.app.command_parts",
    "checkpoints": "rookery.checkpoints.checkpoints",
    "what git would run": "rookery.platform.git_programs",
    "lookups of mentions": "rookery.prompting.mention_lookup",
    "the browser": "rookery.browser.browser_action",
    "the prompter": "rookery.plain.prompter",
    "the list of sessions": "rookery.storage.cli.session_listing",
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path_factory.mktemp("empty"))],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_probe_loads_the_whole_product(loaded: set[str]):
    parts = ("app.local_host", "tools.read_file", "providers.http_client")
    assert {f"rookery.{part}" for part in parts} <= loaded


@pytest.mark.parametrize("module", NOT_YET.values(), ids=NOT_YET.keys())
def test_the_first_request_does_not_load_slow_modules(loaded: set[str], module: str):
    assert module not in loaded
