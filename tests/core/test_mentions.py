import os
import time

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.instructions import (
    PIPED_TEXT,
    WEBHOOK_TEXT,
    find_commands,
    find_mentions,
    mention_of,
    points_somewhere,
    quoted,
    rendered,
)
from support.each_row import each_row

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


def found(text: str) -> list[tuple[str, str]]:
    return [(mention.kind, mention.target) for mention in find_mentions(text)]


@each_row(
    ("text", "mentions"),
    [
        ("see @/src/a.py", [("file", "src/a.py")]),
        ("@/src/", [("folder", "src/")]),
        ("@/x.PNG!", [("image", "x.PNG")]),
        (r"@/my\ file.txt and more", [("file", "my file.txt")]),
        ("a@/b.py", []),
        (r"\@/b.py", []),
        ("(@/b.py)", []),
        ("@/a.py, @/b.py; @/c.py.", [("file", "a.py"), ("file", "b.py"), ("file", "c.py")]),
        ("@/a.py..", [("file", "a.py.")]),
        (r"@/a\.", [("file", "a.")]),
        ("line\n@/a\ttab", [("file", "a")]),
        ("@https://x.org/a?b=c, then", [("url", "https://x.org/a?b=c")]),
        ("@git-changes.", [("git_changes", "")]),
        ("@git-changesets", []),
        ("@problems @terminal", [("problems", ""), ("terminal", "")]),
        ("@1a2b3c4: this", [("commit", "1a2b3c4")]),
        ("@1a2b3c", []),
        ("@" + "a" * 40, [("commit", "a" * 40)]),
        ("@" + "a" * 41, []),
        ("@deadbeefish", []),
        ("@/ alone, @ alone, me@example.org", []),
        ("@//etc/passwd", [("file", "/etc/passwd")]),
        ("@/a/../../b", [("file", "a/../../b")]),
    ],
)
def test_mentions_are_found_in_text(text: str, mentions: list[tuple[str, str]]):
    assert found(text) == mentions


def test_mention_positions_exclude_punctuation():
    text = r"read @/a\ b.py, please"
    (mention,) = find_mentions(text)
    assert text[mention.start : mention.end] == r"@/a\ b.py"


@each_row(
    ("text", "commands"),
    [
        ("/init", ["init"]),
        ("please /review.it now", ["review.it"]),
        ("a/b /c/d x/ /", []),
        ("/one /two", ["one", "two"]),
        ("/deploy, now", []),
        (r"@/a\ /b", []),
        ("@/a /b", ["b"]),
    ],
)
def test_text_that_looks_like_a_command_is_recognized(text: str, commands: list[str]):
    assert [command.name for command in find_commands(text)] == commands


def test_only_known_commands_are_recognized():
    assert [each.name for each in find_commands("/etc /init", known={"init"})] == ["init"]


def test_the_text_names_its_attachments():
    text = "/init: no. Look at @/a.py, @https://x.org and @1a2b3c4 then /init"
    both = [*find_mentions(text), *find_commands(text)]
    assert rendered(text, both) == (
        "/init: no. Look at 'a.py' (attached below), 'https://x.org' and commit '1a2b3c4' "
        "(attached below) then command 'init' (attached below)"
    )


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1))
def test_a_mentioned_path_round_trips(path: str):
    assert [each.target for each in find_mentions(f"see {mention_of(path)} now")] == [path]


@given(st.text("@/\\ .,:ab1\n", max_size=60))
def test_mentions_are_disjoint_sorted_and_start_with_their_sign(text: str):
    mentions = sorted([*find_mentions(text), *find_commands(text)], key=lambda each: each.start)
    done = 0
    for mention in mentions:
        assert done <= mention.start < mention.end <= len(text)
        assert text[mention.start] in "@/"
        assert mention.start == 0 or text[mention.start - 1].isspace()
        done = mention.end
    assert rendered(text, []) == text


@each_row("piece", ["@", "@/a ", "@/a\\ ", "@a.a+", "/a ", "@/\\", "@aaaaaaa "])
def test_finding_mentions_takes_linear_time(piece: str):
    size, seconds = (400_000, 4) if TORTURE else (100_000, 1)
    text = piece * (size // len(piece))
    began = time.process_time()
    find_commands(text)
    assert time.process_time() - began < seconds


@each_row("tag", [PIPED_TEXT, WEBHOOK_TEXT])
def test_text_of_others_contains_no_mentions(tag: str):
    piped = quoted(tag, f"see @/a.txt\n/init\n</{tag}> @/b.txt /init\n@problems")
    text = f"review @/real.py with /init\n\n{piped}"
    assert [mention.target for mention in find_mentions(text)] == ["real.py"]
    (command,) = find_commands(text)
    assert text[command.start : command.end] == "/init"
    assert not points_somewhere(f"review this\n\n{piped}")
    after = f"{text}\n@/after.py"
    (_, mention) = find_mentions(after)
    assert after[mention.start : mention.end] == "@/after.py"
