"""`rookery intents`: create, edit, show, and change status."""

import json
import os
from datetime import UTC, datetime

import pytest

from rookery.cli import main
from rookery.governance.intents.intent import Intent, IntentFile
from rookery.governance.intents.leases import Leases
from rookery.governance.layout import Layout
from rookery.platform.locks import file_lock
from support.each_row import each_row
from support.governed_folder import FILE, IntentsBench
from support.terminal_session import COMMAND, TerminalSession


def test_init_creates_the_needed_files_once(intents: IntentsBench) -> None:
    assert intents("init") == (
        "created .orchestration/ (active_intents.yaml, .gitignore)\n"
        "ledger: not under version control (change with: rookery config set trace.vcs track)\n"
    )
    assert intents("init").startswith(".orchestration/ is already complete\n")
    assert sorted(each.name for each in intents.folder.iterdir()) == [
        ".gitignore",
        "active_intents.yaml",
    ]
    assert intents("list") == "0 intents. No problems.\n"


def set_to(intents: IntentsBench, vcs: str) -> None:
    settings = intents.home / "config" / "settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[trace]\nvcs = "{vcs}"\n', encoding="utf-8")


def test_init_brings_gits_files_in_line_with_the_setting_and_keeps_other_lines(
    intents: IntentsBench,
) -> None:
    intents("init")
    ignored = intents.folder / ".gitignore"
    ignored.write_text(f"{ignored.read_text()}mine.txt\n", encoding="utf-8")
    set_to(intents, "track")
    assert "updated for trace.vcs = track: .gitignore" in intents("init")
    assert ignored.read_text() == ".state/\nmine.txt\n"
    attributes = intents.folder / ".gitattributes"
    assert attributes.read_text() == "agent_trace.jsonl merge=union\n"
    assert "updated for" not in intents("init")
    set_to(intents, "ignore")
    assert intents.json("init")["changed"] == [".gitignore", ".gitattributes"]
    assert ignored.read_text() == ".state/\nmine.txt\nagent_trace.jsonl\ntrace/\n"
    assert attributes.read_text() == ""


def test_init_does_not_write_through_a_link(intents: IntentsBench) -> None:
    intents("init")
    elsewhere = intents.write("elsewhere", "x\n")
    (intents.folder / ".gitattributes").symlink_to(elsewhere)
    set_to(intents, "track")
    intents("init", code=1)
    assert elsewhere.read_text() == "x\n"


def test_common_options_may_precede_or_follow_the_command(
    governed: IntentsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["-q", "list"], ["list", "-q"], ["-q"]):
        assert governed(*words) == "", words
    monkeypatch.chdir(governed.root.parent)
    here = ("--root", str(governed.root))
    assert json.loads(governed(*here, "--json", "show", "INT-001"))["id"] == "INT-001"
    assert json.loads(governed(*here, "--json"))["intents"]
    governed("--root", "..", "list", *here)
    governed("list", code=6)


def test_list_counts_what_validate_counts_and_names_it(governed: IntentsBench) -> None:
    governed("expand", "INT-001", "src/nowhere/**")
    reported = governed("validate").splitlines()[-1]
    assert reported == "0 errors, 1 warning"
    last = governed("list").splitlines()[-1]
    assert last.endswith(f". {reported}. See: rookery intents validate")
    problems = governed.json("list")["problems"]
    assert [each["code"] for each in problems] == ["W305"]


COMMANDS = [
    ["list"],
    ["show", "INT-001"],
    ["new", "--name", "x"],
    ["start", "INT-001"],
    ["close", "INT-001"],
    ["validate"],
    ["check", "--intent", "INT-001", "a"],
    ["coverage"],
    ["map"],
    [],
]


def test_without_intents_it_exits_6_and_makes_nothing(intents: IntentsBench) -> None:
    for words in COMMANDS:
        intents(*words, code=6)
        assert "rookery intents init" in intents.err, words
    assert not intents.folder.exists()


def test_list_shows_intents_in_progress_first(governed: IntentsBench) -> None:
    governed.changed("src/auth/jwt.py")
    lines = governed("list", "--no-color").splitlines()
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    assert lines[0].split() == ["ID", "STATUS", "REV", "SCOPE", "FILES", "LAST", "CHANGE", "NAME"]
    assert lines[1].startswith("INT-001  IN_PROGRESS    3  src/auth/** +1          1  " + when)
    assert lines[1].endswith("  JWT authentication migration")
    assert lines[2].startswith("INT-002  PENDING        1  src/api/user/** +1      0  -")
    assert lines[3].startswith("INT-003  COMPLETED      2  src/database/**         0  -")
    assert lines[4] == "3 intents: 1 in progress, 1 pending, 1 completed. No problems."
    assert governed() == governed("list")
    reported = governed.json("list")
    assert list(reported) == ["intents", "problems"]
    keys = "id name status revision scope tags files last_change selectable"
    assert list(reported["intents"][0]) == keys.split()


FILTERS = {
    "--status pending": ["INT-002"],
    "--status PENDING --status completed": ["INT-002", "INT-003"],
    "--tag security": ["INT-001"],
    "--touching src/auth/jwt.py": ["INT-001"],
    "--touching src/auth/legacy/x.py": [],
    "--touching src/auth/../api/user.py": ["INT-002"],
    "--touching ../x": [],
}


def test_list_filters(governed: IntentsBench) -> None:
    found = {
        words: [each["id"] for each in governed.json("list", *words.split())["intents"]]
        for words in FILTERS
    }
    assert found == FILTERS


def test_a_folder_below_is_governed_too_and_root_names_another(governed: IntentsBench) -> None:
    governed.git("init", "-q")
    below = governed.root / "src" / "auth"
    assert len(governed.json("list", "--root", str(below))["intents"]) == 3
    elsewhere = governed.root.parent / "elsewhere"
    elsewhere.mkdir()
    governed("list", "--root", str(elsewhere), code=6)


def test_new_takes_the_next_id_and_shows_what_its_scope_matches(
    governed: IntentsBench,
) -> None:
    out = governed(
        *("new", "--name", "Rate limiting", "--scope", "src/auth/**"),
        *("--criterion", "pytest -q tests/limits", "--criterion", "It feels quick."),
    )
    assert out == (
        "INT-004 created, status PENDING\n"
        "  scope      src/auth/**             (matches 1 file)\n"
        "  criterion  pytest -q tests/limits  (machine-checked)\n"
        "  criterion  It feels quick.         (for a person)\n"
        "start it with: rookery intents start INT-004\n"
    )
    assert governed.text.startswith(FILE.rstrip("\n")), "existing text stays unchanged"
    [record] = governed.records("intent_change")
    assert (record.intent_id, record.approval, record.contributor) == ("INT-004", "new", "")
    assert record.raw["metadata"]["orchestration"]["change"]["to"] == "PENDING"


@each_row(
    ("ids", "expected"),
    [
        ([], "INT-001"),
        (["INT-009"], "INT-010"),
        (["AUTH-7", "AUTH-12", "INT-050"], "AUTH-13"),
        (["REQ-WEATHER-API-001"], "REQ-WEATHER-API-002"),
        (["intent_1"], "INT-001"),
    ],
)
def test_ids_are_the_next_number_of_the_most_used_prefix(ids: list[str], expected: str) -> None:
    from rookery.governance.cli.intents_new import next_id

    assert next_id(IntentFile(intents=tuple(Intent(id=each) for each in ids))) == expected


SENSELESS = {
    "nothing": [],
    "no name": ["--name", ""],
    "taken": ["--name", "x", "--id", "int-001"],
    "bad id": ["--name", "x", "--id", "not an id"],
    "bad scope": ["--name", "x", "--scope", "../up/**"],
}


def test_new_refuses_what_makes_no_sense(governed: IntentsBench) -> None:
    for words in SENSELESS.values():
        governed("new", *words, code=2)
    assert not (governed.folder / "agent_trace.jsonl").exists()
    governed("new", "--name", "x", "--depends-on", "INT-999", code=1)
    assert governed.text == FILE


def test_show_is_everything_on_one_screen(governed: IntentsBench) -> None:
    governed.changed("src/auth/jwt.py")
    governed.changed("src/api/x.py", scope="approved_once")
    governed.changed("src/api/y.py", kind="blocked", outcome="denied")
    layout = Layout(governed.root, governed.root)
    Leases(layout).take("t-8f21", "INT-001", ["src/auth/**"], now=datetime.now(UTC))
    lines = governed("show", "int-001").splitlines()
    assert lines[0].startswith("INT-001  JWT authentication migration ")
    assert lines[0].endswith(" IN_PROGRESS, revision 3")
    assert lines[1:-1] == [
        "scope        src/auth/**   not src/auth/legacy/**",
        "constraints  1 No external identity providers.",
        "criteria     A1 [not run] test -d src/auth",
        "             A2 [manual] When a token is expired, the API shall answer 401.",
        "depends on   INT-003",
        "coverage     unverified (0 of 2 criteria checked)",
        "changes      2 files, 3 calls, 1 refused, 1 approved outside scope",
        "running      task t-8f21",
    ]
    assert lines[-1].startswith("digest       ")
    assert len(lines[-1].split()[1]) == 12


def test_an_unknown_id_exits_4_and_lists_the_known_ones(governed: IntentsBench) -> None:
    governed("show", "INT-999", code=4)
    assert "Known: INT-001, INT-002, INT-003." in governed.err
    for words in (["start"], ["pause"], ["close"], ["reopen"], ["expand"]):
        governed(*words, "INT-999", *(["a"] if words == ["expand"] else []), code=4)


MOVES = [
    ("start", "INT-002", "PENDING", "IN_PROGRESS"),
    ("pause", "INT-001", "IN_PROGRESS", "PAUSED"),
    ("reopen", "INT-003", "COMPLETED", "IN_PROGRESS"),
]


@pytest.mark.parametrize(("command", "intent", "before", "after"), MOVES)
def test_a_move_is_written_and_recorded(
    governed: IntentsBench, command: str, intent: str, before: str, after: str
) -> None:
    out = governed(command, intent, "--reason", "because")
    assert out.startswith(f"{intent} {after}")
    reported = governed.json("show", intent)
    assert reported["status"] == after
    assert 'reason: "because" }' in governed.text
    assert governed.text.startswith("# why we do things\n")
    [record] = governed.records("intent_change")
    own = record.raw["metadata"]["orchestration"]
    assert own["change"] | {"digest_before": ""} == {
        "command": command,
        "from": before,
        "to": after,
        "digest_before": "",
    }
    assert own["intent_digest"] == reported["digest"]
    assert own["approval"]["reason"] == "because"
    assert record.intent_rev == (3 if command != "start" else 1)


def test_reopening_raises_the_revision_of_what_was_completed_only(governed: IntentsBench) -> None:
    assert governed("reopen", "INT-003") == "INT-003 IN_PROGRESS (revision 3).\n"
    assert governed("close", "INT-002", "--abandon") == "INT-002 ABANDONED.\n"
    assert governed("reopen", "INT-002") == "INT-002 PENDING.\n"


REFUSED = {
    ("start", "INT-001"): "INT-001 is already IN_PROGRESS; nothing was changed.",
    ("pause", "INT-002"): "INT-002 is PENDING; run first: rookery intents start INT-002",
    ("close", "INT-002"): "INT-002 is PENDING; run first: rookery intents start INT-002",
    ("start", "INT-003"): "INT-003 is COMPLETED; run: rookery intents reopen INT-003",
    ("reopen", "INT-001"): "INT-001 is already IN_PROGRESS; nothing was changed.",
}


def test_other_moves_are_refused_with_the_way_out(governed: IntentsBench) -> None:
    for words, said in REFUSED.items():
        governed(*words, code=1)
        assert governed.err == f"Error: {said}\n", words
    assert governed.text == FILE


def test_starting_needs_a_scope(governed: IntentsBench) -> None:
    governed("new", "--name", "Empty")
    governed("start", "INT-004", code=1)
    assert "rookery intents expand INT-004" in governed.err


def test_unmet_dependencies_are_noted_or_refused_as_the_policy_says(
    intents: IntentsBench,
) -> None:
    needy = FILE.replace("depends_on: [INT-003]", "depends_on: [INT-002]")
    needy = needy.replace("status: IN_PROGRESS", "status: PAUSED")
    intents.govern(needy)
    assert "not completed yet: INT-002" in intents("start", "INT-001")
    intents.file.write_text(
        needy.replace("schema_version: 1\n", "schema_version: 1\npolicy: {dependencies: block}\n"),
        encoding="utf-8",
    )
    intents("start", "INT-001", code=1)
    assert "dependencies: block" in intents.err


def test_running_tasks_are_counted(governed: IntentsBench) -> None:
    layout = Layout(governed.root, governed.root)
    Leases(layout).take("t-1", "INT-001", ["src/auth/**"], now=datetime.now(UTC))
    assert governed("pause", "INT-001") == "INT-001 PAUSED. 1 running task will be notified.\n"


def test_expand_adds_the_pattern_and_nothing_else(governed: IntentsBench) -> None:
    out = governed("expand", "INT-001", "src/api/user.py", "--reason", "token parsing moved")
    first, second = out.splitlines()
    assert first.startswith('added "src/api/user.py" to INT-001 (revision 3, digest ')
    assert second == "running tasks must select the intent again"
    added = '      - "src/api/user.py"\n'
    assert governed.text.replace(added, "", 1) == FILE
    [record] = governed.records("intent_change")
    own = record.raw["metadata"]["orchestration"]
    assert own["change"]["scope_added"] == ["src/api/user.py"]
    assert own["approval"] == {
        "by": own["approval"]["by"],
        "answer": "expand",
        "reason": "token parsing moved",
    }
    assert "already" in governed("expand", "INT-001", "src/api/user.py")
    assert len(governed.records("intent_change")) == 1


def test_expand_refuses_bad_patterns(governed: IntentsBench) -> None:
    for pattern in ("../up", "", "~/x", "C:/x", "a/**b"):
        governed("expand", "INT-001", pattern, code=2)
    assert governed.text == FILE


def test_a_lock_that_is_held_exits_5(
    governed: IntentsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rookery.governance.intents.intent_edits.file_lock",
        lambda path: file_lock(path, wait=0.05),
    )
    layout = Layout(governed.root, governed.root)
    with file_lock(layout.own_folder(layout.locks) / "intents"):
        governed("pause", "INT-001", code=5)
    assert governed.text == FILE


def test_a_change_that_cannot_be_recorded_is_not_made(governed: IntentsBench) -> None:
    (governed.folder / "agent_trace.jsonl").mkdir()
    governed("pause", "INT-001", code=9)
    assert governed.text == FILE


def test_a_file_with_a_syntax_error_stops_all_but_validate(governed: IntentsBench) -> None:
    governed.file.write_text("active_intents: [\n", encoding="utf-8")
    governed("list", code=1)
    assert "rookery intents validate" in governed.err
    assert "E103" in governed("validate", code=1)


def test_an_intent_with_an_error_cannot_be_started_but_others_can(intents: IntentsBench) -> None:
    intents.govern(FILE.replace('"src/api/user/**"', '"../up"'))
    intents("start", "INT-002", code=1)
    assert "has errors" in intents.err
    intents("pause", "INT-001")


def test_the_author_is_gits_user(governed: IntentsBench) -> None:
    governed.git("init", "-q")
    governed.git("config", "user.name", "Ada Lovelace")
    governed("pause", "INT-001")
    [record] = governed.records("intent_change")
    assert record.approved_by == "Ada Lovelace"
    assert 'by: "Ada Lovelace"' in governed.text


def test_text_from_files_cannot_control_the_terminal(intents: IntentsBench) -> None:
    intents.govern(FILE.replace("User profile API", '"\\e[31mred\\u202eevil"'))
    for words in (["list"], ["validate"]):
        ended = main.run(["intents", *words])
        assert ended in (0, 1)
    assert "\x1b" not in intents("list", code=ended)


@pytest.fixture
def terminal(governed: IntentsBench) -> "Typing":
    return Typing(governed)


class Typing:
    """The command at a terminal."""

    def __init__(self, bench: IntentsBench) -> None:
        self.bench = bench

    def session(self, *words: str) -> TerminalSession:
        environ = {**os.environ, "NO_COLOR": "1", "TERM": "xterm-256color"}
        return TerminalSession([COMMAND, "intents", *words], cwd=self.bench.root, environ=environ)


def test_new_asks_field_by_field(terminal: Typing) -> None:
    with terminal.session("new") as session:
        for question, answer in (
            ("name: ", ""),
            ("A name must be one line of 1 to 200 characters.\nname: ", "Rate limiting"),
            ("description (may be empty): ", ""),
            ("(empty to continue): ", "../limits/**"),
            ("../limits/**: ", "src/limits/**"),
            ("(empty to continue): ", ""),
            ("constraint, what must not be broken (empty to continue): ", "Stay small."),
            ("(empty to continue): ", ""),
            ("commands are run (empty to continue): ", "pytest -q"),
            ("(empty to continue): ", ""),
        ):
            session.wait_for(question)
            session.type(answer)
        session.wait_for("INT-004 created, status PENDING")
        assert session.exit_code() == 0
    reported = terminal.bench.json("show", "INT-004")
    assert reported["scope"] == ["src/limits/**"]
    assert reported["constraints"] == ["Stay small."]
    assert reported["criteria"][0]["command"] == "pytest -q"


def test_new_gives_back_what_was_typed_if_it_cannot_be_written(terminal: Typing) -> None:
    with terminal.session("new", "--depends-on", "INT-999") as session:
        for question, answer in (
            ("name: ", "Rate limiting"),
            ("description (may be empty): ", "More."),
            ("(empty to continue): ", "src/limits/**"),
            ("(empty to continue): ", ""),
            ("(empty to continue): ", ""),
            ("(empty to continue): ", "pytest -q"),
            ("(empty to continue): ", ""),
        ):
            session.wait_for(question)
            session.type(answer)
        session.wait_for("The same as a command:")
        session.wait_for(
            "rookery intents new --name 'Rate limiting' --description More. --depends-on INT-999 "
            "--scope 'src/limits/**' --check 'pytest -q'"
        )
        assert session.exit_code() == 1
    assert terminal.bench.text == FILE


def test_close_asks_a_person_about_what_no_command_can_check(terminal: Typing) -> None:
    terminal.bench.trust()
    for answer, ending, status in (("n", 1, "IN_PROGRESS"), ("y", 0, "COMPLETED")):
        with terminal.session("close", "INT-001") as session:
            session.wait_for("running 1 check")
            session.wait_for("[1/1] test -d src/auth ")
            session.wait_for(" ok (")
            session.wait_for("criterion A2 needs a human")
            session.type(answer)
            assert session.exit_code() == ending
        assert terminal.bench.json("show", "INT-001")["status"] == status


def test_close_in_an_untrusted_folder_shows_the_commands_and_asks(terminal: Typing) -> None:
    with terminal.session("close", "INT-001") as session:
        session.wait_for("not trusted")
        session.wait_for("test -d src/auth")
        session.wait_for("run it? [y/N] ")
        session.type("n")
        assert session.exit_code() == 1
    assert terminal.bench.text == FILE
