"""The command as a person uses it, on a real terminal with a model behind a real socket."""

import json
from pathlib import Path

import pytest

from llm_server import LlmServer, Recorded, call, finish, gate, say, status
from support.terminal_session import CTRL_D, Installed, at

ALLOW = "Approve? [y/n/a, or say why not] "
DONE = "Done. [Enter accepts, or say what else to do] "


def command(line: str) -> object:
    return call("execute_command", command=line, cwd=None, timeout=None)


def last_turn(request: Recorded) -> str:
    """The newest turn of a request, as JSON text."""
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


def test_words_are_shown_while_they_come_and_each_change_is_asked_about(rookery: Installed):
    (rookery.workspace / "a.py").write_text("x = 1\n")
    pause = gate()
    edit = call("edit", file_path="a.py", old_string="x = 1", new_string="x = 2")
    with (
        LlmServer(
            [say("Let me ", pause, "look."), call("read_file", path="a.py")],
            [edit],
            [command("cat a.py")],
            [command("python3 a.py")],
            [finish("x is 2 now.")],
        ) as server,
        rookery.terminal(*at(server), "make x two") as terminal,
    ):
        terminal.wait_for("asks before it acts")
        terminal.wait_for("Let me ")
        pause.open()
        terminal.wait_for("look.")
        terminal.wait_for("● Read a.py")
        assert "Edit a.py\n" in terminal.wait_for("-x = 1\n+x = 2\n")
        terminal.wait_for(ALLOW)
        assert (rookery.workspace / "a.py").read_text() == "x = 1\n"
        terminal.type("y")
        terminal.wait_for("● Edit a.py (+1 −1)")
        assert ALLOW not in terminal.wait_for("● Run cat a.py\n  x = 2\n")
        terminal.wait_for("Run this command:\n  python3 a.py\n")
        terminal.wait_for(ALLOW)
        terminal.type("yes")
        terminal.wait_for("● Run python3 a.py\n")
        terminal.wait_for("✔ x is 2 now.\n" + DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert (rookery.workspace / "a.py").read_text() == "x = 2\n"
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("typed", "heard"),
    [("n", "The user denied this call."), ("use b.txt instead", "use b.txt instead")],
)
def test_a_refusal_changes_nothing_and_the_model_hears_why(
    rookery: Installed, typed: str, heard: str
):
    with (
        LlmServer([call("write_to_file", path="a.txt", content="hi\n")], [finish()]) as server,
        rookery.terminal(*at(server), "write it") as terminal,
    ):
        terminal.wait_for("Create a.txt\n")
        terminal.wait_for(ALLOW)
        terminal.type(typed)
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert not (rookery.workspace / "a.txt").exists()
    assert heard in last_turn(server.requests[1])


def test_an_empty_line_is_no_answer_to_an_approval(rookery: Installed):
    with (
        LlmServer([command("touch made")], [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for(ALLOW)
        terminal.type("")
        terminal.wait_for(ALLOW)
        assert not (rookery.workspace / "made").exists()
        terminal.type("n")
        terminal.wait_for(DONE)


def test_a_question_takes_the_number_of_a_suggestion_or_any_words(rookery: Installed):
    which = call(
        "ask_followup_question",
        question="Which port?",
        follow_up=[{"text": "8080"}, {"text": "9090"}],
    )
    with (
        LlmServer([which], [which], [finish()]) as server,
        rookery.terminal(*at(server), "serve") as terminal,
    ):
        terminal.wait_for("Which port?\n  1. 8080\n  2. 9090\n> ")
        terminal.type("2")
        terminal.wait_for("> ")
        terminal.type("2 is too low, take 7070")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "9090" in last_turn(server.requests[1])
    assert "2 is too low, take 7070" in last_turn(server.requests[2])


def test_more_can_be_asked_for_when_the_task_is_done(rookery: Installed):
    with (
        LlmServer([finish("First.")], [finish("Second.")]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("✔ First.\n" + DONE)
        terminal.type("and now the docs")
        terminal.wait_for("✔ Second.\n" + DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "and now the docs" in last_turn(server.requests[1])


def test_without_a_task_it_is_asked_for(rookery: Installed):
    with LlmServer([finish()]) as server, rookery.terminal(*at(server)) as terminal:
        terminal.wait_for("What should I do? ")
        terminal.type("grüße")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "grüße" in last_turn(server.requests[0])


def test_yes_to_everything_asks_nothing_but_says_so(rookery: Installed):
    with (
        LlmServer([command("touch made")], [finish()]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for("auto-approve\n")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
        assert "Approve?" not in terminal.screen
    assert (rookery.workspace / "made").exists()


def test_a_failed_request_can_be_tried_again(rookery: Installed):
    with (
        LlmServer(status(401), [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("✗ anthropic needs a key")
        terminal.wait_for("Try again? [y/N] ")
        terminal.type("y")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert len(server.requests) == 2


def test_leaving_after_a_failure_says_how_to_go_on(rookery: Installed, tmp_path: Path):
    with (
        LlmServer(status(402)) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("Try again? [y/N] ")
        terminal.type("")
        assert terminal.exit_code() == 1
        [session] = rookery.sessions()
        assert f"Continue with: rookery --session-id {session['id']}\n" in terminal.screen
        assert terminal.screen.count("has no credit") == 1


class TestTypedAhead:
    def test_a_line_typed_before_the_question_never_answers_it(self, rookery: Installed):
        pause = gate()
        with (
            LlmServer(
                [say("Hello ", pause, "there."), command("touch made")], [finish()]
            ) as server,
            rookery.terminal(*at(server), "go") as terminal,
        ):
            terminal.wait_for("Hello ")
            terminal.type("y")
            terminal.wait_for("queued for the model's next step\n")
            pause.open()
            terminal.wait_for(ALLOW)
            terminal.type("n")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        assert not (rookery.workspace / "made").exists()
        assert "<user_message>\\ny\\n</user_message>" in last_turn(server.requests[1])

    def test_a_line_begun_before_the_question_never_answers_it(self, rookery: Installed):
        pause = gate()
        with (
            LlmServer(
                [say("Hello ", pause, "there."), command("touch made")], [finish()]
            ) as server,
            rookery.terminal(*at(server), "go") as terminal,
        ):
            terminal.wait_for("Hello ")
            terminal.press(b"y")
            terminal.wait_for("y")
            pause.open()
            terminal.wait_for(ALLOW)
            terminal.type("")
            terminal.wait_for("queued for the model's next step\n" + ALLOW)
            assert not (rookery.workspace / "made").exists()
            terminal.type("y")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        assert (rookery.workspace / "made").exists()
        assert "<user_message>\\ny\\n</user_message>" in last_turn(server.requests[1])

    def test_what_is_said_while_a_command_runs_reaches_the_model(self, rookery: Installed):
        with (
            LlmServer([command("echo started; read line < pipe")], [finish()]) as server,
            rookery.terminal("-y", *at(server), "go") as terminal,
        ):
            pipe = rookery.workspace / "pipe"
            pipe.touch()
            terminal.wait_for("started")
            terminal.type("also look at b.py")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        assert "also look at b.py" in last_turn(server.requests[1])


def test_end_of_input_at_a_question_leaves_and_keeps_the_task(rookery: Installed):
    with LlmServer.by_history([[command("touch made")], [finish()]]) as server:
        with rookery.terminal(*at(server), "go") as terminal:
            terminal.wait_for(ALLOW)
            terminal.press(CTRL_D)
            terminal.wait_for("\nThe session is kept.\nContinue with: rookery ")
            assert terminal.exit_code() == 1
        assert not (rookery.workspace / "made").exists()
        with rookery.terminal("-c", *at(server)) as terminal:
            terminal.wait_for("Continue? [Y/n, or say what to do instead] ")
            terminal.type("")
            terminal.wait_for(ALLOW)
            terminal.type("y")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
    assert (rookery.workspace / "made").exists()


def test_a_terminal_that_is_closed_ends_the_run_and_keeps_the_task(rookery: Installed):
    with (
        LlmServer([command("touch made")]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for(ALLOW)
        assert terminal.hang_up() == 129
    assert [session["status"] for session in rookery.sessions()] != ["completed"]
    assert not (rookery.workspace / "made").exists()


def test_a_session_goes_on_with_the_model_it_had(rookery: Installed):
    with LlmServer([finish("One")], [finish("Two")]) as server:
        first = rookery.run("-p", *at(server), "go")
        assert first.returncode == 0
        again = rookery.run("-p", "-c", "and again", ANTHROPIC_API_KEY="other")
        assert (again.returncode, again.stdout) == (0, "Two\n"), again.stderr
        other = rookery.run("-p", "-c", "once more", "-m", "bigger", ANTHROPIC_API_KEY="other")
        assert other.returncode == 1
    models = [request.body["model"] for request in server.requests]
    assert models[0] == models[1] != models[2] == "bigger"


def test_with_p_and_a_the_terminal_is_asked_beside_the_output(rookery: Installed):
    script = """
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: hi}}]
- calls: [{tool: attempt_completion, arguments: {result: Done.}}]
"""
    with rookery.terminal("-p", "-a", *rookery.script(script), "go") as terminal:
        terminal.wait_for("Approve? ")
        terminal.type("y")
        terminal.wait_for("Done. [Enter accepts")
        terminal.type("")
        assert terminal.exit_code() == 0
    assert (rookery.workspace / "a.txt").read_text() == "hi"


def test_a_dash_appends_what_comes_through_the_pipe(rookery: Installed):
    with LlmServer([finish("Fine")]) as server:
        done = rookery.run("-p", *at(server), "review", "this", "-", input="+ a new line\n")
        assert done.returncode == 0
    (message,) = [m for m in server.requests[0].body["messages"] if m["role"] == "user"]
    heard = str(message["content"]).replace("\\n", "\n")
    assert "review this\n\n<piped_text>\n+ a new line\n</piped_text>\n" in heard


def test_a_person_sees_what_is_waited_for(rookery: Installed):
    pause = gate()
    with (
        LlmServer([pause, say("At last."), finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("waiting for ")
        terminal.wait_for("s (Ctrl-C stops)")
        pause.open()
        terminal.wait_for("At last.")
        terminal.wait_for("Done. [Enter accepts")
        terminal.type("")
        assert terminal.exit_code() == 0


def test_what_nobody_answered_is_on_record_as_answered_by_rule(rookery: Installed):
    script = "- calls: [{tool: attempt_completion, arguments: {result: Done.}}]"
    assert rookery.run("-p", *rookery.script(script), "go").returncode == 0
    (journal,) = rookery.home.rglob("journal.jsonl")
    (answered,) = [line for line in journal.read_text().splitlines() if '"kind":"answered"' in line]
    assert '"by":"policy"' in answered


def test_a_wrong_mode_or_command_before_the_first_message_is_told_and_nothing_is_lost(
    rookery: Installed,
):
    with rookery.terminal(*rookery.script("- say: Hello.")) as terminal:
        terminal.wait_for("What should I do?")
        terminal.type("/mode nosuch")
        terminal.wait_for("No such mode: 'nosuch'.")
        terminal.type("/undo")
        terminal.wait_for("/undo works only while a task is open.")
        terminal.type("go")
        terminal.wait_for("Hello.")


def test_what_can_be_chosen_before_the_first_message_is_listed(rookery: Installed):
    with rookery.terminal(*rookery.script("[]")) as terminal:
        terminal.wait_for("What should I do?")
        terminal.type("/mode")
        terminal.wait_for("Use /mode with one of: code (now), ask,")
        terminal.type("/model")
        terminal.wait_for("(now)")
        terminal.wait_for("Use /model with a name, or PROVIDER NAME.")
        terminal.type("/approve")
        terminal.wait_for("Use /approve on or /approve off.")
        terminal.press(b"\x04")


def test_a_model_chosen_before_the_first_message_is_used_for_it(rookery: Installed):
    with LlmServer([finish()]) as server:
        flags = ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]
        with rookery.terminal(*flags) as terminal:
            terminal.wait_for("What should I do?")
            terminal.type("/model nosuch thing")
            terminal.wait_for("No such provider: 'nosuch'")
            terminal.type("/model claude-other")
            terminal.wait_for("Starting with claude-other.")
            terminal.type("go")
            terminal.wait_for("accepts")
    assert [request.body["model"] for request in server.requests] == ["claude-other"]
