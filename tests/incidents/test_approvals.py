"""Exactly the shown command runs, only after the answer, and no other answer counts."""

import os

from llm_server import LlmServer, call, finish
from support.canaries import Visit, World, run, tree

ALLOW = "Approve? ["


def test_questions_show_the_whole_action_before_anything_happens(
    world: World,
):
    """A padded command, the same again, a reordered one, and an edit of a link to a file that
    an editor runs."""
    mark = world.marks / "padded"
    padded = f"ls{' ' * 300}; touch {mark}"
    world.put(".vscode/settings.json", "{}\n")
    os.symlink(".vscode/settings.json", world.workspace / "notes.json")
    before = tree(world.workspace)
    edit = call("edit", file_path="notes.json", old_string="{}", new_string='{"evil": 1}')
    with (
        LlmServer(
            [run(padded)],
            [run(padded)],
            [run("rm \u202etxt.\u2066exe\u2069\u200b")],
            [run(f"ls\n\n\n\n\n\ntouch {mark}")],
            [edit],
            [finish()],
        ) as server,
        world.terminal(
            *("--provider", "anthropic", "-m", "m", "--base-url", server.url, "go"), columns=200
        ) as terminal,
    ):
        first = terminal.wait_for(ALLOW)
        assert f"ls␣×300; touch {mark}" in first
        terminal.type("n")
        again = terminal.wait_for(ALLOW)
        assert "You refused exactly this before." in again
        terminal.type("n")
        reordered = terminal.wait_for(ALLOW)
        assert "rm <U+202E>txt.<U+2066>exe<U+2069><U+200B>" in reordered
        terminal.type("n")
        assert f"touch {mark}" in terminal.wait_for(ALLOW), "later lines are shown too"
        terminal.type("n")
        linked = terminal.wait_for(ALLOW)
        assert ".vscode/settings.json" in linked
        assert "protected" in linked
        assert "symbolic link" in linked
        assert tree(world.workspace) == before
        terminal.type("n")
        terminal.wait_for("Done. [")
        terminal.type("")
        assert terminal.exit_code() == 0
    assert tree(world.workspace) == before
    assert list(world.effects()) == []


def test_always_allow_shows_the_whole_rule_and_stores_exactly_that(world: World):
    command = f"python3 -c 'pass  # {'x' * 150} end'"
    with (
        LlmServer([run(command)], [run(command + " ")], [finish()]) as server,
        world.terminal(
            *("--provider", "anthropic", "-m", "m", "--base-url", server.url, "go"), columns=400
        ) as terminal,
    ):
        terminal.wait_for(ALLOW)
        terminal.type("a")
        assert command in terminal.wait_for("? [y/n] ")
        terminal.type("y")
        terminal.wait_for(ALLOW)  # the same with a blank is another command
        terminal.type("n")
        terminal.wait_for("Done. [")
        terminal.type("")
        assert terminal.exit_code() == 0


def test_an_approval_does_not_cover_files_changed_meanwhile(world: World):
    """A folder on the way becomes a link to the repository while the question is open, and a file
    that the pattern matches as well is made."""
    root = world.workspace
    for place in ("src/build/a.o", ".git/build/precious", "b.o"):
        world.put(place, "x\n")
    with (
        LlmServer([run("rm -rf src/build")], [run("rm -f *.o")], [finish()]) as server,
        world.terminal(
            *("--provider", "anthropic", "-m", "m", "--base-url", server.url, "go"), columns=200
        ) as terminal,
    ):
        assert "deletes 1 file below src/build/" in terminal.wait_for(ALLOW)
        (root / "src").rename(root / "moved")
        (root / "src").symlink_to(".git")
        terminal.type("y")
        assert "deletes b.o" in terminal.wait_for(ALLOW)
        world.put("c.o", "made meanwhile\n")
        terminal.type("y")
        terminal.wait_for("Done. [")
        terminal.type("")
        assert terminal.exit_code() == 0
    results = Visit(0, "", "", server.requests).results
    assert [said.count("It was not run; call it again.") for said in results[:2]] == [1, 1]
    for place in (".git/build/precious", "moved/build/a.o", "b.o", "c.o"):
        assert (root / place).exists()
