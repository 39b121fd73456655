"""Our own automation, input without bounds, words that look like options, and
addresses that are not what they seem.
"""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, call, raw_call, redirect
from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.engine.ports.model import ModelRequest
from rookery.errors import ProviderError
from rookery.providers.registry import OpenProvider, open_provider
from support.canaries import KEY, Sink, World, run
from support.each_row import each_row
from support.hostile_repositories import git, huge

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rookery"

# ── automation and packaging ───────────────────────────────────────────────────────

OWN_NAMES = {
    ".ci/run": {"packages", "missing", "package", "changed", "failed", "0"},
    "Makefile": {"FAST", "PEERS", "PYTHON", "VENV", "BIN"},
}
"""Every variable that our automation may put into a command: none comes from an event."""


@each_row("name", OWN_NAMES)
def test_automation_interpolates_only_its_own_variables(name: str):
    text = (ROOT / name).read_text()
    used = set(re.findall(r"\$[{(]?#?([A-Za-z_0-9]+)", text)) - {"dirname", "git", "id"}
    assert used <= OWN_NAMES[name]
    commands = re.sub(r"(?m)^(\.PHONY|eval):.*", "", text)  # a target may be called so
    assert not re.search(r"\beval\b|curl|wget|\$\{\{|\bsource\b|\|\s*(?:ba)?sh\b", commands)


def test_workflows_interpolate_no_event_data():
    texts = [file.read_text() for file in (ROOT / ".github").rglob("*.y*ml")]
    assert not any(re.search(r"\$\{\{[^}]*(github\.event|head_ref|inputs)", text) for text in texts)
    assert not any("pull_request_target" in text for text in texts)


def test_installing_runs_no_script_of_ours():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert not (ROOT / "setup.py").exists()
    assert not (ROOT / "setup.cfg").exists()
    assert "backend-path" not in project["build-system"]
    assert set(project["project"]["scripts"].values()) == {"rookery.__main__:main"}
    hooks = [key for key in str(project.get("tool", {})).split("'") if "hook" in key.lower()]
    assert hooks == []


# ── input without bounds ───────────────────────────────────────────────────────────

DEEP = 20_000


def test_hostile_patterns_and_files_end_in_bounded_time(world: World):
    huge(world)
    turns: list[Any] = [
        call("search_files", path=".", regex="(a+)+$", file_pattern=None),
        call("search_files", path=".", regex="(a|a)*b" * 20, file_pattern="*a" * 40 + "b"),
        call("search_files", path=".", regex="x{1000}{1000}{1000}", file_pattern=None),
        call("search_files", path=".", regex="needle", file_pattern="{a,b}" * 40),
        call("search_files", path=".", regex="needle", file_pattern="**/" * 200 + "z"),
        call("read_file", path="sparse.txt"),
        call("read_file", path="line.txt"),
        call("read_file", path="bomb.ipynb"),
        call("read_file", path="bomb.docx"),
        call("read_file", path="/".join(["d"] * 3000)),
        call("write_to_file", path="x" * 5000, content="x"),
        call("edit", file_path="line.txt", old_string="a" * 5000 + "b", new_string="c"),
        raw_call("read_file", '{"path": ' + "[" * DEEP + "]" * DEEP + "}"),
        raw_call("read_file", '{"path": "a", "path": "b"}'),
        raw_call("read_file", '{"path": ' + "9" * DEEP + "}"),
        raw_call("read_file", '{"path": NaN}'),
        run("(" * 3000 + "ls" + ")" * 3000),
        run("echo " + "{a,b}" * 200),
        run("ls " + "*/" * 200),
        run("cat " + "$(" * 500 + "ls" + ")" * 500),
        run("ls; " * 2000),
    ]
    visit = world.visit(*[[each] for each in turns])  # which does not wait for ever either
    assert visit.code == 5, visit.err
    assert world.harm(visit) == []
    assert max(map(len, visit.results)) < 2_000_000


# ── words that look like options ───────────────────────────────────────────────────

OPTIONS = (
    "--pre=./evil.sh",
    "-e",
    "--help",
    "-f/etc/passwd",
    "--files",
    "-",
    "--",
    "-rf",
    "--json",
)


def test_paths_regexes_and_patterns_never_become_options(world: World):
    world.put("README.md", "-e and --pre=./evil.sh\n")
    world.put("-e", "inside\n")
    world.evil("option")
    calls = [call("search_files", path=".", regex=word, file_pattern=None) for word in OPTIONS]
    calls += [call("search_files", path=".", regex="x", file_pattern=word) for word in OPTIONS]
    calls += [
        call("search_files", path=word, regex="inside", file_pattern=None) for word in OPTIONS
    ]
    calls += [call("list_files", path=word, recursive=True) for word in OPTIONS]
    calls += [call("read_file", path=word) for word in OPTIONS]
    visit = world.visit(*[[each] for each in calls])
    assert world.harm(visit) == []
    assert "1 match" in visit.results[0], "the expression is searched for, and not obeyed"
    assert not any("ripgrep" in said or "USAGE" in said for said in visit.results)
    searched, read = visit.results[2 * len(OPTIONS) + 1], visit.results[4 * len(OPTIONS) + 1]
    assert "inside" in searched
    assert "inside" in read


def test_revisions_and_paths_of_git_never_become_options(world: World):
    git(world.workspace, "init", "-q")
    world.put("README.md", "needle\n")
    world.put("--output=executed-by-name", "x\n")
    git(world.workspace, "add", "--", ".")
    git(world.workspace, "commit", "-qm", "first")
    mark = f"{world.workspace}/executed-by-option"
    forms = [
        f"git log --output={mark}",
        f"git show HEAD --output={mark}",
        f"git diff -- README.md --output={mark}",
        f"git log -- --output={mark}",
        "git diff *",
        f"git log --outpu={mark}",
        "git show --ext-diff",
        "git log --format=%(trailers)",
        f"git grep --open-files-in-pager={mark} needle",
    ]
    visit = world.visit(*[[run(form)] for form in forms])
    assert world.harm(visit) == []


SHELLS = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}


def test_our_own_code_never_passes_text_to_a_shell():
    """No `shell=True`, no `os.system` and its kin, anywhere."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if not any(word in text for word in ("shell=", *SHELLS)):
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                    found.add(f"{file.name}:{node.value.lineno}")
                case ast.Attribute(attr=name, value=ast.Name(id="os" | "subprocess" | "asyncio")):
                    if name in SHELLS:
                        found.add(f"{file.name}:{node.lineno}")
    assert found == set()


# ── addresses ──────────────────────────────────────────────────────────────────────

MOVED = {
    "another port": "http://127.0.0.1:{other}/v1/messages",
    "no scheme": "//127.0.0.1:{other}/v1/messages",
    "another name": "http://localhost:{other}/v1/messages",
    "name of ours as user": "http://127.0.0.1:{own}@127.0.0.1:{other}/",
    "backslash": "http://127.0.0.1:{other}\\@127.0.0.1:{own}/",
    "decimal": "http://2130706433:{other}/",
    "hexadecimal": "http://0x7f000001:{other}/",
    "octal": "http://0177.0.0.1:{other}/",
    "mapped": "http://[::ffff:127.0.0.1]:{other}/",
    "other scheme": "https://127.0.0.1:{other}/",
    "file": "file:///etc/passwd",
    "tab in the scheme": "ht\ttp://127.0.0.1:{other}/",
}


@pytest.mark.anyio
@pytest.mark.parametrize("form", MOVED.values(), ids=MOVED)
async def test_a_redirect_to_another_server_is_not_followed(form: str):
    sink = Sink()
    with LlmServer() as server:
        own = server.url.rpartition(":")[2]
        server._answers = [redirect(form.format(own=own, other=sink.port))]
        provider = open_provider("anthropic", model="m", base_url=server.url, api_key=KEY)
        request = ModelRequest(system="", turns=[Turn("user", (Text(text="Hi"),))])
        with pytest.raises(ProviderError) as refusal:
            await _heard_out(provider, request)
        await provider.aclose()
    assert sink.settled() == []
    assert KEY not in str(refusal.value)
    sink.close()


async def _heard_out(provider: OpenProvider, request: ModelRequest) -> None:
    async with provider.stream(request) as chunks:
        async for _ in chunks:
            pass


def test_a_run_that_is_redirected_ends_with_an_error(world: World):
    with LlmServer(redirect(f"{world.sink.url}/v1/messages")) as server:
        flags = ["--provider", "anthropic", "-m", "m", "--base-url", server.url]
        done = world.run("-p", *flags, "go", ANTHROPIC_API_KEY=KEY)
    assert world.harm() == []
    assert done.returncode == 1
    assert "The key was not sent there" in done.stderr


BAD_ADDRESSES = (
    "file:///etc/passwd",
    "ftp://127.0.0.1/",
    "http://user:hunter2@127.0.0.1:9/",
    "127.0.0.1:9",
    "http://",
    "javascript:alert(1)",
    "http://127.0.0.1:99999/",
)


def test_an_invalid_base_url_is_refused_before_anything_is_sent(world: World):
    for address in BAD_ADDRESSES:
        flags = ["--provider", "anthropic", "-m", "m", "--base-url", address]
        done = world.run("-p", *flags, "go", ANTHROPIC_API_KEY=KEY)
        assert done.returncode == 2, address
        assert KEY not in done.stderr, address
        assert "hunter2" not in done.stderr, address
    assert not list((world.home / "data").glob("tasks/*"))
