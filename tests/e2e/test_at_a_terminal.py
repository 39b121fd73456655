"""The command as a person uses it, on a real terminal with a model behind a real socket."""

from llm_server import LlmServer, call, finish, gate, say, status
from support.model_words import ALLOW, DONE, last_turn, shell
from support.terminal_session import CTRL_D, Installed, at


def test_text_is_shown_as_it_streams_and_each_change_asks(rookery: Installed):
    (rookery.workspace / "a.py").write_text("x = 1\n")
    pause = gate()
    edit = call("edit", file_path="a.py", old_string="x = 1", new_string="x = 2")
    with (
        LlmServer(
            [say("Let me ", pause, "look."), call("read_file", path="a.py")],
            [edit],
            [shell("cat a.py")],
            [shell("python3 a.py")],
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
        terminal.wait_for("✔ x is 2 now.\nask · " + DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert (rookery.workspace / "a.py").read_text() == "x = 2\n"
    assert len(server.requests) == 5


def write(path: str) -> object:
    return call("write_to_file", path=path, content="hi\n")


def test_denials_answers_and_messages_reach_the_model(rookery: Installed):
    which = call(
        "ask_followup_question",
        question="Which port?",
        follow_up=[{"text": "8080"}, {"text": "9090"}],
    )
    with (
        LlmServer(
            [write("a.txt")],
            [write("a.txt")],
            [which],
            [which],
            [finish("First.")],
            [finish("Second.")],
        ) as server,
        rookery.terminal(*at(server), "write it") as terminal,
    ):
        terminal.wait_for("Create a.txt\n")
        terminal.wait_for(ALLOW)
        terminal.type("")  # not an answer
        terminal.wait_for(ALLOW)
        terminal.type("n")
        terminal.wait_for(ALLOW)
        terminal.type("use b.txt instead")
        terminal.wait_for("Which port?\n  1. 8080\n  2. 9090\nask · > ")
        assert not (rookery.workspace / "a.txt").exists()
        terminal.type("2")
        terminal.wait_for("> ")
        terminal.type("2 is too low, take 7070")
        terminal.wait_for("✔ First.\nask · " + DONE)
        terminal.type("and now the docs")
        terminal.wait_for("✔ Second.\nask · " + DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    received = [last_turn(request) for request in server.requests[1:]]
    assert "The user denied this call." in received[0]
    assert "use b.txt instead" in received[1]
    assert "9090" in received[2]
    assert "2 is too low, take 7070" in received[3]
    assert "and now the docs" in received[4]


def test_a_failed_request_can_be_retried_or_postponed(rookery: Installed):
    with (
        LlmServer(status(401), status(402)) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("✗ anthropic needs a key")
        terminal.wait_for("Try again? [y/N, or /model NAME for another model] ")
        terminal.type("y")
        terminal.wait_for("Try again? [y/N, or /model NAME for another model] ")
        terminal.type("")
        assert terminal.exit_code() == 1
        [session] = rookery.sessions()
        assert f"Continue with: rookery --session-id {session['id']}\n" in terminal.screen
        assert terminal.screen.count("has no credit") == 1
    assert len(server.requests) == 2


def test_a_line_typed_or_begun_before_the_question_never_answers_it(rookery: Installed):
    first, second = gate(), gate()
    with (
        LlmServer(
            [say("Hello ", first, "there."), shell("touch made")],
            [say("Again ", second, "there."), shell("touch made")],
            [finish()],
        ) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("Hello ")
        terminal.type("y")
        terminal.wait_for("queued for the model's next step\n")
        first.open()
        terminal.wait_for(ALLOW)
        terminal.type("n")
        terminal.wait_for("Again ")
        terminal.press(b"y")
        terminal.wait_for("y")
        second.open()
        terminal.wait_for(ALLOW)
        terminal.type("")
        terminal.wait_for("queued for the model's next step\nask · " + ALLOW)
        assert not (rookery.workspace / "made").exists()
        terminal.type("y")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert (rookery.workspace / "made").exists()
    for request in server.requests[1:]:
        assert "<user_message>\\ny\\n</user_message>" in last_turn(request)


def test_auto_approval_asks_nothing_and_takes_messages_during_a_command(
    rookery: Installed,
):
    (rookery.workspace / "pipe").touch()
    with (
        LlmServer([shell("echo started; touch made; read line < pipe")], [finish()]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for("auto-approve\n")
        terminal.wait_for("started")
        terminal.type("also look at b.py")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
        assert "Approve?" not in terminal.screen
    assert (rookery.workspace / "made").exists()
    assert "also look at b.py" in last_turn(server.requests[1])


def test_end_of_input_at_a_question_exits_and_keeps_the_task(rookery: Installed):
    with LlmServer([shell("touch made")], [finish()]) as server:
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


def test_closing_the_terminal_ends_the_run_and_keeps_the_task(rookery: Installed):
    with (
        LlmServer([shell("touch made")]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for(ALLOW)
        assert terminal.hang_up() == 129
    assert [session["status"] for session in rookery.sessions()] != ["completed"]
    assert not (rookery.workspace / "made").exists()


def test_a_session_continues_with_its_model(rookery: Installed):
    with LlmServer([finish("One")], [finish("Two")]) as server:
        first = rookery.run("-p", *at(server), "go")
        assert first.returncode == 0
        again = rookery.run("-p", "-c", "and again", ANTHROPIC_API_KEY="other")
        assert (again.returncode, again.stdout) == (0, "Two\n"), again.stderr
        other = rookery.run("-p", "-c", "once more", "-m", "bigger", ANTHROPIC_API_KEY="other")
        assert other.returncode == 1
    models = [request.body["model"] for request in server.requests]
    assert models[0] == models[1] != models[2] == "bigger"


def test_print_with_approval_asks_at_the_terminal_not_in_the_output(rookery: Installed):
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


def test_the_terminal_shows_what_the_run_waits_for(rookery: Installed):
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


def test_choices_before_the_first_message_apply_to_it(
    rookery: Installed,
):
    reported = [
        ("/mode nosuch", "No such mode: 'nosuch'."),
        ("/undo", "/undo works only in an open session."),
        ("/mode", "Use /mode with one of: code (now), ask,"),
        ("/model", "Use /model with a name, or PROVIDER NAME."),
        ("/approve", "Use /approve on or /approve off."),
        ("/model nosuch thing", "No such provider: 'nosuch'"),
        ("/model claude-other", "Starting with claude-other."),
    ]
    with LlmServer([finish()]) as server, rookery.terminal(*at(server)) as terminal:
        terminal.wait_for("What should I do?")
        for typed, answer in reported:
            terminal.type(typed)
            terminal.wait_for(answer)
        terminal.type("grüße")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    [request] = server.requests
    assert request.body["model"] == "claude-other"
    assert "grüße" in last_turn(request)
