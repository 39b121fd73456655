"""Habits from other agents: every row of `docs/coming-from.md` is run here.

To add a row: write it into a table of the page, then add its first cell to `SCENARIOS` below, with
`AGENT` for the program's name. The kinds of scenario are `Task`, `Command`, `Answered`, `File`,
`Stored`, `Call`, `Slash`, `Same` and `Keys`; agents with the same first cell share one.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import click
import pytest
from msgspec import Struct

from llm_server import LlmServer, finish
from rookery.cli.foreign_words import FLAGS
from rookery.cli.main import _SUBCOMMANDS, task
from rookery.prompting.skills_and_commands import BUILT_IN
from rookery.protocol.client_commands import SlashLines
from rookery.protocol.slash_words import ALIASES
from rookery.tui.own_commands import COMMANDS
from support.foreign_homes import WRITERS
from support.model_words import FINISHES
from support.recorded_task import PICTURE
from support.terminal_session import Installed, at
from support.tui_scenes import completed
from support.tui_session import Play, play
from support.virtual_clock import VIRTUAL_TIME, screens_in_virtual_time

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
AGENTS = ("claude", "codex", "gemini", "opencode", "cursor-agent", "roo")


TABS = "Always use tabs."
TWO_AGENTS = """\
go:
- calls: [{tool: run_agents, arguments: {agents: [{task: Look here.}, {task: Look there.}]}}]
- say: One.
Look:
- say: Found.
"""


class Task(Struct, frozen=True):
    """A run without a terminal that asks a scripted model, which answers "One."."""

    line: str
    """The arguments; `claude -p` becomes `rookery -p`."""
    sees: str = "One."
    code: int = 0
    given: str = ""
    """Standard input."""
    after: str = ""
    """The arguments of an earlier run."""

    def run(self, rookery: Installed) -> None:
        model = rookery.script(FINISHES * 3)
        (rookery.workspace.parent / "library").mkdir()
        (rookery.workspace.parent / "picture.png").write_bytes(PICTURE)
        if self.after:
            assert rookery.run(*self.after.split(), *model).returncode == 0
        done = rookery.run(*_words(self.line), *model, input=self.given)
        assert self.sees in done.stdout + done.stderr
        assert done.returncode == self.code, done.stderr


class Command(Struct, frozen=True):
    """A command that needs no model."""

    line: str
    sees: str
    code: int = 0

    def run(self, rookery: Installed) -> None:
        done = rookery.run(*_words(self.line))
        assert self.sees in done.stdout + done.stderr
        assert done.returncode == self.code, done.stderr


class File(Struct, frozen=True):
    """A file of the project that the model gets with the first request."""

    path: str
    text: str = TABS
    prompt: str = "go"

    def run(self, rookery: Installed) -> None:
        file = rookery.workspace / self.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{self.text}\n")
        with LlmServer([finish()]) as server:
            rookery.run("-p", self.prompt, *at(server))
        assert TABS in str(server.requests[0].body)


class Stored(Struct, frozen=True):
    """A session that the other agent has stored."""

    agent: str

    def run(self, rookery: Installed) -> None:
        WRITERS[self.agent](Path(rookery.environ["HOME"]), rookery.workspace)
        assert "Imported 1 session." in rookery.run("import", self.agent).stdout


class Call(Struct, frozen=True):
    """A run whose model calls a tool, by the answers of a script."""

    script: str
    sees: str

    def run(self, rookery: Installed) -> None:
        done = rookery.run("-p", "-y", "go", *rookery.script(self.script))
        assert self.sees in done.stderr
        assert (done.returncode, done.stdout) == (0, "One.\n"), done.stderr


class Slash(Struct, frozen=True):
    """A slash command in the full screen and, with `plain`, in the plain client."""

    line: str
    sees: str = ""
    """Text on the screen afterwards."""
    sends: str = ""
    """The name of the command that the host gets."""
    plain: str | None = None
    """Text that the plain client shows; an empty one if it shows none."""

    async def play(self, screen: Play) -> None:
        await screen.type(self.line)
        await screen.press("enter")
        await _expect(screen, self.sees, self.sends)
        if self.plain is not None:
            outcome = SlashLines("t1").handle(self.line)
            assert outcome
            assert self.plain in outcome.words


class Same(Struct, frozen=True):
    """Another word for a slash command of ours, or of one that another row tries."""

    word: str
    like: str


class Keys(Struct, frozen=True):
    """Keys in the full screen."""

    keys: tuple[str, ...]
    sees: str = ""
    sends: str = ""

    async def play(self, screen: Play) -> None:
        await screen.press(*self.keys)
        await _expect(screen, self.sees, self.sends)


async def _expect(screen: Play, sees: str, sends: str) -> None:
    try:
        await screen.see(sees)
        await screen.until(lambda: not sends or sends in _kinds(screen))
    except TimeoutError:
        raise AssertionError(f"{sees or sends} never came:\n{screen.screen}") from None


def _kinds(screen: Play) -> list[str]:
    return [type(each).__name__ for each in screen.host.sent]


class Answered(Struct, frozen=True):
    """A flag of another agent gets one sentence with our flag. tests/cli/test_foreign_words.py
    tests how it is printed."""

    flag: str
    sees: str


Run: TypeAlias = Task | Command | File | Stored | Call
SCENARIOS: Mapping[str, Run | Answered | Slash | Same | Keys] = {
    # command lines
    'AGENT "fix the test"': Task('AGENT -p "fix the test"'),
    'AGENT -p "…"': Task('AGENT -p "go"'),
    'AGENT --print "…"': Task('AGENT --print "go"'),
    "AGENT -c": Task("AGENT -p -c more", after="-p go"),
    "AGENT -p --output-format json": Task(
        "AGENT -p go --output-format json", sees='"type": "result"'
    ),
    "AGENT -m MODEL": Command(
        "AGENT -p go --provider openai -m gpt-x", "No key for openai", code=3
    ),
    "AGENT --resume": Command("AGENT --resume", "--resume without an id needs a terminal", code=2),
    "AGENT --resume ID": Command(
        "AGENT -p --resume abcd more", "No session begins with abcd", code=2
    ),
    "AGENT resume": Command("AGENT resume", "--resume without an id needs a terminal", code=2),
    "AGENT --session-id UUID": Command(
        "AGENT -p go --session-id 3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11",
        "To start one: --create-with-session-id",
        code=2,
    ),
    "AGENT --add-dir FOLDER": Task("AGENT -p go --add-dir ../library"),
    "AGENT --max-turns 5": Task("AGENT -p go --max-turns 5"),
    'AGENT --append-system-prompt "…"': Task("AGENT -p go --append-system-prompt Briefly."),
    'AGENT --system-prompt "…"': Command(
        "AGENT -p go --system-prompt Hi", "Error: rookery has no --system-prompt. To add", code=2
    ),
    "AGENT --fallback-model MODEL": Answered("--fallback-model", "Use --fallback MODEL."),
    "AGENT --verbose": Task("AGENT -p go --verbose"),
    "AGENT --mcp-config FILE": Answered("--mcp-config", "rookery mcp add"),
    "AGENT --max-budget-usd 5": Answered("--max-budget-usd", "ROOKERY_MAX_COST=DOLLARS"),
    "AGENT update": Command("AGENT update", "rookery"),
    'AGENT exec "…"': Task('AGENT exec "fix it"'),
    'AGENT run "…"': Task('AGENT run "fix it"'),
    'AGENT run --agent plan "…"': Answered("--agent", "Use --mode MODE."),
    "AGENT login": Command("AGENT login openai", "No key was given", code=2),
    "AGENT auth login": Command("AGENT auth login openai", "No key was given", code=2),
    "AGENT logout": Command("AGENT logout", "With a key: none.", code=2),
    "AGENT status": Command("AGENT -p status", "Did you mean auth status?", code=2),
    "AGENT --cd FOLDER": Answered("--cd", "Use -w FOLDER."),
    "AGENT --image FILE": Task("AGENT -p go --image ../picture.png"),
    **dict.fromkeys(
        ("Task", "spawn_agent", "task"), Call(TWO_AGENTS, "explorer 2 (explorer): done")
    ),
    "AGENT --search": Answered("--search", "Web search needs no flag."),
    "Read @https://…": Task("-p 'Read @https://10.0.0.1/'", sees="10.0.0.1 is a private address"),
    "AGENT --oss": Answered("--oss", "Use --provider ollama."),
    "AGENT --json": Answered("--json", "Use --output-format stream-json."),
    "AGENT --permission-mode acceptEdits": Task("AGENT -p go --permission-mode acceptEdits"),
    'AGENT --allowedTools "Bash(pytest:*) Edit"': Task(
        "AGENT -p go --allowedTools 'Bash(pytest:*) Edit'"
    ),
    'AGENT --disallowedTools "Write"': Task("AGENT -p go --disallowedTools Write"),
    "AGENT --permission-mode plan": Task("AGENT -p go --permission-mode plan"),
    "AGENT --dangerously-skip-permissions": Task(
        "AGENT -p go --dangerously-skip-permissions", sees="Destructive actions always ask."
    ),
    "AGENT --yolo": Task("AGENT -p go --yolo", sees="Destructive actions always ask."),
    "AGENT --approval-mode auto_edit": Task("AGENT -p go --approval-mode auto_edit"),
    "AGENT --ask-for-approval never": Task("AGENT -p go --ask-for-approval never"),
    "AGENT --full-auto": Command(
        "AGENT -p go --full-auto --sandbox off --provider openai -k x",
        "needs a sandbox without network",
        code=2,
    ),
    'AGENT --prompt-interactive "…"': Answered("--prompt-interactive", 'rookery "PROMPT"'),
    "AGENT --include-directories FOLDER": Answered("--include-directories", "--add-dir FOLDER"),
    "AGENT --acp": Answered("--acp", "rookery acp"),
    "AGENT acp": Command("AGENT acp --auth", "rookery auth PROVIDER", code=2),
    "AGENT --list-sessions": Answered("--list-sessions", "rookery list"),
    "AGENT --checkpointing": Answered("--checkpointing", "/undo goes back"),
    "AGENT session list": Command("AGENT session list", "No sessions"),
    "AGENT review --base main": Command(
        "AGENT review --base main", "is not in a git repository", code=2
    ),
    "/review": Task("AGENT -p /review"),
    '"lsp": false': Command(
        "AGENT config set language_servers.use off", 'language_servers.use = "off"'
    ),
    '"formatter"': Command("AGENT config set formatters '[\"*.py: black\"]'", '["*.py: black"]'),
    '"PostToolUse"` that formats': Command(
        "AGENT config set formatters '[\"*.py: black {file}\"]'", '["*.py: black {file}"]'
    ),
    '"Stop"` that tests': Command(
        "AGENT config set checks '[\"pytest -q\"]'", 'checks = ["pytest -q"]'
    ),
    "@problems": Task("AGENT -p 'Fix @problems'"),
    "AGENT models": Command("AGENT models", "rookery"),
    "AGENT serve": Command("AGENT serve --help", "Usage: rookery serve"),
    # files
    "AGENTS.md": File("AGENTS.md"),
    ".roo/rules": File(".roo/rules/style.md"),
    "CLAUDE.md": File("CLAUDE.md"),
    "GEMINI.md": File("GEMINI.md"),
    ".cursor/rules": File(".cursor/rules/style.mdc", f"---\nalwaysApply: true\n---\n{TABS}"),
    ".cursorrules": File(".cursorrules"),
    ".github/copilot-instructions.md": File(".github/copilot-instructions.md"),
    ".claude/commands/fix.md": File(".claude/commands/fix.md", "Always use $1.", "/fix tabs"),
    ".claude/agents": File(".claude/agents/a.md", f"---\nname: a\ndescription: {TABS}\n---\n"),
    ".claude/skills": File(".claude/skills/s/SKILL.md", f"---\ndescription: {TABS}\n---\nText."),
    ".opencode/command/fix.md": File(".opencode/command/fix.md", "Always use $1.", "/fix tabs"),
    ".mcp.json": File(".mcp.json", f'{{"mcpServers": {{"{TABS}": {{"command": "true"}}}}}}'),
    "~/.claude/projects": Stored("claude"),
    "~/.codex/sessions": Stored("codex"),
    "~/.gemini/tmp": Stored("gemini"),
    "opencode.db": Stored("opencode"),
    "globalStorage": Stored("roo"),
    # slash commands and keys
    "/model": Slash("/model", sees="Model", plain="Use /model with a name"),
    "/new": Slash("/new", sees="What should I do?"),
    "/quit": Slash("/quit"),
    "exit": Slash("exit"),
    "/compact": Slash("/compact", sends="Condense", plain=""),
    "/compress": Same("compress", like="compact"),
    'AGENT -p "/compact"': Command(
        'AGENT -p "/compact" --provider openai -k x', "/compact works only in an open", code=2
    ),
    "/clear": Slash("/clear", sees="What should I do?", plain="The plain client has one session"),
    "/resume": Slash("/resume", sees="─Tasks", plain="rookery --resume"),
    "/sessions": Same("sessions", like="resume"),
    "/init": Task("AGENT init -p"),
    "/usage": Slash("/usage", sees="in total", plain="0 tokens in, 0 out"),
    "/stats": Same("stats", like="usage"),
    "/config": Slash("/config", sees="In a shell: rookery config", plain="Level ask"),
    "/rewind": Slash("/rewind", sees="Checkpoints", plain="/rewind NUMBER"),
    "/restore": Same("restore", like="rewind"),
    "/mcp": Slash("/mcp", sees="In a shell: rookery mcp", plain="In a shell: rookery mcp"),
    "/login": Slash("/login", sees="Could not use the terminal", plain="In a shell: rookery auth"),
    "/add-dir FOLDER": Slash("/add-dir x", sees="--add-dir FOLDER", plain="--add-dir FOLDER"),
    "/diff": Slash("/diff", sees="File changes of this session: none.", plain=""),
    "/share": Slash("/share x.md", sees="Written to", plain="In a shell: rookery export"),
    "/models": Same("models", like="model"),
    "/context": Slash("/context", sees="tokens are used", plain=""),
    "Esc Esc": Keys(("escape", "escape"), sees="Checkpoints"),
    "!ls": Keys(("exclamation_mark", "l", "s", "enter"), sees="$ ls"),
    "#": Keys(("number_sign",), sees="No matching session"),
    "Ctrl+G": Keys(("ctrl+g",), sees="Could not use the editor"),
    "Ctrl+R": Keys(("ctrl+r",), sees="Ctrl+D delete"),
    "Ctrl+O": Keys(("ctrl+o",), sees="The discount"),
    "Ctrl+D": Keys(("ctrl+d",), sees="again to exit"),
    "\\ Enter": Keys(("a", "backslash", "enter", "b"), sees="› a\n   b"),
    "/vim": Slash("/vim", sees="INSERT", plain="no vim keys"),
    "/theme": Slash("/theme", sees="high-contrast", plain="terminal's colours"),
    "/themes": Same("themes", like="theme"),
    "/statusline": Slash("/statusline", sees="ui.status_line", plain="ui.status_line"),
    "/editor": Slash("/editor", sees="Could not use the editor", plain="opens no editor"),
    "/memory": Slash("/memory", sees="Rules files", plain=""),
    "/permissions": Slash("/permissions edits", sends="SwitchApproval", plain=""),
    "/approvals": Same("approvals", like="permissions"),
    "/plan": Slash("/plan", sees="Use /permissions plan", plain="Use /permissions plan"),
    "Shift+Tab": Keys(("shift+tab",), sends="SwitchApproval"),
    "/undo": Slash("/undo", sees="Nothing to undo", plain="Nothing to undo"),
}


class Row(Struct, frozen=True):
    agent: str
    there: str
    here: str

    @property
    def key(self) -> str:
        """The first cell, with `AGENT` for the program's name."""
        words = self.there.split(" ", 1)
        return " ".join(["AGENT", *words[1:]]) if words[0] in AGENTS else self.there


def _rows() -> Iterator[Row]:
    agent = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            agent = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            yield Row(agent, cells[0].strip("`"), cells[1])


ROWS = list(_rows())
TYPED = {row.key for row in ROWS}


def _words(line: str) -> list[str]:
    return shlex.split(line)[1:]


def _of(*kinds: type[Any]) -> list[Any]:
    found = ((key, SCENARIOS[key]) for key in SCENARIOS if isinstance(SCENARIOS[key], kinds))
    return [pytest.param(scenario, id=key) for key, scenario in found]


def test_every_row_has_a_scenario_and_every_scenario_a_row():
    assert set(SCENARIOS) == TYPED
    assert len(ROWS) == len({(row.agent, row.there) for row in ROWS})


def test_every_flag_and_command_in_the_table_exists():
    flags = {flag for each in task.params if isinstance(each, click.Option) for flag in each.opts}
    slashes = {f"/{each.name}" for each in (*BUILT_IN, *COMMANDS)}
    for row in ROWS:
        for code in re.findall(r"`([^`]+)`", row.here):
            match code.split():
                case ["rookery", word, *_] if word.isalpha():
                    assert word in _SUBCOMMANDS, row
                case ["rookery", *words]:
                    assert {word for word in words if word.startswith("-")} <= flags, row
                case [word, *_] if word.startswith("-"):
                    assert word in flags, row
                case [word, *_] if word.startswith("/"):
                    assert word in slashes, row


@pytest.mark.parametrize("scenario", _of(Task, Command, File, Stored, Call))
def test_a_command_line_or_file(scenario: Run, rookery: Installed):
    scenario.run(rookery)


def test_a_foreign_flag_or_word_is_answered_with_ours():
    for scenario in SCENARIOS.values():
        match scenario:
            case Answered(flag=flag, sees=sees):
                assert sees in FLAGS[flag], flag
            case Same(word=word, like=like):
                assert ALIASES[word] == ALIASES.get(like, like)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [VIRTUAL_TIME], ids=["virtual-time"])
@pytest.mark.parametrize("scenario", _of(Slash, Keys))
async def test_a_slash_command_or_key(
    scenario: Slash | Keys,
    anyio_backend: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    with screens_in_virtual_time():
        async with play() as screen:
            completed(screen.host)
            await screen.settle()
            await scenario.play(screen)
