"""Names that are almost those of known tools."""

import re
from collections.abc import Collection

LONGEST = 64
"""Longer names are not treated as misspellings."""

OTHER_AGENTS = {
    "read_file": "read view view_file cat open open_file get_file read_files fs_read",
    "write_to_file": "write write_file create create_file save_file fs_write new_file",
    "edit": "str_replace replace replace_in_file string_replace edit_existing_file",
    "apply_diff": "diff replace_in_file search_replace",
    "execute_command": "bash shell sh run run_command run_shell_command run_terminal_cmd terminal "
    "run_in_terminal exec exec_command execute command local_shell execute_bash cmd",
    "list_files": "ls list list_dir list_directory dir list_file",
    "search_files": "grep grep_search search ripgrep rg search_file_content text_search",
    "attempt_completion": "finish done complete final_answer submit task_complete completion",
    "ask_followup_question": "ask ask_user ask_question ask_user_question",
    "update_todo_list": "todo_write todowrite update_plan write_todos",
}
"""What other agents call a tool."""

_PREFIX = re.compile(r"^(?:functions?|default_api|tools?)[.:/]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def closest(name: str, known: Collection[str]) -> str:
    """The closest known name; empty if there is none, or more than one."""
    if name in known:
        return name
    plain = _plain(name)
    if not plain or len(name) > LONGEST:
        return ""
    same = [each for each in known if _plain(each) == plain]
    if same:
        return same[0] if len(same) == 1 else ""
    renamed = [ours for ours, theirs in OTHER_AGENTS.items() if plain in theirs.split()]
    offered = [each for each in renamed if each in known]
    if offered:
        return offered[0] if len(offered) == 1 else ""
    return _misspelled(plain, known)


def _misspelled(plain: str, known: Collection[str]) -> str:
    allowed = 2 if len(plain) >= 8 else 1 if len(plain) >= 4 else 0
    near: dict[str, int] = {}
    for each in known:
        if abs(len(each) - len(plain)) <= allowed:
            near[each] = edit_distance(plain, _plain(each))
    best = min(near.values(), default=allowed + 1)
    found = [each for each, distance in near.items() if distance == best]
    return found[0] if best <= allowed and len(found) == 1 else ""


def _plain(name: str) -> str:
    bare = _PREFIX.sub("", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", bare).lower()).strip("_")


def edit_distance(one: str, other: str) -> int:
    """How many letters to add, remove or change."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        above, row[0] = row[0], number
        for place, theirs in enumerate(other, 1):
            above, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, above + (letter != theirs)),
            )
    return row[-1]
