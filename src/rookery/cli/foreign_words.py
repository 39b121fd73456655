"""What people type by habit from other agents: their flags and commands, and ours for each.

No answer here suggests to approve actions without asking: that is for the user to look up.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import click

from rookery import NAME
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError
from rookery.protocol.slash_words import only_in_a_session

NEAR_MISS = 0.81
"""Enough for a wrong letter in six; `lint` and `start` are prompts, not `list` and `stats`."""

FLAGS: Mapping[str, str] = {
    # prompts and input
    "--system-prompt": (
        "To add to the instructions: --append-system-prompt. To replace the role, write a mode "
        "and use --mode."
    ),
    "--system-prompt-file": "To add to the instructions: --append-system-prompt.",
    "--append-system-prompt-file": "Use --append-system-prompt, or write AGENTS.md.",
    "--prompt-interactive": f'To start with a prompt: {NAME} "PROMPT"',
    "--message": f'To run once with a prompt: {NAME} -p "PROMPT"',
    "--file": "Mention the file in the prompt: @/path/to/file",
    "-f": "Mention the file in the prompt: @/path/to/file",
    "--read": "Mention the file in the prompt: @/path/to/file",
    "--all-files": "The agent finds files itself; mention a folder in the prompt: @/folder/",
    "--input-format": "To send messages as JSON: --stdin-prompt-stream",
    "--command": f'Give the command as the prompt: {NAME} "/name arguments"',
    # folders
    "--cd": "Use -w FOLDER.",
    "-C": "Use -w FOLDER.",
    "--cwd": "Use -w FOLDER.",
    "--dir": "Use -w FOLDER.",
    "--include-directories": "Use --add-dir FOLDER.",
    "--worktree": f"Start a session in a worktree: {NAME} sessions start --worktree",
    "--skip-git-repo-check": "Not needed: a folder does not have to be a repository.",
    # the model
    "--fallback-model": "Use --fallback MODEL.",
    "--effort": "Use -r EFFORT.",
    "--thinking": "Use -r EFFORT.",
    "--variant": "Use -r EFFORT.",
    "--oss": "Use --provider ollama.",
    "--search": f"Web search needs no flag. Choose an engine: {NAME} config set web.search brave",
    "--list-models": f"To list models: {NAME} models",
    "--local-provider": "Use --provider ollama, lmstudio or local.",
    "--agent": "Use --mode MODE.",
    "--agents": f"Write modes in .rookery/modes.yaml; see: {NAME} modes",
    "--architect": "Use --mode architect.",
    "--plan": "Use --permission-mode plan.",
    "--profile": "Settings are per user and per mode; see: rookery config",
    "--config": f"Set it once with {NAME} config set NAME VALUE, or for a run with ROOKERY_NAME.",
    "--settings": f"Set it once with {NAME} config set NAME VALUE, or for a run with ROOKERY_NAME.",
    "--setting-sources": f"To see where each setting comes from: {NAME} config",
    "--proxy": "Set HTTPS_PROXY.",
    # approvals and limits
    "--force": "It asks before it acts; docs/safety.md has the rules.",
    "--max-budget-usd": "Set the limit for a run with ROOKERY_MAX_COST=DOLLARS.",
    "--permission-prompt-tool": "A program can answer questions: --stdin-prompt-stream",
    # sessions
    "--last": "Use -c for the last session.",
    "--fork-session": f"To copy a session: {NAME} fork",
    "--fork": f"To copy a session: {NAME} fork",
    "--list-sessions": f"To list sessions: {NAME} list",
    "--delete-session": f"To delete a session: {NAME} delete",
    "--no-session-persistence": "Use --ephemeral.",
    "--checkpointing": "Checkpoints are always on; /undo goes back.",
    "--share": f"To write a session to a file: {NAME} export",
    "--title": "A session is named by its prompt.",
    "--background": f"To run sessions in the background: {NAME} sessions start",
    "--cloud": "Sessions run on this machine only.",
    # output
    "--json": "Use --output-format stream-json.",
    "--format": "Use --output-format json or stream-json.",
    "--include-partial-messages": "--output-format stream-json always has them.",
    "--stream-partial-output": "--output-format stream-json always has them.",
    "--output-last-message": "With -p, standard output has only the last message.",
    "-o": "For JSON: --output-format json. With -p, standard output has only the last message.",
    "--no-alt-screen": "Use --no-tui.",
    "--screen-reader": "Use --no-tui.",
    "--color": f"Use NO_COLOR=1, or: {NAME} config set ui.colour never",
    "-v": "Use -V for the version, --verbose for more output.",
    "--print-logs": "Use --debug.",
    "--log-level": "Use --debug.",
    # tools and servers
    "--mcp-config": f"To add a server: {NAME} mcp add, or write .rookery/mcp.json",
    "--strict-mcp-config": f"To remove a server: {NAME} mcp remove",
    "--allowed-mcp-server-names": f"To list, add and remove servers: {NAME} mcp",
    "--extensions": f"There are no extensions; MCP servers add tools: {NAME} mcp",
    "--list-extensions": f"There are no extensions; MCP servers add tools: {NAME} mcp",
    "--plugin-dir": f"There are no plugins; MCP servers add tools: {NAME} mcp",
    "--acp": f"For editors: {NAME} acp",
    "--experimental-acp": f"For editors: {NAME} acp",
    "--port": f"For a server: {NAME} serve or {NAME} manager",
    "--attach": f"To follow a session of a server: {NAME} attach",
    "--ide": "There is no editor to connect to; mention files with @.",
}
"""Flags of other agents that are not ours, each with the sentence that says what to use."""

ALIASES: Mapping[str, tuple[tuple[str, ...], range]] = {
    "login": (("auth",), range(2)),
    "logout": (("auth", "logout"), range(2)),
    "update": (("upgrade",), range(1)),
    "version": (("--version",), range(1)),
    "resume": (("--resume",), range(2)),
    "continue": (("--continue",), range(2)),
    "init": (("/init",), range(1)),
    "run": (("--print",), range(2)),
    "exec": (("--print",), range(2)),
    **dict.fromkeys(("chat", "new", "start", "tui"), ((), range(1))),
    "ls": (("list",), range(1)),
    "history": (("list",), range(1)),
    "session": (("sessions",), range(2)),
}
"""Commands of other agents: our arguments, and the number of words that may follow. With more
words, as in `run the tests`, they are a prompt."""

_MEANT: Mapping[str, str] = {
    "undo": "rewind",
    "checkpoint": "rewind",
    "checkpoints": "rewind",
    "rules": "context",
    "debug": "doctor",
    "worktree": "sessions worktrees",
    "mcp-server": "mcp serve",
    "app-server": "serve",
    "agent": "modes",
    "agents": "modes",
    "mode": "modes",
    "usage": "sessions costs",
    "stats": "sessions costs",
    "cost": "sessions costs",
    "permissions": "trust",
    "plan": "--permission-mode plan",
    "memory": "context",
    "tools": "mcp",
    "sandbox": "doctor",
    "status": "auth status",
    "about": "doctor",
    "whoami": "auth status",
    "setup-token": "auth",
    "setup": "auth",
    "key": "auth",
    "keys": "auth",
    "server": "serve",
    "web": "manager",
    "plugin": "mcp",
    "plugins": "mcp",
    "extensions": "mcp",
    "skills": "modes",
    "install": "upgrade",
    **{alias: " ".join(ours) for alias, (ours, _) in ALIASES.items()},
}
"""Single words that are commands elsewhere, and what does the same here."""

_IN_A_SESSION = ("clear", "compact", "compress", "condense", "diff", "theme", "vim")
"""Slash commands that users may type in the shell without the slash."""

SANDBOX_VALUES: Mapping[str, str] = {
    "read-only": "To only read: --permission-mode plan.",
    "workspace-write": "It is on without a flag: commands write only in the workspace.",
    "danger-full-access": "See docs/safety.md.",
}
"""Values of Codex's --sandbox, and what to know about ours."""


def foreign_flag(error: click.ClickException) -> str:
    """The answer to a flag of another agent; empty if the error is about something else."""
    if isinstance(error, click.BadParameter) and error.param and error.param.name == "sandbox":
        given = next((value for value in SANDBOX_VALUES if f"'{value}'" in error.message), "")
        return f"--sandbox takes on, required or off. {SANDBOX_VALUES[given]}" if given else ""
    if not isinstance(error, click.NoSuchOption) or error.option_name not in FLAGS:
        return ""
    return f"{NAME} has no {error.option_name}. {FLAGS[error.option_name]}"


def translated(arguments: Sequence[str], task: click.Command) -> Sequence[str]:
    """Replace a command of another agent by ours. `task` tells which arguments are words."""
    ours, words = ALIASES.get(arguments[0], ((), range(0)))
    if _count_words(arguments[1:], task) not in words:
        return arguments
    return [*ours, *arguments[1:]]


def _count_words(arguments: Sequence[str], task: click.Command) -> int:
    """The number of words that are not options; 0 if an option is not ours."""
    try:
        found, _, _ = task.make_parser(click.Context(task)).parse_args(list(arguments))
    except click.UsageError:
        return 0
    words = found["words"]
    return len(words) if isinstance(words, tuple) else 0  # click has a value of its own for none


def meant_command(word: str, commands: Sequence[str]) -> str:
    """The command that a single word stands for or resembles; empty if it is just a word."""
    word = word.lower()
    if word in commands:
        return word
    if word not in _MEANT:
        names = [*commands, *_MEANT]
        swapped = [name for name in names if sorted(name) == sorted(word)]
        near = swapped or get_close_matches(word, names, n=1, cutoff=NEAR_MISS)
        word = near[0] if near else ""
    return _MEANT.get(word, word)


def command_instead(word: str, commands: Sequence[str], *, asks: bool) -> Sequence[str]:
    """The arguments to use instead of a word that looks like a command; none if it is a prompt. A
    user who can be asked decides. Raises `SettingsError` elsewhere."""
    if word.lower() in _IN_A_SESSION:
        answer = only_in_a_session(word.lower())
        raise SettingsError(f"{answer}\nTo use it as a prompt: {NAME} -- {word}")
    if not (meant := meant_command(word, commands)):
        return ()
    if asks:
        return () if _chooses_prompt(word, meant) else meant.split()
    found = f"{word} is a command" if word == meant else f"No such command: {word}"
    advice = f"To run it: {NAME} {meant}." if word == meant else f"Did you mean {meant}?"
    raise SettingsError(f"{found}. {advice} To use it as a prompt: {NAME} -- {word}")


def _chooses_prompt(word: str, meant: str) -> bool:
    """Ask whether a word is a prompt or a command. Exits for neither."""
    while True:
        answer = input(f'Run "{NAME} {meant}"? [y/n, or p to use "{harmless(word)}" as a prompt] ')
        match answer.strip().lower():
            case "y" | "yes":
                return False
            case "p" | "prompt":
                return True
            case "n" | "no":
                raise click.exceptions.Exit(0)
