"""An unknown model works, with one note about the assumptions."""

from llm_server import LlmServer, say
from llm_server.parts import Status
from support.model_words import LOOK
from support.terminal_session import Installed

MODEL = "our/finetune"
NOTE = (
    "note: Unknown model our/finetune: assuming a window of 128,000 tokens, no images, unknown "
    "price. Describe it with: rookery models describe our/finetune window=128000\n"
)


def at(server: LlmServer) -> list[str]:
    return ["--provider", "groq", "-m", MODEL, "--base-url", f"{server.url}/v1", "-k", "sk-x"]


def test_an_unknown_model_is_used_with_one_note(rookery: Installed):
    with LlmServer([LOOK], [say("Three.")]) as server:
        done = rookery.run("-p", *at(server), "How many files?")
    assert (done.returncode, done.stdout) == (0, "Three.\n")
    assert done.stderr.count(NOTE) == done.stderr.count("Unknown model") == 1
    assert len(server.requests) == 2


def test_programs_get_no_note(rookery: Installed):
    with LlmServer([say("Yes.")]) as server:
        done = rookery.run("-p", "--output-format", "json", *at(server), "Is it?")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Unknown model" not in done.stdout


def test_the_suggested_command_removes_the_note(rookery: Installed):
    words = NOTE.strip().partition("rookery ")[2].split()
    assert rookery.run(*words).returncode == 0
    with LlmServer([say("Yes.")]) as server:
        done = rookery.run("-p", *at(server), "Is it?")
    assert (done.returncode, done.stdout) == (0, "Yes.\n")
    assert "Unknown model" not in done.stderr


def test_window_and_prices_of_a_list_are_used(rookery: Installed):
    listed = {
        "id": MODEL,
        "context_length": 64_000,
        "pricing": {"prompt": "0.001", "completion": "0.002"},
    }
    pages = {"/v1/models": Status(200, {"data": [listed]})}
    with LlmServer([say("Yes.")], pages=pages) as server:
        by_settings = {"ROOKERY_PROVIDER": "groq", "ROOKERY_BASE_URL": f"{server.url}/v1"}
        assert MODEL in rookery.run("models", GROQ_API_KEY="sk-x", **by_settings).stdout
        done = rookery.run("-p", *at(server), "Is it?")
    assert (done.returncode, done.stdout) == (0, "Yes.\n")
    assert "Unknown model" not in done.stderr
    # 100 tokens in and 20 out at 1,000 and 2,000 dollars per million
    assert "$0.14" in done.stderr
