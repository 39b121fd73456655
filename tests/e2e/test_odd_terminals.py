"""Hostile text, small and dumb terminals, and locales that lack our characters."""

import json
import re

from llm_server import LlmServer, call, finish, say
from support.model_words import ALLOW, DONE, shell
from support.terminal_session import Installed

OURS = re.compile(r"\x1b\[(0|1|2|31|32|33|36)m")
MARKS_OF_PASTES = re.compile(r"\x1b\[\?2004[hl]")
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\x08\x08"
NO_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def at(server: LlmServer) -> list[str]:
    return ["--provider", "openai", "-m", "some-model", "--base-url", f"{server.url}/v1"]


def test_output_of_models_and_commands_cannot_move_the_cursor(rookery: Installed):
    (rookery.workspace / "loud.txt").write_text(f"{HOSTILE}\n", encoding="utf-8")
    run = shell(f"cat loud.txt # {HOSTILE}")
    todos = call("update_todo_list", todos=f"[ ] {HOSTILE}")
    write = call("write_to_file", path="new.txt", content=f"{HOSTILE}\n")
    which = call(
        "ask_followup_question", question=f"Q{HOSTILE}?", follow_up=[{"text": f"A{HOSTILE}"}]
    )
    missing = call("read_file", path=f"no{HOSTILE}.txt")
    with (
        LlmServer([say(HOSTILE), todos, run], [missing], [write], [which], [finish(HOSTILE)]) as s,
        rookery.terminal(*at(s), f"title {HOSTILE}", NO_COLOR="") as terminal,
    ):
        terminal.wait_for(ALLOW)
        terminal.type("y")
        terminal.wait_for(ALLOW)
        terminal.type("y")
        terminal.wait_for("> ")
        terminal.type("1")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    shown = OURS.sub("", MARKS_OF_PASTES.sub("", terminal.raw))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", shown)
    assert "␛[2J␛]0;owned␇\ufffd31m<U+202E>gnp.exe␈␈" in shown
    listed = rookery.run("list")
    assert "title ␛[2J" in listed.stdout
    assert "\x1b" not in listed.stdout


def test_colours_are_used_on_a_terminal_that_has_them(rookery: Installed):
    with (
        LlmServer([finish()]) as server,
        rookery.terminal(*at(server), "go", NO_COLOR="") as terminal,
    ):
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
        assert "\x1b[32m✔\x1b[0m Done." in terminal.raw


def test_a_status_never_grows_beyond_a_narrow_terminal(rookery: Installed):
    with (
        LlmServer([call("write_to_file", path="a.txt", content="x" * 3000)], [finish()]) as server,
        rookery.terminal(*at(server), "go", columns=20) as terminal,
    ):
        terminal.wait_for(ALLOW)
        terminal.type("y")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    statuses = re.findall(r"  preparing[^\r\n]*", terminal.raw)
    assert statuses
    assert max(map(len, statuses)) < 20


def test_a_dumb_terminal_shows_text_as_it_streams(rookery: Installed):
    from llm_server import gate

    pause = gate()
    with (
        LlmServer([say("Let me ", pause, "see."), finish()]) as server,
        rookery.terminal(*at(server), "go", TERM="dumb") as terminal,
    ):
        terminal.wait_for("Let me ")
        pause.open()
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
        assert "preparing" not in terminal.screen


def test_characters_missing_from_the_locale_are_replaced_on_a_terminal(rookery: Installed):
    (rookery.workspace / "a.txt").write_text("grüße\n", encoding="utf-8")
    edit = call("edit", file_path="a.txt", old_string="grüße", new_string="süß…")
    with (
        LlmServer([say("Grüße 🐦"), edit], [finish("schön")]) as server,
        rookery.terminal(*at(server), "schön", **NO_UTF8) as terminal,
    ):
        terminal.wait_for("rookery 0.1.0 - openai some-model")
        terminal.wait_for("Gr??e ?")
        terminal.wait_for("+s??...")
        terminal.wait_for(ALLOW)
        terminal.type("nicht so schön")
        terminal.wait_for("+ sch?n\nask - " + DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "schön" in json.dumps(server.requests[0].body, ensure_ascii=False)
    assert "nicht so schön" in json.dumps(server.requests[1].body, ensure_ascii=False)


def test_characters_missing_from_the_locale_are_replaced_except_in_json(
    rookery: Installed,
):
    script = rookery.script(
        "- {say: Grüße, calls: [{tool: attempt_completion, arguments: {result: schön}}]}"
    )
    text = rookery.run("-p", *script, "grüße", **NO_UTF8)
    assert (text.returncode, text.stdout) == (0, "sch?n\n")
    result = rookery.run("-p", "--output-format", "json", *script, "grüße", **NO_UTF8)
    assert (result.returncode, json.loads(result.stdout)["content"]) == (0, "schön")
    assert "gr??e" in rookery.run("list", **NO_UTF8).stdout


def test_half_a_surrogate_pair_is_harmless(rookery: Installed):
    with LlmServer([say("half \ud83d of a pair")], [finish("half \ud83d again")]) as server:
        done = rookery.run("-p", *at(server), "go")
        as_json = rookery.run("-p", "--output-format", "stream-json", *at(server), "-c")
    assert done.returncode == 0
    assert as_json.returncode == 0
