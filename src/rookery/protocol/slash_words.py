"""Slash commands of other agents, and what does the same here.

Commands of the project come before these words: its own `/clear` is its own.
"""

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "compact": "condense",
    "compress": "condense",
    "summarize": "condense",
    "clear": "new",
    "reset": "new",
    "resume": "tasks",
    "sessions": "tasks",
    "history": "tasks",
    "usage": "cost",
    "stats": "cost",
    "models": "model",
    "agent": "mode",
    "agents": "mode",
    "settings": "config",
    "restore": "rewind",
    "share": "export",
    "themes": "theme",
    "exit": "quit",
}
"""Our command for each."""

ANSWERS: Mapping[str, str] = {
    "login": "In a shell: rookery auth",
    "logout": "In a shell: rookery auth logout PROVIDER",
    "auth": "In a shell: rookery auth",
    "mcp": "In a shell: rookery mcp",
    "doctor": "In a shell: rookery doctor",
    "status": "In a shell: rookery doctor",
    "hooks": "In a shell: rookery hooks",
    "skills": "In a shell: rookery list commands",
    "add-dir": "Start with --add-dir FOLDER, or in a shell: rookery config set folders FOLDER",
    "directory": "Start with --add-dir FOLDER, or in a shell: rookery config set folders FOLDER",
    "plan": "Use /mode architect.",
    "act": "Use /mode code.",
    "mention": "Type @ to mention a file.",
    "statusline": "In a shell: rookery config set ui.status_line '{model} {cost} {context}'",
    "terminal-setup": "Not needed: Ctrl-J starts a new line in every terminal.",
    "redo": "A rewind can be undone: /rewind lists the points.",
}
"""Commands that are none here, each with the sentence that says what to do."""

IN_PLAIN: Mapping[str, str] = {
    "new": "The plain client has one session. Leave it with /quit, then start another: rookery",
    "tasks": "Leave this session with /quit. To choose another: rookery --resume",
    "checkpoints": "Use /rewind.",
    "export": "In a shell: rookery export",
    "todos": "The plain client prints the to-do list when it changes.",
    "copy": "Select the text in your terminal to copy it.",
    "paste": "Mention the image file: @/path/to/image",
    "theme": "The plain client uses your terminal's colours.",
    "vim": "The plain client has no vim keys. Ctrl-J starts a new line.",
    "editor": "The plain client opens no editor. Ctrl-J starts a new line.",
    "find": "Search with your terminal.",
}
"""Commands of the full screen, and what to do in the plain client."""

IN_SHELL: Mapping[str, str] = {
    "undo": "rookery rewind --last",
    "rewind": "rookery rewind",
    "checkpoints": "rookery rewind",
    "files": "rookery rewind --files",
    "diff": "git diff",
    "new": "rookery (without -c)",
    "tasks": "rookery --resume",
    "cost": "rookery list",
    "context": "rookery context",
    "memory": "rookery context",
    "mode": "rookery --mode MODE",
    "model": "rookery -m MODEL",
    "config": "rookery config",
    "intent": "rookery --intent ID",
    "export": "rookery export",
    "tree": "rookery show --tree",
    "help": "rookery --help",
}
"""What to type in a shell instead of a command of a session."""


def only_in_a_session(name: str) -> str:
    """The answer to a command of a session where none is open."""
    instead = IN_SHELL.get(ALIASES.get(name, name), "")
    hint = f" In a shell: {instead}" if instead else ""
    return f"/{name} works only in an open session.{hint}"
