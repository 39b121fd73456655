"""Help and usage errors: one sentence with advice, an exit code, no traceback."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_server import LlmServer, finish, status
from rookery.cli.command_line import GROUPS, OTHERS
from rookery.cli.main import task
from support.model_words import FINISHES
from support.terminal_session import COMMAND, Installed

SCRIPTED = ("-p", "go", "--provider", "scripted", "-m")
USAGE, AUTH, STORAGE = 2, 3, 9
NO_ID = "00000000-0000-4000-8000-000000000000"
MODEL = ("--provider", "anthropic", "--base-url", "http://127.0.0.1:9")


MISTAKES = [
    (["--contniue"], "No such option '--contniue'. Did you mean '--continue'? See rookery --h"),
    (["-p", "go", "--provider", "openai"], "No key for openai. Set OPENAI_API_KEY, "),
    (["-p", "go", "-k", "x"], "Give --provider with --api-key."),
    (["-p", "go", "--provider", "ollama"], "Choose a model for ollama with -m. Its server "),
    (["-p", "go", "--provider", "scripted"], "Give the script file with -m."),
    ([*SCRIPTED, "none.yaml"], "The script none.yaml cannot be read: No such file or directo"),
    ([*SCRIPTED, "."], "The script . cannot be read: Is a directory."),
    ([*SCRIPTED, "broken.yaml"], "The script broken.yaml is not YAML: "),
    ([*SCRIPTED, "odd.yaml"], "The script odd.yaml is not a list of answers: "),
    (["--resume"], "--resume without an id needs a terminal. Give an id (rookery list shows"),
    (["--resume", "38e5", "-c"], "Give only one of --resume, --session-id and --continue."),
    (["-p", "go", "--add-dir", "odd.yaml"], "No such folder: odd.yaml. --add-dir takes a folder."),
    ([*SCRIPTED, "[]", "--image", "no.png"], "--image "),
    (["-p", "go", "-w", "odd.yaml"], "No such folder: odd.yaml. Give one with -w."),
    (["-p", *MODEL], "Give a task as an argument or on standard input."),
    (["-p", "go", "--mode", "fly"], "No such mode: 'fly'. Available: code, ask, "),
    (["-p", "go", "--timeout", "0"], "Invalid value for '--timeout': 0.0 is not in the range"),
    (["-p", "go", "--timeout", "soon"], "Invalid value for '--timeout': soon is not a number"),
    (["-p", "--session-id", "7"], "'7' is too short for a session id; give at least 4"),
    (["-p", "--session-id", NO_ID, *MODEL], f"No such session: {NO_ID}. See rookery list."),
    (["-p", "--session-id", "38e5", *MODEL], "No session begins with 38e5. See rookery list"),
    (["-p", "-c", *MODEL], "No session to continue in "),
    (["-p", "go", "--provider", "openai", "--base-url", "x"], "--base-url must be an address"),
    (["list", "--format", "xml"], "--format is json or text, not 'xml'."),
    (
        ["list", "folders"],
        "Cannot list 'folders'. Available: sessions, commands, modes, models.",
    ),
    (["list", "-w", "nowhere"], "No such folder: nowhere. Give one with -w."),
    (["settings", "-w", "nowhere"], "No such folder: nowhere. Give one with -w."),
    (["auth", "nobody"], "No such provider: 'nobody'. Available: anthropic, openai, "),
    (["auth", "openruter"], "No such provider: 'openruter'. Did you mean openrouter?"),
    (["auth", "ollama"], "ollama needs no key. Use it with: rookery --provider ollama -m MODEL"),
    (["models", "describe"], "Give facts as NAME=VALUE, for example: rookery models describe "),
    (["auth", "openai"], "No key was given, so nothing was stored."),
    (["lst"], "No such command: lst. Did you mean list? To use it as a prompt: rookery -- lst"),
    (
        ["auth"],
        "Use rookery auth PROVIDER, rookery auth status or rookery auth logout PROVIDER.",
    ),
]


def test_a_usage_error_is_one_sentence(rookery: Installed):
    (rookery.workspace / "broken.yaml").write_text("- {say: [")
    (rookery.workspace / "odd.yaml").write_text("- {sya: Hello}")
    for arguments, sentence in MISTAKES:
        done = rookery.run(*arguments)
        code = AUTH if sentence.startswith("No key for") else USAGE
        assert (done.returncode, done.stdout) == (code, ""), arguments
        assert done.stderr.startswith(f"Error: {sentence}"), arguments
        assert done.stderr.count("\n") == 1, arguments
    assert rookery.sessions() == []


WRONG_VALUES = [
    (["serve", "x"], "Got unexpected extra argument (x). See rookery serve --help.\n"),
    (["list", "--x"], "No such option '--x'. See rookery list --help.\n"),
    (["--timeout", "nan"], "Invalid value for '--timeout': nan is not a number of seconds. See "),
    (["--followup-timeout", "nan"], "Invalid value for '--followup-timeout': nan is not a n"),
    (["--followup-timeout", "inf"], "--followup-timeout must be a number of at least 0, not "),
    (["--consecutive-mistake-limit", "9" * 30], "--consecutive-mistake-limit must be a whole"),
]


def test_a_wrong_value_is_reported_with_the_flag_as_typed(rookery: Installed):
    for arguments, sentence in WRONG_VALUES:
        subcommand = arguments[0] in ("serve", "list")
        done = rookery.run(*arguments, *([] if subcommand else ["-p", *rookery.script("[]"), "go"]))
        assert (done.returncode, done.stdout) == (USAGE, ""), arguments
        assert done.stderr.startswith(f"Error: {sentence}"), arguments
        assert done.stderr.count("\n") == 1, arguments


def test_without_a_model_the_ways_to_set_one_are_listed(rookery: Installed):
    done = rookery.run("-p", "go")
    assert (done.returncode, done.stdout) == (AUTH, "")
    # a model server may run on the machine that runs this test
    if "No model was chosen" not in done.stderr:
        assert "No model available" in done.stderr
        assert "\n  rookery auth anthropic " in done.stderr
        assert "\n  rookery demo " in done.stderr


def _misspelled(home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "settings.toml").write_text('mdoe = "code"\n')


def _no_toml(home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "settings.toml").write_text("mode =\n")


def _open_keys(home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "keys.toml").write_text('anthropic = "secret"\n')
    (home / "config" / "keys.toml").chmod(0o644)


def _a_file_in_its_place(home: Path) -> None:
    home.write_text("")


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (_misspelled, "{home}/config/settings.toml: no such setting: `mdoe`; did you mean `mo"),
        (_no_toml, "{home}/config/settings.toml: line 1, column "),
        (_open_keys, "Other users can read {home}/config/keys.toml; run: chmod 600 "),
        (
            _a_file_in_its_place,
            "The sessions in {home}/data/tasks cannot be listed (Not a directory)",
        ),
    ],
)
def test_an_unusable_home_is_reported_in_one_sentence(
    fresh: Installed, prepare: Callable[[Path], None], sentence: str
):
    prepare(fresh.home)
    done = fresh.run("-p", "go", "--provider", "anthropic")
    code = STORAGE if prepare is _a_file_in_its_place else USAGE
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: " + sentence.format(home=fresh.home))
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_a_home_that_cannot_be_created_is_reported_in_one_sentence(rookery: Installed):
    script = rookery.script("- say: Hello.")
    done = rookery.run("-p", *script, "go", ROOKERY_HOME="/proc/nowhere")
    assert (done.returncode, done.stdout) == (STORAGE, "")
    assert done.stderr.startswith("Error: Cannot store anything in /proc/nowhere/")
    assert "Set ROOKERY_HOME to a writable folder" in done.stderr


def test_an_unreadable_file_is_reported_in_one_sentence(rookery: Installed):
    secret = rookery.workspace / "secret.txt"
    secret.touch(mode=0o000)
    prompt = rookery.run("-p", "--prompt-file", "secret.txt", *rookery.script("[]"))
    script = rookery.run(*SCRIPTED, "secret.txt")
    assert prompt.stderr.startswith("Error: Invalid value for '--prompt-file': Path 'secret.txt'")
    assert script.stderr == "Error: The script secret.txt cannot be read: Permission denied.\n"
    assert [prompt.returncode, script.returncode] == [USAGE, USAGE]


def test_an_unreadable_settings_file_is_reported_in_one_sentence(fresh: Installed):
    _misspelled(fresh.home)
    (fresh.home / "config" / "settings.toml").chmod(0o000)
    for arguments in (["settings"], ["-p", "go"]):
        done = fresh.run(*arguments)
        assert (done.returncode, done.stdout) == (USAGE, "")
        assert done.stderr.startswith(f"Error: {fresh.home}/config/settings.toml")
        assert done.stderr.count("\n") == 1


def test_a_failed_write_in_the_workspace_is_returned_to_the_model(rookery: Installed):
    script = rookery.script(
        "- calls: [{tool: write_to_file, arguments: {path: a.txt, content: hi}}]\n"
        "- calls: [{tool: attempt_completion, arguments: {result: Gave up.}}]"
    )
    rookery.workspace.chmod(0o500)
    done = rookery.run("-p", *script, "go")
    rookery.workspace.chmod(0o700)
    assert (done.returncode, done.stdout) == (0, "Gave up.\n")
    assert "  ✗ " in done.stderr


def test_control_characters_in_an_error_are_escaped(rookery: Installed):
    done = rookery.run("-p", "go", "-w", "\x1b[2J\x07")
    assert done.returncode == USAGE
    assert done.stderr == "Error: No such folder: ␛[2J␇. Give one with -w.\n"


def test_a_removed_current_folder_is_reported(rookery: Installed, tmp_path: Path):
    script = rookery.script(FINISHES)
    gone = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'

    def run_there(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-c", gone, COMMAND, *arguments],
            cwd=rookery.workspace,
            env=rookery.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = run_there("list")
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert done.stderr == "Error: The current folder was removed. Give one with -w.\n"
    elsewhere = run_there("-p", "-w", str(tmp_path), *script, "go")
    assert (elsewhere.returncode, elsewhere.stdout) == (0, "One.\n")


def test_search_accepts_any_bytes(rookery: Installed):
    done = rookery.run("list", "--search", "a\udcff")
    assert (done.returncode, done.stdout) == (0, "Nothing was found.\n")


def at(server: LlmServer, model: str = "claude-x") -> list[str]:
    return ["--provider", "anthropic", "-m", model, "--base-url", server.url]


def test_the_help_shows_options_under_headings(rookery: Installed):
    reported = rookery.run("--help-all").stdout
    lines = reported.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == [f"{heading}:" for heading in (*GROUPS, OTHERS)]
    assert lines[lines.index(f"{OTHERS}:") + 1 :][:4] == [
        "  --help-all     Show every option, command and exit code, and exit.",
        "  -V, --version  Show the version and exit.",
        "  -h, --help     Show this message and exit.",
        "",
    ]
    for puzzling in ("own kit", "grave", "End after seconds"):
        assert puzzling not in reported


def test_every_help_heading_has_existing_options():
    named = [name for names in GROUPS.values() for name in names]
    there = {each.name for each in task.params if not getattr(each, "hidden", False)}
    assert len(named) == len(set(named))
    assert there - set(named) == {"words", "version", "help_all"}


def test_a_timeout_can_be_unlimited(rookery: Installed):
    done = rookery.run("-p", "--timeout", "inf", *rookery.script(FINISHES), "go")
    assert (done.returncode, done.stdout) == (0, "One.\n")


def test_only_responses_that_request_a_wait_count_as_rate_limits(rookery: Installed):
    for code, headers, number in ((500, {}, 1), (503, {"retry-after": "0.01"}, 8), (529, {}, 8)):
        with LlmServer(status(code, headers=headers), [finish()]) as server:
            done = rookery.run("-p", "--exit-on-error", *at(server), "go")
        assert (done.returncode, len(server.requests)) == (number, 1), code
        assert "trying again" not in done.stderr, code
        assert "Continue with: rookery " in done.stderr, code


def test_an_unsupported_effort_is_reported(rookery: Installed):
    note = "note: claude-x is not known to support reasoning; --reasoning-effort high is ignored.\n"
    with LlmServer([finish()], [finish()], [finish()]) as server:
        reported = rookery.run("-p", "-r", "high", *at(server), "go")
        unasked = rookery.run("-p", "-r", "none", *at(server), "go")
        thinks = rookery.run("-p", "-r", "high", *at(server, "claude-opus-4-6"), "go")
    assert [reported.returncode, unasked.returncode, thinks.returncode] == [0, 0, 0]
    assert note in reported.stderr
    assert "not known to support" not in unasked.stderr + thinks.stderr
    assert ("output_config" in server.requests[2].body) or ("thinking" in server.requests[2].body)


def test_a_terminal_gets_errors_that_are_wrapped_between_words(rookery: Installed):
    with rookery.terminal("--system-prompt", "x", columns=50) as terminal:
        assert terminal.exit_code() == USAGE
        lines = terminal.screen.splitlines()
    assert lines[0] == "Error: rookery has no --system-prompt. To add to"
    assert max(map(len, lines)) <= 50
