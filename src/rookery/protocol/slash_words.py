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
    "new-chat": "new",
    "resume": "tasks",
    "sessions": "tasks",
    "history": "tasks",
    "usage": "cost",
    "stats": "cost",
    "models": "model",
    "agent": "mode",
    "agents": "mode",
    "modes": "mode",
    "settings": "config",
    "approvals": "permissions",
    "allowed-tools": "permissions",
    "rules": "memory",
    "restore": "rewind",
    "checkpoint": "checkpoints",
    "smol": "condense",
    "newtask": "new",
    "chat": "tasks",
    "status": "config",
    "auto-run": "permissions",
    "todo": "todos",
    "search": "find",
    "shortcuts": "help",
    "keybindings": "help",
    "commands": "help",
    "connect": "login",
    "auth": "login",
    "provider": "login",
    "q": "quit",
    "share": "export",
    "themes": "theme",
    "exit": "quit",
}
"""Our command for each."""

LEAVING = ("exit", "quit", ":q", ":wq")
"""Lines without a slash that exit, unless the model has asked a question."""

ANSWERS: Mapping[str, str] = {
    "logout": "In a shell: rookery auth logout PROVIDER",
    "mcp": "In a shell: rookery mcp",
    "doctor": "In a shell: rookery doctor",
    "hooks": "In a shell: rookery hooks",
    "skills": "In a shell: rookery list commands",
    "add-dir": "Start with --add-dir FOLDER, or in a shell: rookery config set folders FOLDER",
    "directory": "Start with --add-dir FOLDER, or in a shell: rookery config set folders FOLDER",
    "plan": "Use /permissions plan, or press Shift+Tab.",
    "act": "Use /permissions ask, or press Shift+Tab.",
    "yolo": "Use /permissions auto, or press Shift+Tab.",
    "sandbox": "Use /permissions sandboxed. To check the sandbox, in a shell: rookery doctor",
    **dict.fromkeys(
        ("effort", "think", "thinking", "fast", "variants"),
        "Start with --reasoning-effort high, or another level.",
    ),
    **dict.fromkeys(
        ("plugin", "plugins", "extensions", "marketplace", "tools"),
        "Tools come from MCP servers. In a shell: rookery mcp",
    ),
    **dict.fromkeys(
        ("update", "upgrade"),
        "In a shell: rookery update",
    ),
    "save": "Not needed: every session is kept. /tasks lists them.",
    "rename": "A session is named by its first message.",
    "newrule": "/memory lists the rule files; Enter opens one.",
    "output-style": "Write a mode, or start with --append-system-prompt.",
    "personality": "Write a mode, or start with --append-system-prompt.",
    "ide": "In Zed, JetBrains IDEs and Neovim, rookery starts as: rookery acp",
    "worktree": "In a shell: rookery sessions start --worktree",
    "install-github-app": "See docs/recipes/github-actions.md",
    "setup-github": "See docs/recipes/github-actions.md",
    "details": "Ctrl+O expands everything.",
    "commit": "In a shell: rookery commit",
    "fork": "In a shell: rookery fork",
    "import": "In a shell: rookery import",
    "bashes": "In a shell: rookery ps",
    "ps": "In a shell: rookery ps",
    "about": "In a shell: rookery version",
    "security-review": "Use /review security",
    "mention": "Type @ to mention a file.",
    "statusline": "In a shell: rookery config set ui.status_line '{model} {cost} {context}'",
    "terminal-setup": "Not needed: Ctrl-J starts a new line in every terminal.",
    "redo": "A rewind can be undone: /rewind lists the points.",
}
"""Commands that are none here, each with the sentence that says what to do."""

IN_PLAIN: Mapping[str, str] = {
    "login": "In a shell: rookery auth",
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
    "login": "rookery auth",
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
