"""The sections of the settings, and the types of their values."""

from typing import Annotated, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import Meta

from rookery.core.limits import MIB, Limits

Prompt: TypeAlias = Literal["auto", "full", "compact", "guided"]
Approval: TypeAlias = Literal["plan", "ask", "edits", "sandboxed", "auto"]
TurnEnd: TypeAlias = Literal["words", "completion"]
Containment: TypeAlias = Literal["on", "required", "off"]
Network: TypeAlias = Literal["known", "on", "off"]
Colour: TypeAlias = Literal["auto", "always", "never"]
Look: TypeAlias = Literal["auto", "dark", "light"]
Keys: TypeAlias = Literal["usual", "vim"]
Notify: TypeAlias = Literal["auto", "bell", "off"]
Governance: TypeAlias = Literal["auto", "off", "observe", "enforce", "required"]
LedgerHome: TypeAlias = Literal["ignore", "track", "notes"]
LedgerFlush: TypeAlias = Literal["always", "batch", "never"]
WebSearchEngine: TypeAlias = Literal["provider", "searxng", "brave", "tavily", "off"]
OnFailure: TypeAlias = Literal["block", "warn"]

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Tokens: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
_ADDRESS = "an address that begins with http:// or https:// and holds no user name or password"
Address: TypeAlias = Annotated[
    str, Meta(pattern=r"^https?://[^/?#@\s]+([/?#]\S*)?\Z", extra={"expected": _ADDRESS})
]
Text: TypeAlias = Annotated[str, Meta(extra={"expected": "a text"})]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes: TypeAlias = Annotated[int, Meta(ge=1, le=1024 * MIB)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0.1, le=86_400.0)]
Texts: TypeAlias = tuple[Name, ...]
Ceiling: TypeAlias = Annotated[int, Meta(ge=0)]
USUAL = Limits()


class SettingsSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that stand together. Unknown names are refused, never ignored."""


class ModelDescription(TypedDict, total=False):
    """What the user knows of a model, by the names of `ModelInfo`; the rest stays as it was.

    window: Tokens a request and its answer may have together.
    max_output: Tokens one answer may have.
    images: Whether the model can see images.
    thinking: Whether the model can reason before it answers.
    caching: Whether the provider caches the beginning of requests.
    parameters: Size in billions of parameters. It decides how the model is instructed.
    calls: How the model calls tools: natively, as text, or as JSON that follows a schema.
    input_price: Dollars per million tokens of input.
    output_price: Dollars per million tokens of output.
    cache_read_price: Dollars per million tokens read from the cache.
    cache_write_price: Dollars per million tokens written to the cache.
    """

    window: Tokens
    max_output: Tokens
    images: bool
    thinking: bool
    caching: bool
    parameters: Amount
    calls: Literal["native", "text", "schema"]
    input_price: Amount
    output_price: Amount
    cache_read_price: Amount
    cache_write_price: Amount


class ModeSettings(TypedDict, total=False):
    """What the user changes about a mode.

    provider: Provider of the model in this mode.
    model: Model in this mode.
    instructions: More instructions for the model in this mode.
    """

    provider: Name
    model: Name
    instructions: Name


class CommandSettings(SettingsSection, frozen=True):
    """
    shell: Absolute path of the shell that runs commands. Default: bash.
    timeout: Seconds after which a command is killed.
    soft_timeout: Seconds after which the model continues while a command still runs.
    allow: Commands that run without asking, by their first words: `pytest` covers `pytest -q
        tests`, but no other command on the line; `"*"` covers all.
    deny: Commands that are refused, by their first words. This is a convenience; what protects
        you is the sandbox.
    read_only_without_intent: Whether read-only commands may run before an intent is selected.
    """

    shell: Name | None = None
    timeout: Seconds = USUAL.command_seconds
    soft_timeout: Seconds = USUAL.command_soft_seconds
    allow: Texts = ()
    deny: Texts = ()
    read_only_without_intent: bool = False


class GovernanceSettings(SettingsSection, frozen=True):
    """
    mode: Whether intents limit what may change. "auto": only if the project has an intent file.
    auto_select_single: Whether the only intent in progress is selected if the model names none.
    context_chars: Characters of an intent that the model sees.
    """

    mode: Governance = "auto"
    auto_select_single: bool = False
    context_chars: Annotated[int, Meta(ge=4000, le=200000)] = 12000


class HookSettings(SettingsSection, frozen=True):
    """
    import_claude: Whether your and the project's hooks in .claude/settings.json run too.
    managed_only: Whether only the administrator's hooks run.
    env_allow: More environment variables that hooks can read.
    """

    import_claude: bool = False
    managed_only: bool = False
    env_allow: Texts = ()


class TraceSettings(SettingsSection, frozen=True):
    """
    vcs: Where the ledger is in version control: ignored, tracked, or in git notes.
    fsync: When records are flushed to disk. "batch": once a turn; the session journal covers a
        crash.
    on_failure: Whether a change is blocked if it cannot be recorded.
    on_broken: Whether changes are blocked while the ledger does not verify.
    signing_key: No longer used: exports are not signed.
    """

    vcs: LedgerHome = "ignore"
    fsync: LedgerFlush = "batch"
    on_failure: OnFailure = "block"
    on_broken: OnFailure = "warn"
    signing_key: Name | None = None


class SandboxSettings(SettingsSection, frozen=True):
    """
    use: Whether commands run in a sandbox. "on": if this machine has one. "required": commands do
        not run without one.
    network: Hosts that sandboxed commands can reach. "known": package registries configured on this
        machine, the repository's remotes and `hosts`.
    hosts: More hosts that commands may reach, such as example.com, *.example.com or localhost:8080.
    writable: Folders outside the workspace that commands may write to.
    hidden: More files and folders that commands cannot see. Keys are always hidden.
    leave: Commands that need your keys or change git's own settings, by their first words. They run
        outside the sandbox, but only if you allow them yourself.
    """

    use: Containment = "on"
    network: Network = "known"
    hosts: Texts = ()
    writable: Texts = ()
    hidden: Texts = ()
    leave: Texts = ("git", "gh", "glab", "ssh", "scp", "docker", "podman")


class CheckpointSettings(SettingsSection, frozen=True):
    """
    use: Whether files are saved before they change, so that you can undo.
    megabytes: Size at which the oldest checkpoints of a folder are removed.
    """

    use: bool = True
    megabytes: Count = USUAL.checkpoint_bytes // MIB


class ContextSettings(SettingsSection, frozen=True):
    """
    prompt: How the model is instructed. "compact": a short prompt. "guided": step by step, for
        models of up to 4 billion parameters. "auto": by the model's size and context window.
    instructions: More instructions for the model, in every mode.
    language: Language the model answers in. Default: yours.
    agent_rules: Whether AGENTS.md, CLAUDE.md and similar files are read.
    other_agents: Whether files of other agents are used, such as CLAUDE.md, .claude/, .cursor/ and
        .mcp.json.
    subfolder_rules: Whether rule folders (.rookery/rules) below the workspace's folders are read.
    """

    prompt: Prompt = "auto"
    instructions: Text = ""
    language: Text = ""
    agent_rules: bool = True
    other_agents: bool = True
    subfolder_rules: bool = False


class IndexSettings(SettingsSection, frozen=True):
    """
    use: Whether code can be searched by words, in an index on this machine.
    provider: Provider of the embedding model. Without it, search compares words only.
    model: Embedding model.
    base_url: Address of that provider. Default: its own.
    """

    use: bool = True
    provider: Name | None = None
    model: Name | None = None
    base_url: Address | None = None


class BrowserSettings(SettingsSection, frozen=True):
    """
    use: Whether the model can open web pages, if a browser is installed.
    path: Chromium or Chrome to use. Default: the first one found.
    """

    use: bool = True
    path: Name | None = None


class WebSettings(SettingsSection, frozen=True):
    """
    use: Whether the model can fetch web pages and search the web.
    hosts: Hosts whose pages are fetched without asking, such as docs.python.org, *.example.com or
        localhost:3000. Only hosts listed here can be on a private network.
    search: Engine for web searches. Default: the search of the model's provider, if it has one.
        "provider": the same, even if `base_url` is set.
    search_url: Address of the search engine, if not its own. Required for SearXNG.
    """

    use: bool = True
    hosts: Texts = ()
    search: WebSearchEngine | None = None
    search_url: Address | None = None


class LanguageServerSettings(SettingsSection, frozen=True):
    """
    use: Whether language servers report problems after an edit. "on": only in a sandbox.
        "always": also without one.
    add: Additional servers, as `PATTERN: COMMAND`: `*.lua: lua-language-server`.
    skip: Servers not to use, by program name.
    seconds: Seconds that an edit waits for problems. Later problems come with the next edit.
    """

    use: Literal["on", "always", "off"] = "on"
    add: Texts = ()
    skip: Texts = ()
    seconds: Seconds = 3.0


class UiSettings(SettingsSection, frozen=True):
    """
    colour: Whether output is coloured. "auto": only in a terminal.
    oneshot: Whether the full screen closes when the task is done.
    look: Older name of `theme`. If both are set, `theme` is used.
    theme: Theme of the full screen: "auto" (as the terminal's), "dark", "light", "high-contrast",
        "gruvbox", "nord", "solarized-light", or the name of your own file in `themes`.
    keys: Key bindings of the input in the full screen: "usual" or "vim".
    status_line: A line below the input with fields in braces: model, mode, level, cost, context,
        branch, folder, intent and session.
    status_command: A command whose first line of output is the status line. It gets the fields as
        JSON on standard input.
    notify: How you are notified when you look elsewhere. "auto": notification of the terminal and
        its bell.
    """

    colour: Colour = "auto"
    oneshot: bool = False
    look: Look = "auto"
    theme: Name = "auto"
    keys: Keys = "usual"
    status_line: Text = ""
    status_command: Text = ""
    notify: Notify = "auto"


class ManagerSettings(SettingsSection, frozen=True):
    """Of the Agent Manager, and of the sessions that it starts.

    running_limit: Sessions that work at the same time; more wait.
    branch_prefix: Prefix of new branches for sessions.
    auto_approve: Whether new sessions act without asking, except for destructive actions.
    notify: Whether the page notifies you when a session needs you.
    daily_budget: Dollars per day, for all projects together. The page shows how much is used, and
        does not stop sessions. 0 means no budget.
    editor: The command of your editor for "Open in editor", such as `code -n`. Without it, VISUAL
        and known editors are offered.
    """

    running_limit: Annotated[int, Meta(ge=1, le=32)] = 5
    branch_prefix: Text = "agent/"
    auto_approve: bool = True
    notify: bool = True
    daily_budget: Amount = 0.0
    editor: Text = ""


class TelemetrySettings(SettingsSection, frozen=True):
    """
    endpoint: Address of an OpenTelemetry collector (OTLP over HTTP), such as
        `http://localhost:4318`. Without it, nothing is sent.
    headers: Headers to send to it, as `NAME: VALUE`.
    content: Whether prompts, answers, and arguments and results of tools are sent too.
    """

    endpoint: Address | None = None
    headers: Texts = ()
    content: bool = False


class LimitSettings(SettingsSection, frozen=True):
    """The fields of `core.limits.Limits` of the same names.

    repeats: Identical tool calls in a row that are run.
    calls_per_message: Tool calls of one answer that are run.
    agents_at_once: Agents of a session that work at the same time; the others wait.
    agents: Agents that one session may start.
    output_for_model: Bytes of a command's output that the model sees.
    output_on_disk: Bytes of a command's output that are kept on disk.
    read_bytes: Bytes of a file that one read returns.
    read_lines: Lines of a file that one read returns.
    edit_bytes: Largest file that can be edited, in bytes.
    image_bytes: Largest image that is sent to the model, in bytes.
    page_bytes: Bytes of a web page that are downloaded.
    page_characters: Characters of a web page that one fetch returns.
    page_seconds: Seconds after which the download of a web page is given up.
    list_entries: Entries that one listing of a folder returns.
    search_matches: Matches that one search returns.
    search_seconds: Seconds after which a search returns what it has.
    connect_seconds: Seconds to wait for a connection to the provider.
    first_byte_seconds: Seconds to wait for an answer to begin.
    first_byte_seconds_local: The same for a model on this machine.
    idle_seconds: Seconds without a byte after which an answer counts as lost.
    progress_seconds: Seconds without a new word after which an answer counts as lost, even if the
        connection is alive.
    """

    repeats: Count = USUAL.repeats
    calls_per_message: Count = USUAL.calls_per_message
    agents_at_once: Annotated[int, Meta(ge=1, le=32)] = USUAL.agents_at_once
    agents: Count = USUAL.agents
    output_for_model: Annotated[int, Meta(ge=2 * USUAL.output_head, le=1024 * MIB)] = (
        USUAL.output_for_model
    )
    output_on_disk: Bytes = USUAL.output_on_disk
    read_bytes: Bytes = USUAL.read_bytes
    read_lines: Count = USUAL.read_lines
    edit_bytes: Bytes = USUAL.edit_bytes
    image_bytes: Bytes = USUAL.image_bytes
    page_bytes: Bytes = USUAL.page_bytes
    page_characters: Count = USUAL.page_characters
    page_seconds: Seconds = USUAL.page_seconds
    list_entries: Count = USUAL.list_entries
    search_matches: Count = USUAL.search_matches
    search_seconds: Seconds = USUAL.search_seconds
    connect_seconds: Seconds = USUAL.connect_seconds
    first_byte_seconds: Seconds = USUAL.first_byte_seconds
    first_byte_seconds_local: Seconds = USUAL.first_byte_seconds_local
    idle_seconds: Seconds = USUAL.idle_seconds
    progress_seconds: Seconds = USUAL.progress_seconds
