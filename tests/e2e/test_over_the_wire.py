"""Whole tasks over real sockets, in the words of each provider and with each kind of fault."""

import pytest

from llm_server import (
    OVERFLOWS,
    Answer,
    LlmServer,
    call,
    finish,
    html,
    reset,
    say,
    status,
    think,
)
from support.terminal_session import Installed

LOOK = call("list_files", path=".", recursive=False)
LOOK_AGAIN = call("list_files", path=".", recursive=True)


def at(server: LlmServer, provider: str = "anthropic") -> list[str]:
    url = server.url if provider == "anthropic" else f"{server.url}/v1"
    return ["--provider", provider, "-m", "some-model", "--base-url", url]


@pytest.mark.parametrize("provider", ["anthropic", "openai", "responses", "openrouter", "ollama"])
def test_a_task_is_read_edited_run_and_completed(rookery: Installed, provider: str):
    (rookery.workspace / "a.py").write_text("print('grüße')\n", encoding="utf-8")
    with LlmServer(
        [think("Let me see."), say("I will look."), call("read_file", path="a.py")],
        [call("edit", file_path="a.py", old_string="grüße", new_string="hallo")],
        [call("execute_command", command="cat a.py", cwd=None, timeout=None)],
        [say("That was it."), finish("It greets differently.")],
    ) as server:
        done = rookery.run("-p", *at(server, provider), "greet differently")
    assert (done.returncode, done.stdout) == (0, "It greets differently.\n")
    assert (rookery.workspace / "a.py").read_text(encoding="utf-8") == "print('hallo')\n"
    assert len(server.requests) == 4
    shown = ["I will look.\n", "● Read a.py\n", "● Edit a.py (+1 −1)\n", "● Run cat a.py\n"]
    places = [done.stderr.index(line) for line in [*shown, "  print('hallo')\n", "That was it.\n"]]
    assert places == sorted(places)
    assert "400 tokens in, 80 out" in done.stderr


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param(
            [status(429, headers={"retry-after": "0.01"})],
            ["✗ anthropic is busy or overloaded (429)", "trying again at once"],
            id="429-then-success",
        ),
        pytest.param(
            [[say("Half a sen", reset())]],
            ["Half a sen\n✗ The connection to 127.0.0.1", "trying again at once"],
            id="reset-in-the-middle-then-success",
        ),
        pytest.param(
            [[LOOK], [LOOK_AGAIN], OVERFLOWS["anthropic-prompt"]],
            ["✗ The request is too long for some-model", "note: The conversation was condensed"],
            id="overflow-once-then-success",
        ),
        pytest.param([html()], ["instead of a stream of events"], id="html-once-then-success"),
    ],
)
def test_a_passing_fault_is_shown_and_survived(
    rookery: Installed, answers: list[Answer], said: list[str]
):
    with LlmServer(*answers, [finish("Made it.")]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert (done.returncode, done.stdout) == (0, "Made it.\n")
    assert len(server.requests) == len(answers) + 1
    for sentence in said:
        assert sentence in done.stderr


@pytest.mark.parametrize(
    ("answers", "said", "code"),
    [
        pytest.param([status(401)], "rejected the key from ANTHROPIC_API_KEY", 3, id="401"),
        pytest.param([status(404)], "anthropic has no model some-model", 1, id="404"),
        pytest.param([status(402)], "The account at anthropic has no credit", 4, id="402"),
        pytest.param(
            [OVERFLOWS["anthropic-prompt"]], "The request is too long", 1, id="overflow-at-once"
        ),
        pytest.param(
            [[LOOK], [LOOK_AGAIN], *[OVERFLOWS["anthropic-prompt"]] * 2],
            "The request is too long",
            1,
            id="overflow-twice",
        ),
        pytest.param([html(), html()], "instead of a stream of events", 1, id="html-page"),
    ],
)
def test_a_lasting_fault_ends_the_run_with_one_sentence_and_keeps_the_task(
    rookery: Installed, answers: list[Answer], said: str, code: int
):
    key = "sk-ant-0123456789abcdef"
    with LlmServer(*answers) as server:
        done = rookery.run("-p", *at(server), "go", ANTHROPIC_API_KEY=key)
    assert (done.returncode, done.stdout) == (code, "")
    assert len(server.requests) == len(answers)
    assert not server.exhausted
    [session] = rookery.sessions()
    *_, why, how = (line for line in done.stderr.splitlines() if "tokens in" not in line)
    assert why.startswith("✗ ")
    assert said in why
    assert how.startswith("Continue with: rookery ")
    assert how.endswith(f"--session-id {session['id']}")
    assert key not in done.stderr


def test_a_task_that_failed_goes_on_once_the_fault_is_gone(rookery: Installed):
    with LlmServer(status(402), [finish("Paid.")]) as server:
        assert rookery.run("-p", *at(server), "go").returncode == 4
        done = rookery.run("-p", "-c", *at(server))
    assert (done.returncode, done.stdout) == (0, "Paid.\n")
