"""What the help of the command says beside its options, and in which order it shows them."""

GROUPS = {
    "What to do": ("said", "prompt_file", "workspace", "mode", "intent", "once", "timeout"),
    "Model": ("provider", "model", "base_url", "api_key", "reasoning_effort"),
    "Permissions": (
        "yes",
        "require_approval",
        "trust",
        "sandbox",
        "allow_outside",
        "allow_protected",
        "governance_allow",
        "terminal_shell",
    ),
    "Sessions": ("resume_last", "session_id", "create_with_session_id", "ephemeral"),
    "When something goes wrong, or nobody answers": (
        "consecutive_mistake_limit",
        "exit_on_error",
        "followup_timeout",
    ),
    "Output": ("output_format", "no_tui", "oneshot", "debug"),
    "For programs that drive it": ("stdin_prompt_stream", "signal_only_exit", "json_io"),
}
"""The options under each heading, by the names of their values."""

EPILOG = """\b
Commands about sessions:
  rookery list       the sessions of this workspace
  rookery search     in which session words were said
  rookery show       what was said and done in a session; --tree shows its sub-tasks
  rookery fork       go on with a session in two ways
  rookery rewind     go back to an earlier point: files, conversation, or both
  rookery export     a session as Markdown, JSON or HTML
  rookery delete     remove sessions for good

\b
Many sessions at once:
  rookery manager    the Agent Manager: all sessions of a project on one page in the browser
  rookery sessions   the same for scripts: start, follow, answer, review, apply

\b
Other commands:
  rookery demo       watch a scripted model fix a small repository
  rookery ps         the commands that are running; --stop ends one
  rookery serve      run tasks for clients that come and go
  rookery attach     look on at a task of a server, and answer it
  rookery mcp        your MCP servers: list, test, add, remove
  rookery intents    why things may be changed, and where: init, new, start, check, close
  rookery trace      what was done for which intent: log, blame, verify, export
  rookery hooks      programs of yours that have a say in what is done
  rookery trust      trust this folder, or no longer; --list shows what you allowed
  rookery doctor     whether everything is in place, and which protection holds here
  rookery models     the models known for your keys, and those of servers on this machine
  rookery modes      modes: list, export to a file, import from one
  rookery config     settings: get, set, edit, explain where a value comes from
  rookery auth       keep an API key, say which there are, remove one
  rookery completion completion of commands for your shell
  rookery upgrade    how to get a newer version

\b
Exit codes: 0 completed, 1 not completed, 2 wrong usage, 3 no key, 4 limit reached,
5 forbidden, 6 needs a person, 7 stalled, 8 rate limited, 9 storage, 20 outside its intent,
21 not recorded, 22 no such intent, 124 --timeout reached, 129 hung up, 130 interrupted,
143 terminated. A task that did not complete is kept: go on with -c.
"""
