"""Plug-ins: installed packages that the user has named in the settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MODULE = """
import rookery

@rookery.tool(reads_only=True)
def weather(city: str) -> str:
    "Return the weather."
    return f"Rain in {city}."

async def no_python(call, action):
    if any(change.path.endswith(".py") for change in action.changes):
        return rookery.deny("No Python here.")

class Echo:
    model = rookery.ModelInfo(id="echo", provider="echo")

    def stream(self, request):
        from contextlib import asynccontextmanager

        async def chunks():
            yield rookery.TextChunk("An echo.")
            yield rookery.StopChunk(rookery.StopReason.END)

        @asynccontextmanager
        async def opened():
            yield chunks()

        return opened()

def echo(model):
    return Echo()
"""
ENTRY_POINTS = """\
[rookery.tools]
weather = weather_plugin:weather
[rookery.hooks]
no_python = weather_plugin:no_python
[rookery.providers]
echo = weather_plugin:echo
"""
SCRIPT = """
- calls:
  - {tool: weather, arguments: {city: Oslo}}
- calls:
  - {tool: write_to_file, arguments: {path: a.py, content: hi}}
- say: Done.
"""


class Installed:
    """A folder with an installed plug-in, as an installer leaves it."""

    def __init__(self, folder: Path, module: str = MODULE) -> None:
        self._folder, self.work = folder, folder / "work"
        self.work.mkdir()
        site = folder / "site"
        info = site / "weather_plugin-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "weather_plugin.py").write_text(module)
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: weather-plugin\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        (folder / "script.yaml").write_text(SCRIPT)

    def run(self, *words: str, plugins: str = "weather-plugin", provider: str = "scripted") -> str:
        """The output of `rookery -p` with these plug-ins in the settings."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "PYTHONPATH": f"{SOURCE}:{self._folder / 'site'}",
            "ROOKERY_HOME": str(self._folder / "home"),
            "ROOKERY_PLUGINS": plugins,
            "ROOKERY_PROVIDER": provider,
            "ROOKERY_MODEL": str(self._folder / "script.yaml"),
        }
        line = ["-p", "--trust", "--approval-mode", "edits", *words, "do it"]
        done = subprocess.run(
            [sys.executable, "-m", "rookery", *line],
            cwd=self.work,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout + done.stderr


def test_a_named_plugin_adds_its_tool_and_its_hook(tmp_path: Path):
    installed = Installed(tmp_path)
    output = installed.run("--output-format", "stream-json")
    assert "Rain in Oslo." in output
    assert "No Python here." in output
    assert list(installed.work.iterdir()) == []


def test_a_plugin_that_is_only_installed_does_nothing(tmp_path: Path):
    installed = Installed(tmp_path)
    output = installed.run("--output-format", "stream-json", plugins="")
    assert "Rain in Oslo." not in output
    assert (installed.work / "a.py").exists()


def test_the_settings_choose_a_provider_of_a_plugin_by_its_name(tmp_path: Path):
    assert "An echo." in Installed(tmp_path).run(provider="echo")


@pytest.mark.parametrize(
    ("module", "plugins", "words"),
    [
        ("raise RuntimeError('old version')", "weather-plugin", "RuntimeError: old version."),
        ("import sys\nprint('{}')\nsys.exit(3)", "weather-plugin", "SystemExit: 3."),
        (MODULE, "other-plugin", "it is not installed, or has no entry point for rookery."),
        (MODULE.replace("def weather(", "def read_file("), "weather-plugin", "AttributeError"),
        (MODULE.replace("@rookery.tool(reads_only=True)", ""), "weather-plugin", "is not a tool"),
        (MODULE + "no_python = 3", "weather-plugin", "3 is not a hook"),
    ],
    ids=["broken", "leaving", "absent", "without what it names", "no tool", "no hook"],
)
def test_a_broken_plugin_gives_one_sentence_and_the_run_goes_on(
    tmp_path: Path, module: str, plugins: str, words: str
):
    output = Installed(tmp_path, module).run(plugins=plugins)
    sentences = [line for line in output.splitlines() if "was left out" in line]
    assert len(sentences) == 1
    assert f"The plug-in {plugins} was left out: " in sentences[0]
    assert words in sentences[0]
    assert "Done." in output
