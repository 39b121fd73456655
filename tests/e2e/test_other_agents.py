"""A repository with files of other agents, seen in the requests of a run."""

from llm_server import LlmServer, call, finish
from support.model_words import received, system
from support.terminal_session import Installed, at

FILES = {
    "CLAUDE.md": "Use tabs. @docs/style.md",
    "docs/style.md": "Short lines.",
    "src/CLAUDE.md": "Only for src.",
    "src/a.py": "x = 1\n",
    "notes.md": "Remember the milk.\n",
    ".claude/commands/fix.md": "Fix $ARGUMENTS as @notes.md says. !`touch run`",
    ".claude/agents/reviewer.md": "---\nname: reviewer\ndescription: reviews\n---\nYou review.",
}


def put(rookery: Installed, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = rookery.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_a_repository_made_for_claude_code_works(rookery: Installed):
    put(rookery, FILES)
    with LlmServer([call("read_file", path="src/a.py")], [finish()], [finish()]) as server:
        rookery.run("-p", *at(server), "/fix issue 7")
        rookery.run("-p", *at(server), "--mode", "reviewer", "go")
    first, second, reviewer = server.requests
    for words in ("Use tabs.", "Short lines.", "- reviewer: reviews"):
        assert words in system(first)
    assert "Only for src." not in str(first.body)
    assert "Only for src." in received(second)
    assert system(first) == system(second)
    assert "Fix issue 7 as @notes.md says." in received(first)
    assert "Remember the milk." in received(first)
    assert "were not run" in received(first)
    assert not (rookery.workspace / "run").exists()
    assert "You review." in system(reviewer)


def test_nothing_of_it_is_used_when_it_is_switched_off_by_the_project(rookery: Installed):
    put(rookery, {**FILES, ".rookery/settings.toml": "[context]\nother_agents = false\n"})
    with LlmServer([call("read_file", path="src/a.py")], [finish()]) as server:
        rookery.run("-p", *at(server), "go")
        refused = rookery.run("-p", *at(server), "/fix it")
    assert "No such command: /fix." in refused.stderr
    assert "Use tabs." not in system(server.requests[0])
    assert "reviewer" not in system(server.requests[0])
    assert "Only for src." not in received(server.requests[1])
