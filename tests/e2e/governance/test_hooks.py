"""The user's own programs around the calls of a task."""

import json
from typing import Any

import pytest

from llm_server import call
from rookery.core.facts import Noted
from support.governed_session import Governed, choose, patch, read, run, write
from support.ledger_lines import told_of

DECIDES = """\
case "$(cat)" in
  *blocked.py*) echo "there is a secret in it" >&2; exit 2;;
  *garbled.py*) echo "{not json"; echo "garbled, and still no" >&2; exit 2;;
  *failing.py*) echo "the scanner broke" >&2; exit 1;;
  *hanging.py*) sleep 60;;
esac
"""
MOVES = """\
import json, sys
d = json.load(sys.stdin)
new = dict(d["tool_input"], file_path=d["cwd"] + "/src/api/user.py")
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": new}}))
"""
ALLOWS = """\
echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'
"""
KNOWS_ONLY_BASH = """\
import json, sys
d = json.load(sys.stdin)
if d["tool_name"] == "Bash" and "rm " in d["tool_input"]["command"]:
    print("nothing is removed here", file=sys.stderr)
    sys.exit(2)
"""
KNOWS_ONE_FILE = """\
import json, sys
d = json.load(sys.stdin)
if d["tool_input"]["file_path"].endswith("/second.py"):
    print("not the second", file=sys.stderr)
    sys.exit(2)
"""
FILE_OF = 'import json,sys; print(json.load(sys.stdin)["tool_input"]["file_path"])'
FORMATS = """\
f=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["tool_input"]["file_path"])')
printf '# %s\\n' "$1" >> "$f"
"""


def script(governed: Governed, name: str, text: str) -> str:
    """The line that runs it."""
    governed.put(f"tools/{name}", text)
    return f'{"python3" if name.endswith(".py") else "sh"} "$CLAUDE_PROJECT_DIR"/tools/{name}'


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


@pytest.mark.parametrize("guards", [False, True])
def test_a_hook_blocks_or_fails(governed: Governed, guards: bool):
    line = {"command": script(governed, "decide.sh", DECIDES), "timeout": 1}
    hooked(governed, {**line, "on_failure": "block"} if guards else line, matcher="Write")
    names = ("blocked", "garbled", "failing", "hanging", "harmless")
    told = governed.alone([choose()], *([write(f"src/auth/{name}.py")] for name in names))
    failed = ["HOOK-002", "HOOK-003"] if guards else ["", "HOOK-003"]
    assert told.codes[1:] == ["HOOK-001", "HOOK-001", *failed, ""]
    assert "there is a secret in it" in told.refusal(1)["message"]
    assert "garbled, and still no" in told.refusal(2)["message"]
    written = [governed.there(f"src/auth/{name}.py") for name in names]
    assert written == [False, False, not guards, False, True]
    assert told.refusal(4)["error_type"] == "hook_timeout"
    assert "user" not in told.refusal(4)["message"], "nobody has refused it"
    codes = [each["error"]["code"] for each in told_of(governed.root, "blocked", "hook_failure")]
    assert codes == ["HOOK-001", "HOOK-001", *filter(None, failed)]


def test_what_failed_is_told_to_the_person(governed: Governed):
    line = {"command": script(governed, "decide.sh", DECIDES), "timeout": 1, "name": "scanner"}
    hooked(governed, line)
    told = governed.play([choose()], [write("src/auth/failing.py")], [write("src/auth/hanging.py")])
    notes = [each.text for each in told.of(Noted)]
    assert any("scanner" in note and "the scanner broke" in note for note in notes), notes
    assert any("scanner" in note and "1 s" in note for note in notes), notes


def test_what_a_hook_rewrites_is_judged_as_it_is_then(governed: Governed):
    hooked(governed, script(governed, "move.py", MOVES), matcher="Write")
    told = governed.alone([choose()], [write("src/auth/jwt.py")])
    assert told.code(1) == "REQ-001"
    assert told.refusal(1)["filename"] == "src/api/user.py"
    assert not governed.there("src/api/user.py")
    assert not governed.there("src/auth/jwt.py")


def test_a_hook_cannot_allow_what_is_out_of_scope(governed: Governed):
    hooked(governed, script(governed, "allow.sh", ALLOWS))
    told = governed.play(
        [choose()], [write("src/api/user.py")], [write("src/auth/jwt.py")], book=["no"]
    )
    assert told.codes == ["", "REQ-001", ""]
    assert not governed.there("src/api/user.py")


def test_a_script_that_knows_only_bash_works(governed: Governed):
    """As its author wrote it for another product: in that one's file, by that one's names."""
    line = script(governed, "guard.py", KNOWS_ONLY_BASH)
    hook = {"type": "command", "command": line}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}
    governed.put(".claude/settings.json", json.dumps(settings))
    governed.settings("[hooks]\nimport_claude = true\n")
    governed.put("src/auth/old.py")
    name = json.loads(governed.cli("hooks", "list", "--json").stdout)["hooks"][0]["name"]
    assert governed.cli("hooks", "trust", name, "--yes").returncode == 0
    told = governed.play([choose()], [run("rm src/auth/old.py")], [run("cat src/auth/old.py")])
    assert told.codes == ["", "HOOK-001", ""]
    assert "nothing is removed here" in told.refusal(1)["message"]
    assert governed.there("src/auth/old.py")


def test_one_refused_file_refuses_the_patch(governed: Governed):
    hooked(governed, script(governed, "one.py", KNOWS_ONE_FILE), matcher="Edit")
    files = [f"*** Add File: src/auth/{name}.py\n+x" for name in ("first", "second")]
    told = governed.play([choose()], [patch(*files)])
    assert told.codes == ["", "HOOK-001"]
    assert "not the second" in told.refusal(1)["message"]
    assert not governed.there("src/auth/first.py")


@pytest.mark.parametrize("guards", [False, True])
def test_a_script_that_was_changed_is_looked_at_again(governed: Governed, guards: bool):
    line = {"command": script(governed, "decide.sh", DECIDES), "name": "scanner"}
    hooked(governed, {**line, "on_failure": "block"} if guards else line, of_project=True)
    assert governed.cli("hooks", "trust", "scanner", "--yes").returncode == 0
    told = governed.alone([choose()], [write("src/auth/blocked.py")])
    assert told.codes == ["", "HOOK-001"]
    governed.put("tools/decide.sh", "touch ran\n")
    assert "modified" in governed.cli("hooks", "list").stdout
    told = governed.alone([choose()], [write("src/auth/blocked.py")])
    assert not governed.there("ran")
    assert told.codes[-1] == ("HOOK-004" if guards else "")
    assert governed.there("src/auth/blocked.py") is not guards


def test_formatters_run_in_turn_and_make_nothing_stale(governed: Governed):
    formats = script(governed, "format.sh", FORMATS)
    hooked(governed, f"{formats} one", f"{formats} two", event="PostToolUse", matcher="Edit|Write")
    told = governed.play(
        [choose()],
        [write("src/auth/jwt.py", "A = 1\n")],
        [call("edit", file_path="src/auth/jwt.py", old_string="A = 1", new_string="A = 2")],
        [read("src/auth/jwt.py")],
    )
    assert told.codes == ["", "", "", ""], told.results
    assert "as you specified" not in told.results[1]
    assert "changed src/auth/jwt.py" in told.results[1]
    assert "+# one\n+# two" in told.results[1]
    whole = "A = 2\n# one\n# two\n# one\n# two\n"
    assert governed.text("src/auth/jwt.py") == whole
    first, second = told_of(governed.root, "mutation")
    assert first["files"][0]["after"]["size"] == len("A = 1\n# one\n# two\n")
    assert second["files"][0]["after"]["size"] == len(whole)
    [original] = first["files"][0]["original_ranges"]
    assert (original["start_line"], original["end_line"]) == (1, 1)
    assert governed.is_whole()


def test_without_intents_too_what_a_formatter_made_of_a_file_can_be_edited(ungoverned: Governed):
    """The model knows the new text, so it may also write the whole file."""
    formats = script(ungoverned, "format.sh", FORMATS)
    hooked(ungoverned, f"{formats} one", event="PostToolUse", matcher="Edit|Write")
    told = ungoverned.play(
        [write("a.py", "A = 1\n")],
        [call("edit", file_path="a.py", old_string="# one", new_string="# two")],
        [write("a.py", "B = 1\n")],
    )
    assert [text.startswith('{"path"') for text in told.results] == [True] * 3, told.results
    assert ungoverned.text("a.py") == "B = 1\n# one\n"


@pytest.mark.parametrize(
    ("makes", "shown"),
    [
        ("sed -i 's/$/\\r/'", "Only line ends"),
        ("truncate -s -1", "Only line ends"),
        ('python3 -c \'import sys; open(sys.argv[1], "w").write("x\\n" * 9000)\'', "left out"),
    ],
)
def test_the_model_is_told_what_changed_as_far_as_that_can_be_shown(
    ungoverned: Governed, makes: str, shown: str
):
    line = f"f=$(python3 -c '{FILE_OF}'); {makes} \"$f\""
    hooked(ungoverned, line, event="PostToolUse", matcher="Write")
    told = ungoverned.play([write("a.py", "A = 1\n")])
    assert shown in told.results[0]
    assert len(told.results[0]) < 7_000
