import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.commands.judge import CommandJudge
from rookery.core.facts import Ending
from rookery.core.instructions import find_mentions
from rookery.core.limits import KIB, Limits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.errors import Denied, ToolError
from rookery.prompting.mention_contents import (
    MOST_FILES,
    PER_FILE,
    ROOM,
    MentionAttachments,
    note,
    plain_text,
)
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (8).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0" + bytes(4)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path, Limits())
    hiding = made.context.files.boundaries.hiding
    judge = CommandJudge(made.context.files, made.root, home=tmp_path / "home", hiding=hiding)
    made.context = replace(made.context, judge=judge, sees_images=True)
    return made


def put(bench: Bench, path: str, content: str | bytes) -> None:
    file = bench.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())


def permit_for(action: Action) -> Permit:
    return Permit(action.digest, reads=frozenset(action.reads), command=action.command)


def action(bench: Bench, text: str, attachments: MentionAttachments | None = None) -> Action:
    (mention,) = find_mentions(text)
    made = (attachments or MentionAttachments(bench.root, bench.context)).action_for(mention)
    assert made is not None
    return made


async def attached(
    bench: Bench, text: str, attachments: MentionAttachments | None = None
) -> Outcome:
    made = action(bench, text, attachments)
    return await made.perform(permit_for(made))


async def test_a_file_is_attached_with_line_numbers_and_counts_as_seen(bench: Bench):
    put(bench, "src/a b.py", "one\ntwo\n")
    outcome = await attached(bench, r"@/src/a\ b.py")
    assert outcome.text == ('<file_content path="src/a b.py">\n1 | one\n2 | two\n</file_content>')
    (seen,) = outcome.seen
    assert (seen.path, seen.whole) == ("src/a b.py", True)


async def test_nothing_is_read_without_a_permit(bench: Bench):
    put(bench, "a", "text")
    made = action(bench, "@/a")
    assert list(made.reads) == ["a"]
    with pytest.raises(Denied):
        await made.perform(Permit(made.digest))


async def test_the_start_and_end_of_a_long_file_are_attached(bench: Bench):
    put(bench, "a", "".join(f"line {number}\n" for number in range(1, 10_001)))
    outcome = await attached(bench, "@/a")
    assert " 1 | line 1\n" in outcome.text
    assert "10000 | line 10000\n" in outcome.text
    assert " lines left out: read_file shows them from line " in outcome.text
    assert PER_FILE - KIB < len(outcome.text) < PER_FILE + KIB
    assert not outcome.seen[0].whole


async def test_all_attachments_share_one_limit(bench: Bench):
    attachments = MentionAttachments(bench.root, bench.context)
    texts = []
    for number in range(10):
        put(bench, f"f{number}", "some words\n" * 5000)
        texts.append((await attached(bench, f"@/f{number}", attachments)).text)
    assert sum(map(len, texts)) < ROOM + 4 * KIB
    assert "Not attached: the message already has enough attachments." in texts[-1]


@pytest.mark.parametrize(
    ("content", "words"), [(b"\0\1binary", "Not a text file"), (b"", "The file is empty")]
)
async def test_a_file_without_text_becomes_a_note(bench: Bench, content: bytes, words: str):
    put(bench, "a", content)
    assert words in (await attached(bench, "@/a")).text


async def test_an_image_is_attached_for_a_model_with_vision(bench: Bench):
    put(bench, "x.png", PNG)
    outcome = await attached(bench, "@/x.png")
    assert len(outcome.images) == 1
    bench.context = replace(bench.context, sees_images=False)
    outcome = await attached(bench, "@/x.png")
    assert outcome.images == ()
    assert "does not accept images" in outcome.text


async def test_a_missing_file_becomes_a_note(bench: Bench):
    (mention,) = find_mentions("@/none.py")
    with pytest.raises(ToolError) as raised:
        await attached(bench, "@/none.py")
    assert note(mention, raised.value).startswith('<file_content path="none.py">\n(No such file')


async def test_a_hidden_file_is_marked_and_not_attached(bench: Bench):
    put(bench, ".rookeryignore", "secret\n")
    put(bench, "secret", "hidden")
    made = action(bench, "@/secret")
    assert bench.context.files.place("secret").ignored
    with pytest.raises(ToolError):
        await made.perform(permit_for(made))


async def test_a_folder_is_attached_without_its_hidden_files(bench: Bench):
    put(bench, ".rookeryignore", "*.key\n")
    for path in ("src/a.py", "src/deep/b.py", "src/c.key", "src/d.bin"):
        put(bench, path, b"\0" if path.endswith("bin") else f"text of {path}")
    put(bench, "outside.txt", "not in the folder")
    (bench.root / "src/link").symlink_to(bench.root / "outside.txt")
    made = action(bench, "@/src/")
    assert list(made.reads) == ["src", "src/a.py", "src/d.bin"]
    text = (await made.perform(permit_for(made))).text
    assert '<folder_content path="src">' in text
    assert "text of src/a.py" in text
    assert not any(f"text of {path}" in text for path in ("src/deep/b.py", "src/c.key"))
    assert "not in the folder" not in text


async def test_a_folder_may_be_mentioned_without_its_slash(bench: Bench):
    put(bench, "src/a.py", "words")
    assert "words" in (await attached(bench, "@/src")).text


async def test_of_a_large_folder_some_files_are_attached(bench: Bench):
    for number in range(MOST_FILES + 5):
        put(bench, f"src/f{number:03}", "x")
    assert len(action(bench, "@/src/").reads) == MOST_FILES + 1


def git(bench: Bench, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=bench.root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


async def test_git_mentions_run_a_command_that_is_judged_as_usual(bench: Bench):
    git(bench, "init", "-q", "-b", "main")
    put(bench, "a", "one\n")
    git(bench, "add", "a")
    git(bench, "commit", "-q", "-m", "first words")
    put(bench, "a", "two\n")
    made = action(bench, "@git-changes")
    assert made.judgement is not None
    assert made.judgement.only_reads
    text = (await made.perform(permit_for(made))).text
    assert text.startswith("<git_working_state>\n## main")
    assert "-one\n+two" in text
    commit = git(bench, "rev-parse", "HEAD")
    text = (await attached(bench, f"@{commit}")).text
    assert text.startswith(f'<git_commit hash="{commit}">')
    assert "first words" in text
    assert "+one" in text


async def test_a_failed_git_command_is_reported(bench: Bench):
    outcome = await attached(bench, "@1234567")
    assert outcome.ending is Ending.FAILED
    assert "(git ended with exit code 128.)" in outcome.text


async def test_other_mentions_need_no_action(bench: Bench):
    mentions = find_mentions("@problems @terminal @https://x.org")
    attachments = MentionAttachments(bench.root, bench.context)
    assert [attachments.action_for(mention) for mention in mentions] == [None] * 3
    problems, terminal, url = mentions
    assert plain_text(problems, problems=["a.py:1 oops"]) == (
        "<workspace_diagnostics>\na.py:1 oops\n</workspace_diagnostics>"
    )
    assert "No problems are known" in plain_text(problems)
    assert "No command has been run" in plain_text(terminal)
    assert len(plain_text(terminal, terminal="abc\ndef\n" * 10_000)) < PER_FILE + KIB
    assert plain_text(url) == ""


async def test_invisible_characters_of_a_mentioned_file_are_escaped(bench: Bench):
    put(bench, "a.md", "be \u202eevil\u200b\n")
    outcome = await attached(bench, "@/a.md")
    assert "be <U+202E>evil<U+200B>" in outcome.text
    (seen,) = outcome.seen
    assert not seen.whole


async def test_invisible_characters_of_other_mentions_are_escaped(bench: Bench):
    put(bench, "src/b.md", "tag\U000e0041")
    assert "tag<U+E0041>" in (await attached(bench, "@/src/")).text
    git(bench, "init", "-q", "-b", "main")
    git(bench, "add", ".")
    git(bench, "commit", "-q", "-m", "turned \u202e round")
    commit = git(bench, "rev-parse", "HEAD")
    assert "turned <U+202E> round" in (await attached(bench, f"@{commit}")).text
    problems, terminal = find_mentions("@problems @terminal")
    assert "a<U+200B>b" in plain_text(terminal, terminal="a\u200bb")
    assert "a<U+200B>b" in plain_text(problems, problems=["a\u200bb"])


@pytest.mark.parametrize("text", ["@git-changes", "@1234567"])
async def test_git_is_judged_again_right_before_it_runs(bench: Bench, text: str):
    ours = True
    judge = CommandJudge(
        bench.context.files,
        bench.root,
        home=bench.root,
        hiding=bench.context.files.boundaries.hiding,
        own_repository=lambda: ours,
    )
    bench.context = replace(bench.context, judge=judge)
    made = action(bench, text)
    ours = False
    with pytest.raises(ToolError, match="has changed since it was checked, so it was not run"):
        await made.perform(permit_for(made))


@pytest.mark.parametrize("text", ["@1234567;touch${IFS}x", "@1234567 ;touch x", "@git-changes;id"])
def test_only_a_commit_hash_of_a_mention_enters_the_command(bench: Bench, text: str):
    attachments = MentionAttachments(bench.root, bench.context)
    made = [attachments.action_for(mention) for mention in find_mentions(text)]
    commands = [each.command for each in made if each is not None]
    assert commands in ([], ["git show --stat --patch --no-ext-diff --no-textconv 1234567"])
