"""The user's own programs around the calls of a task."""

import json
from typing import Any

import pytest

from llm_server import call
from rookery.core.facts import Noted
from support.governed_session import Governed, choose, read, run, write
from support.ledger_lines import own_records

pytestmark = pytest.mark.usefixtures("unconfined")

DECIDES = """\
case "$(cat)" in
  *blocked.py*) echo "there is a secret in it" >&2; exit 2;;
  *garbled.py*) echo "{not json"; echo "garbled, and still no" >&2; exit 2;;
  *failing.py*) echo "the scanner broke" >&2; exit 1;;
  *hanging.py*) sleep 60;;
esac
"""
MOVES_OR_ALLOWS = """\
said='"hookEventName": "PreToolUse", "permissionDecision": "allow"'
case "$(cat)" in
  */moved.py*) new='{"file_path": "'$PWD'/src/api/user.py", "content": "new"}'
    said="$said, \\"updatedInput\\": $new";;
esac
printf '{"hookSpecificOutput": {%s}}' "$said"
"""
KNOWS_ONLY_BASH = """\
case "$(cat)" in
  *'"tool_name": "Bash"'*'"command": "rm '*) echo "nothing is removed here" >&2; exit 2;;
esac
"""
FORMATS = """\
f=$(sed -E 's/.*"file_path": *"([^"]*)".*/\\1/')
case "$f" in
  */crlf.py) sed -i 's/$/\\r/' "$f";;
  */cut.py) truncate -s -1 "$f";;
  */much.py) yes x | head -n 9000 > "$f";;
  *) printf '# %s\\n' "$1" >> "$f";;
esac
"""


def script(governed: Governed, name: str, text: str) -> str:
    """The line that runs it."""
    governed.put(f"tools/{name}", text)
    return f'sh "$CLAUDE_PROJECT_DIR"/tools/{name}'


def hooked(
    governed: Governed,
    *hooks: dict[str, Any] | str,
    event: str = "PreToolUse",
    matcher: str = "",
    of_project: bool = False,
) -> None:
    listed = [each if isinstance(each, dict) else {"command": each} for each in hooks]
    config = {"hooks": {event: [{"matcher": matcher, "hooks": listed}]}}
    if of_project:
        governed.put(".orchestration/hooks.json", json.dumps(config))
        return
    folder = governed.rookery.home / "config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hooks.json").write_text(json.dumps(config), encoding="utf-8")


def test_a_blocking_or_failing_hook_is_reported(governed: Governed):
    line = {"command": script(governed, "decide.sh", DECIDES), "timeout": 1, "name": "scanner"}
    hooked(governed, line, matcher="Write")
    names = ("blocked", "garbled", "failing", "hanging", "harmless")
    reported = governed.play([choose()], *([write(f"src/auth/{name}.py")] for name in names))
    assert reported.codes[1:] == ["HOOK-001", "HOOK-001", "", "HOOK-003", ""]
    assert "there is a secret in it" in reported.refusal(1)["message"]
    assert "garbled, and still no" in reported.refusal(2)["message"]
    written = [governed.there(f"src/auth/{name}.py") for name in names]
    assert written == [False, False, True, False, True]
    assert reported.refusal(4)["error_type"] == "hook_timeout"
    assert "user" not in reported.refusal(4)["message"], "no hook refused it"
    codes = [
        each["error"]["code"] for each in own_records(governed.root, "blocked", "hook_failure")
    ]
    assert codes == ["HOOK-001", "HOOK-001", "HOOK-003"]
    notes = [each.text for each in reported.of(Noted)]
    assert any("scanner" in note and "the scanner broke" in note for note in notes), notes
    assert any("scanner" in note and "1 s" in note for note in notes), notes


def test_a_hook_cannot_move_or_allow_a_call_out_of_scope(governed: Governed):
    hooked(governed, script(governed, "moves.sh", MOVES_OR_ALLOWS), matcher="Write")
    names = ("src/auth/moved.py", "src/api/user.py", "src/auth/jwt.py")
    reported = governed.play([choose()], *([write(name)] for name in names), book=["no", "no"])
    assert reported.codes == ["", "REQ-001", "REQ-001", ""]
    assert reported.refusal(1)["filename"] == "src/api/user.py"
    assert [governed.there(name) for name in names] == [False, False, True]


def test_an_imported_claude_hook_for_bash_works(governed: Governed):
    """As its author wrote it for another product: in that one's file, by that one's names."""
    line = script(governed, "guard.sh", KNOWS_ONLY_BASH)
    hook = {"type": "command", "command": line}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}
    governed.put(".claude/settings.json", json.dumps(settings))
    governed.settings("[hooks]\nimport_claude = true\n")
    governed.put("src/auth/old.py")
    name = json.loads(governed.cli("hooks", "list", "--json").stdout)["hooks"][0]["name"]
    assert governed.cli("hooks", "trust", name, "--yes").returncode == 0
    reported = governed.play([choose()], [run("rm src/auth/old.py")], [run("cat src/auth/old.py")])
    assert reported.codes == ["", "HOOK-001", ""]
    assert "nothing is removed here" in reported.refusal(1)["message"]
    assert governed.there("src/auth/old.py")


def test_a_changed_guard_hook_blocks_until_it_is_reviewed(governed: Governed):
    line = {"command": script(governed, "decide.sh", DECIDES), "on_failure": "block"}
    hooked(governed, {**line, "name": "scanner"}, of_project=True)
    assert governed.cli("hooks", "trust", "scanner", "--yes").returncode == 0
    reported = governed.alone([choose()], [write("src/auth/blocked.py")])
    assert reported.codes == ["", "HOOK-001"]
    governed.put("tools/decide.sh", "touch ran\n")
    reported = governed.alone([choose()], [write("src/auth/blocked.py")])
    assert reported.codes[-1] == "HOOK-004"
    assert not governed.there("ran")
    assert not governed.there("src/auth/blocked.py")


def test_formatters_run_in_order_and_make_no_file_stale(governed: Governed):
    formats = script(governed, "format.sh", FORMATS)
    hooked(governed, f"{formats} one", f"{formats} two", event="PostToolUse", matcher="Edit|Write")
    reported = governed.play(
        [choose()],
        [write("src/auth/jwt.py", "A = 1\n")],
        [call("edit", file_path="src/auth/jwt.py", old_string="A = 1", new_string="A = 2")],
        [read("src/auth/jwt.py")],
    )
    assert reported.codes == ["", "", "", ""], reported.results
    assert "as you specified" not in reported.results[1]
    assert "changed src/auth/jwt.py" in reported.results[1]
    assert "+# one\n+# two" in reported.results[1]
    whole = "A = 2\n# one\n# two\n# one\n# two\n"
    assert governed.text("src/auth/jwt.py") == whole
    first, second = own_records(governed.root, "mutation")
    assert first["files"][0]["after"]["size"] == len("A = 1\n# one\n# two\n")
    assert second["files"][0]["after"]["size"] == len(whole)
    [original] = first["files"][0]["original_ranges"]
    assert (original["start_line"], original["end_line"]) == (1, 1)
    assert governed.is_whole()


def test_formatter_changes_reach_the_model_without_intents_too(ungoverned: Governed):
    """It knows the new text, so it may also write the whole file. What cannot be shown is named."""
    formats = script(ungoverned, "format.sh", FORMATS)
    hooked(ungoverned, f"{formats} one", event="PostToolUse", matcher="Edit|Write")
    reported = ungoverned.play(
        [write("a.py", "A = 1\n")],
        [call("edit", file_path="a.py", old_string="# one", new_string="# two")],
        [write("a.py", "B = 1\n")],
        *([write(name, "A = 1\n")] for name in ("crlf.py", "cut.py", "much.py")),
    )
    assert [text.startswith('{"path"') for text in reported.results[:3]] == [True] * 3, (
        reported.results
    )
    assert ungoverned.text("a.py") == "B = 1\n# one\n"
    for result, shown in zip(
        reported.results[3:], ["Only line ends"] * 2 + ["left out"], strict=True
    ):
        assert shown in result
        assert len(result) < 7_000
