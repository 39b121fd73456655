"""Plug-ins: installed packages that the user has named in the settings."""

import os
import subprocess
import sys
from pathlib import Path

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
    """A folder with installed plug-ins, as an installer leaves them."""

    def __init__(self, folder: Path, **modules: str) -> None:
        self._folder, self.work = folder, folder / "work"
        self.work.mkdir()
        for name, module in (modules or {"weather_plugin": MODULE}).items():
            info = folder / "site" / f"{name}-1.0.dist-info"
            info.mkdir(parents=True)
            (folder / "site" / f"{name}.py").write_text(module)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(ENTRY_POINTS.replace("weather_plugin", name))
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


BROKEN = {
    "broken": ("raise RuntimeError('old version')", "RuntimeError: old version."),
    "leaving": ("import sys\nprint('{}')\nsys.exit(3)", "SystemExit: 3."),
    "missing": (MODULE.replace("def weather(", "def read_file("), "AttributeError"),
    "no_tool": (MODULE.replace("@rookery.tool(reads_only=True)", ""), "is not a tool"),
    "no_hook": (MODULE + "no_python = 3", "3 is not a hook"),
}
ABSENT = "it is not installed, or has no entry point for rookery."


def test_each_broken_plugin_gives_one_sentence_and_the_run_goes_on(tmp_path: Path):
    reasons = {name: reason for name, (_, reason) in BROKEN.items()} | {"absent": ABSENT}
    installed = Installed(tmp_path, **{name: module for name, (module, _) in BROKEN.items()})
    output = installed.run(plugins=",".join(reasons))
    sentences = [line for line in output.splitlines() if "was left out" in line]
    assert len(sentences) == len(reasons)
    for sentence, (name, reason) in zip(sentences, reasons.items(), strict=True):
        assert f"The plug-in {name} was left out: " in sentence
        assert reason in sentence
    assert "Done." in output
