"""The first minute: no key, no local server, an unknown folder."""

import stat

from llm_server import LlmServer, finish, status
from support.terminal_session import CTRL_D, Installed

WHICH = "Which? [number, name of another provider, or Ctrl-D to leave] "
KEY = "sk-ant-0123456789abcdef"
OTHER_KEY = "sk-ant-abcdefghijklmnopqrstuvwxyz"
MISTAKES = {
    "": "Type a number or a name.",
    "99": "Give a number from 1 to ",
    "nobody": "No such provider: 'nobody'. Available: ",
    OTHER_KEY: "This looks like a key. Name its provider first",
}


def test_a_key_is_asked_for_before_trust_and_used_at_once(fresh: Installed):
    with LlmServer([finish("Done.")]) as server:
        with fresh.terminal("go", ANTHROPIC_BASE_URL=server.url) as terminal:
            before = terminal.wait_for(WHICH)
            assert "sign in with your browser" in before
            assert "Do you trust" not in before
            for typed, answer in MISTAKES.items():
                terminal.type(typed)
                assert "brave" not in terminal.wait_for(answer)
                terminal.wait_for(WHICH)
            terminal.type("Claude")
            terminal.wait_for("Key for anthropic (not shown): ")
            terminal.wait_until_it_listens()
            terminal.type("")
            terminal.wait_for("No key was given")
            terminal.wait_for(WHICH)
            terminal.type("anthropic")
            terminal.wait_for("Key for anthropic (not shown): ")
            terminal.wait_until_it_listens()
            terminal.type(KEY)
            shown = terminal.wait_for("Do you trust this folder? ")
            assert "Answer y, n or a (always)" in shown
            terminal.type("y")
            terminal.wait_for("Done. [Enter")
            assert KEY not in terminal.screen
            assert terminal.screen.count(OTHER_KEY) == 1  # as it was typed
        assert server.requests[0].headers["x-api-key"] == KEY
    keys = fresh.home / "config" / "keys.toml"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600


def test_a_new_key_is_used_after_a_rejected_one(fresh: Installed):
    fresh.run("auth", "anthropic", input=KEY)
    with LlmServer(status(401), [finish("Done.")]) as server:
        with fresh.terminal("go", "--trust", ANTHROPIC_BASE_URL=server.url) as terminal:
            terminal.wait_for("rejected the key")
            terminal.wait_for("Try again? ")
            fresh.run("auth", "anthropic", input=OTHER_KEY)
            terminal.type("y")
            terminal.wait_for("Done. [Enter")
        used = [request.headers["x-api-key"] for request in server.requests]
    assert used == [KEY, OTHER_KEY]


def test_leaving_the_first_question_stores_nothing_and_explains(fresh: Installed):
    with fresh.terminal("go") as terminal:
        terminal.wait_for(WHICH)
        terminal.press(CTRL_D)
        terminal.wait_for("No model available: ")
        terminal.wait_for("rookery demo")
        assert terminal.exit_code() == 3
    assert not fresh.home.exists()


def test_a_missing_key_of_a_chosen_provider_is_asked_for(fresh: Installed):
    with fresh.terminal("go", "--provider", "mistral") as terminal:
        terminal.wait_for("No key for mistral.")
        terminal.wait_for("Key for mistral (not shown): ")
        terminal.wait_until_it_listens()
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 3


def test_the_only_model_of_a_local_server_is_used(rookery: Installed):
    with LlmServer([finish("Done.")]) as server:
        flags = ("--provider", "ollama", "--base-url", f"{server.url}/v1")
        done = rookery.run("-p", "go on", *flags)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


def test_auth_without_a_name_offers_the_providers(rookery: Installed):
    with rookery.terminal("auth") as terminal:
        terminal.wait_for("  2  anthropic")
        terminal.wait_for("Others by name: ")
        terminal.wait_for("Which provider? ")
        terminal.type("nobody")
        terminal.wait_for("No such provider: 'nobody'.")
        terminal.wait_for("Which provider? ")
        terminal.type("2")
        terminal.wait_for("Key for anthropic (not shown): ")
        terminal.wait_until_it_listens()
        terminal.type(KEY)
        terminal.wait_for("The key for anthropic is stored in")
        assert terminal.exit_code() == 0
