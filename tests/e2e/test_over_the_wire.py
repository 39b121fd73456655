"""Whole tasks over real sockets, in each provider's format and with each kind of fault."""

import json
from pathlib import Path

import pytest

from llm_server import (
    OVERFLOWS,
    Answer,
    LlmServer,
    call,
    finish,
    reset,
    say,
    status,
    think,
    usage,
)
from support.model_words import LOOK, shell
from support.terminal_session import Installed
from support.token_server import TokenServer

pytestmark = pytest.mark.usefixtures("unconfined")

PATHS = {"anthropic": "", "bedrock": "", "azure": ""}
LOOK_AGAIN = call("list_files", path=".", recursive=True)


def at(server: LlmServer, provider: str = "anthropic") -> list[str]:
    url = f"{server.url}{PATHS.get(provider, '/v1')}"
    return ["--provider", provider, "-m", "some-model", "--base-url", url]


WIRES = ["anthropic", "openai", "responses", "gemini", "bedrock", "azure"]


def test_vertex_is_asked_with_a_token_that_nothing_keeps(rookery: Installed, tmp_path: Path):
    home = "/v1/projects/p-1/locations/global/publishers/google"
    key = tmp_path / "key.json"
    with TokenServer() as tokens, LlmServer([LOOK], [say("Two files.")]) as server:
        user = {"type": "authorized_user", "refresh_token": "hush", "token_uri": tokens.token_uri}
        key.write_text(json.dumps(user), encoding="utf-8")
        flags = ["--provider", "vertex", "--base-url", server.url + home]
        environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(key)}
        done = rookery.run("-p", "-d", *flags, "How many files?", **environ)
    assert (done.returncode, done.stdout) == (0, "Two files.\n"), done.stderr
    path = f"{home}/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert [request.path for request in server.requests] == [path] * 2
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer token-1"}
    assert len(tokens.requests) == 1
    files = [file for file in rookery.home.rglob("*") if file.is_file()]
    assert any(file.name == "debug.log" for file in files)
    assert not [file for file in files if b"token-1" in file.read_bytes()]


@pytest.mark.parametrize("provider", WIRES)
def test_a_task_is_read_edited_run_and_completed(rookery: Installed, provider: str):
    (rookery.workspace / "a.py").write_text("print('grüße')\n", encoding="utf-8")
    with LlmServer(
        [think("Let me see."), say("I will look."), call("read_file", path="a.py")],
        [call("edit", file_path="a.py", old_string="grüße", new_string="hallo")],
        [shell("cat a.py")],
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
    ],
)
def test_a_temporary_failure_is_shown_and_retried(
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
        pytest.param([status(402)], "The account at anthropic has no credit", 4, id="402"),
        pytest.param(
            [[LOOK], [LOOK_AGAIN], *[OVERFLOWS["anthropic-prompt"]] * 2],
            "The request is too long",
            1,
            id="overflow-twice",
        ),
    ],
)
def test_a_permanent_failure_ends_the_run_and_keeps_the_task(
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


def test_a_failed_task_can_continue_after_the_failure(rookery: Installed):
    with LlmServer(status(402), [finish("Paid.")]) as server:
        assert rookery.run("-p", *at(server), "go").returncode == 4
        done = rookery.run("-p", "-c", *at(server))
    assert (done.returncode, done.stdout) == (0, "Paid.\n")


QUESTIONS = {
    "bedrock": {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "hush-hush-0123456789",
        "AWS_REGION": "eu-central-1",
    },
    "azure": {"AZURE_OPENAI_API_KEY": "hush-hush-0123456789"},
}


@pytest.mark.parametrize("provider", QUESTIONS)
def test_a_question_is_one_request_with_the_credentials_of_the_environment(
    rookery: Installed, provider: str
):
    with LlmServer([say("The answer is 4.")]) as server:
        done = rookery.run("-p", *at(server, provider), "What is 2 + 2?", **QUESTIONS[provider])
    assert (done.returncode, done.stdout) == (0, "The answer is 4.\n")
    (request,) = server.requests
    assert "api-key" in request.headers or "/eu-central-1/bedrock/" in str(request.headers)
    assert "hush" not in done.stderr


def test_the_secret_of_amazons_credentials_is_not_sent(rookery: Installed):
    show = call("execute_command", command="printf '%s-%s' hush hush-0123456789")
    with LlmServer([show], [say("Done.")]) as server:
        rookery.run("-p", "-y", *at(server, "bedrock"), "Show it.", **QUESTIONS["bedrock"])
    result = server.requests[1].body["messages"][2]["content"][0]["toolResult"]["content"]
    assert "hush-hush" not in str(result)
    assert "[" in result[0]["text"]


def test_cached_tokens_are_shown(rookery: Installed):
    with LlmServer([say("Yes."), usage(100, 20, 60)]) as server:
        done = rookery.run("-p", *at(server, "anthropic"), "Is it?")
    assert "tokens in (60 cached)" in done.stderr


def test_a_local_model_costs_nothing(rookery: Installed):
    with LlmServer([say("Yes."), usage(100, 20)]) as server:
        done = rookery.run("-p", *at(server, "vllm"), "Is it?")
    assert "100 tokens in, 20 out, $0.00\n" in done.stderr
