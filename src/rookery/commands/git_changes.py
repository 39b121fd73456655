"""What git commands change, what cannot be undone, where they write and what else they run.

`git_changes` covers the usual work of a command, `git_outputs` the files that options name, and
`git_commands` and `git_scripts` the other programs that git runs.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from rookery.commands.program_tables import git_table
from rookery.commands.programs import CommandEffect, Operand, reading
from rookery.commands.words import Script, Split, Word, abbreviates, split
from rookery.engine.ports.actions import Deed
from rookery.first_use import lazy_pattern

_RUNS = ("--exec", "--extcmd", "--upload-pack", "--receive-pack", "--open-files-in-pager")
_TAKE_A_VALUE = {
    *("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"),
}
_EVERYTHING = lazy_pattern(r"(?=.)(:\([^)]*\)|:/?)?[*?./]*|:[!^].*|:\([^)]*exclude[^)]*\).*", re.S)
_OVERWRITING = lazy_pattern(r"\+[^:]*:(?!refs/remotes/).")
_LOCAL_REF = lazy_pattern(r"[^:]*:(?!refs/remotes/).")
_VALUED = "-o -O -f --output --output-directory --export-marks --prefix --file --separate-git-dir"
_ELSEWHERE = {"-C", "--work-tree", "--git-dir"}
_WITH_O = {"format-patch", "archive", "bugreport", "diagnose", "mailsplit"}
_FOR_ALL = {"--global": "all your repositories", "--system": "everybody on this machine"}
_CONFIG_CHANGES = {
    *("--add", "--replace-all", "--unset", "--unset-all", "--rename-section"),
    *("--remove-section", "--edit", "-e", "set", "unset", "rename-section", "remove-section"),
    *("edit", "replace-all", "add"),
}
_CONFIG_LOOKS = {
    *("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--get-colorbool"),
    *("--list", "-l", "get", "list"),
}


def git_changes(words: Sequence[Word]) -> CommandEffect:
    texts = [word.text for word in words]
    if any(text.startswith("-") for text in texts[1:2]):
        # `git_commands` yields the command without these options, which is judged too
        why_not = f"git has {texts[1]} before its command"
        return CommandEffect(why_not=why_not, dangers=tuple(_dangers_of_settings(texts)))
    command = texts[1] if len(texts) > 1 else ""
    args = split(words[2:], "-m -F -b -B -C -c -s -S --message --source --exec -x -o --onto")
    runs = "git runs hooks and filters that are not known"
    return CommandEffect(
        operands=tuple(_operands(command, args)),
        network=command in git_table().network.split(),
        dangers=tuple(_dangers(command, args, texts[2:])),
        why_not=runs if is_known(command) else f"git {command} is not a known command",
    )


def is_known(command: str) -> bool:
    return command in f"{git_table().local} {git_table().network}".split()


def _operands(command: str, args: Split) -> Iterator[Operand]:
    match command:
        case "rm" if "--cached" not in args.flags:
            for word in args.operands:
                yield Operand(Deed.DELETE, word, deep="-r" in args.flags)
        case "mv":
            for word in args.operands[:-1]:
                yield Operand(Deed.DELETE, word, deep=True)
            for word in args.operands[-1:]:
                yield Operand(Deed.WRITE, word)
        case "clone" if len(args.operands) > 1:
            yield Operand(Deed.WRITE, args.operands[1])
        case "worktree" if [word.text for word in args.operands[:1]] == ["add"]:
            for word in args.operands[1:2]:
                yield Operand(Deed.WRITE, word)
        case "diff" if "--no-index" in args.flags:
            for word in args.operands:
                yield Operand(Deed.READ, word, deep=True)
        case "checkout" | "restore" if _changes_worktree(command, args):
            for word in args.operands:
                yield Operand(Deed.WRITE, replace(word, below="*"), maybe=True)


def _changes_worktree(command: str, args: Split) -> bool:
    """Whether files in the worktree are restored, not only the index."""
    staged = "-S" in args.flags or args.has("--staged")
    return command != "restore" or not staged or "-W" in args.flags or args.has("--worktree")


def _dangers_of_settings(texts: Sequence[str]) -> Iterator[str]:
    """Dangers of settings given with `-c` or `--config-env`."""
    cleaning = {"gc", "repack", "maintenance", "prune"} & set(texts)
    if cleaning and any(re.match(r"(-c|--config-env=)?gc\.", text.lower()) for text in texts):
        yield "git gc removes commits that nothing refers to"


def _dangers(command: str, args: Split, texts: Sequence[str]) -> Iterator[str]:
    flags = args.flags
    operands = [word.text for word in args.operands]
    everything = any(_EVERYTHING.fullmatch(text) for text in operands)
    forced = "-f" in flags or args.has("--force")
    match command:
        case "clean" if not ({"-n", "--dry-run"} & flags):
            yield "git clean deletes files that git does not know"
        case "reset" if args.has("--hard") or args.has("--merge"):
            yield "git reset --hard throws away every change that is not committed"
        case "push":
            yield from _dangers_of_push(args, operands)
        case "fetch" | "pull" if any(_OVERWRITING.match(ref) for ref in operands[1:]) or (
            forced and any(_LOCAL_REF.match(ref) for ref in operands[1:])
        ):
            yield f"git {command} overwrites a branch whose commits may be nowhere else"
        case "checkout" if "-B" in flags:
            yield "git checkout -B moves a branch away from commits that may be nowhere else"
        case "checkout" if forced or everything:
            yield "git checkout throws away changes that are not committed"
        case "switch" if "-C" in flags or args.has("--force-create"):
            yield "git switch -C moves a branch away from commits that may be nowhere else"
        case "switch" if forced or args.has("--discard-changes"):
            yield "git switch throws away changes that are not committed"
        case "restore" if everything and _changes_worktree(command, args):
            yield "git restore throws away every change that is not committed"
        case "branch" if "-D" in flags or (forced and ("-d" in flags or args.has("--delete"))):
            yield "git branch -D deletes a branch whose commits may be nowhere else"
        case "branch" if forced or {"-M", "-C"} & flags:
            yield "git branch -f, -M or -C overwrites a branch whose commits may be nowhere else"
        case "symbolic-ref" if "-d" in flags or args.has("--delete"):
            yield "git symbolic-ref -d deletes a reference"
        case "reflog" if operands[:1] in (["expire"], ["delete"]):
            yield "git reflog expire removes the last way back to lost commits"
        case "gc" if any(
            abbreviates(text.partition("=")[0], "--prune")
            and text.partition("=")[2] not in {"never", "2.weeks.ago"}
            for text in texts
        ):
            yield "git gc --prune removes commits that nothing refers to"
        case "prune" if not ({"-n", "--dry-run"} & flags):
            yield "git prune removes commits that nothing refers to"
        case "update-ref":
            yield "git update-ref moves or deletes references"
        case "filter-branch" | "filter-repo":
            yield f"git {command} rewrites the history"
        case "stash" if operands[:1] in (["drop"], ["clear"]):
            yield f"git stash {operands[0]} deletes changes that are nowhere else"
        case "worktree" if operands[:1] == ["remove"] and forced:
            yield "git worktree remove --force deletes changes that are not committed"
        case "rm" if everything and "--cached" not in flags:
            yield "git rm deletes every file that git knows"
        case "rm" if forced and "--cached" not in flags:
            yield "git rm -f deletes changes that are not committed"
        case "checkout-index" if forced:
            yield "git checkout-index -f overwrites changes that are not committed"
        case "read-tree" if args.has("--reset"):
            yield "git read-tree --reset throws away changes that are not committed"


def _dangers_of_push(args: Split, operands: Sequence[str]) -> Iterator[str]:
    forcing = args.has("--force-with-lease", "--mirror", "--delete", "--prune")
    if forcing or {"-f", "-d"} & args.flags:
        yield "git push --force, --mirror or --delete removes what others may rely on"
    if any(ref.startswith((":", "+")) for ref in operands[1:]):
        yield "git push deletes or overwrites a reference"


def git_outputs(words: Sequence[Word]) -> CommandEffect:
    rest = without_settings(words)
    if len(rest) < 2:
        return CommandEffect()
    command = rest[1].text
    args = split(rest[2:], _VALUED)
    written = [*_written(command, args), *_other_folders(words, rest)]
    return CommandEffect(
        operands=tuple(Operand(Deed.WRITE, word) for word in written if word.text != "-"),
        dangers=tuple(_dangers_of_outputs(command, args)),
    )


def _written(command: str, args: Split) -> Iterator[Word]:
    for option in ("--output", "--output-directory", "--export-marks", "--separate-git-dir"):
        if word := args.value(option):
            yield word
    operands = list(args.operands)
    first = operands[0].text if operands else ""
    match command:
        case _ if command in _WITH_O and (word := args.value("-o")):
            yield word
        case "bundle" if first == "create":
            yield from operands[1:2]
        case "init":
            yield from operands[:1]
        case "submodule" if first == "add":
            yield from operands[2:3]
        case "checkout-index" if word := args.value("--prefix"):
            yield word
        case "config" if _changes_config(args) and (word := args.value("-f", "--file")):
            yield word
        case "apply" if args.has("--unsafe-paths"):
            yield Word("..")


def _other_folders(words: Sequence[Word], rest: Sequence[Word]) -> Iterator[Word]:
    """Other folders that options of git name, unless the command only reads."""
    if reading(rest).reads_only:
        return
    before = words[1 : len(words) - len(rest) + 1]
    for place, word in enumerate(before):
        name, equals, value = word.text.partition("=")
        if name in _ELSEWHERE:
            yield from [Word(value, known=word.known)] if equals else before[place + 1 : place + 2]


def _dangers_of_outputs(command: str, args: Split) -> Iterator[str]:
    if command == "config" and _changes_config(args):
        for option, whose in _FOR_ALL.items():
            if args.has(option):
                yield f"git config {option} changes git for {whose}"
    if command == "grep" and ("-O" in args.flags or args.has("--open-files-in-pager")):
        yield "git grep -O runs another program"


def _changes_config(args: Split) -> bool:
    texts = [word.text for word in args.operands]
    words = {*args.flags, *texts[:1]}
    if words & _CONFIG_CHANGES:
        return True
    return len(texts) > 1 and not words & _CONFIG_LOOKS


def git_commands(words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
    """The command without the options before the sub-command, and the commands that `bisect run`
    and `submodule foreach` run."""
    rest = without_settings(words)[1:]
    found = []
    if len(rest) < len(words) - 1 and rest:
        found.append((Word("git"), *rest))
    texts = [word.text for word in rest]
    if texts[:2] == ["bisect", "run"]:
        found.append(tuple(rest[2:]))
    if args := _foreach_command(words):
        found.append(tuple(args))
    return tuple(found)


def without_settings(words: Sequence[Word]) -> list[Word]:
    """Remove the options between `git` and the sub-command."""
    rest = list(words[1:])
    while rest and rest[0].text.startswith("-"):
        del rest[: 2 if rest[0].text in _TAKE_A_VALUE else 1]
    return [*words[:1], *rest]


def git_folder(words: Sequence[Word]) -> Word | None:
    """The folder given with `-C`, if there is exactly one."""
    before = words[1 : len(words) - len(without_settings(words)) + 1]
    folders = [word for flag, word in pairwise(before) if flag.text == "-C"]
    return folders[0] if len(folders) == 1 else None


def git_scripts(words: Sequence[Word]) -> Iterator[Script]:
    """Shell texts in the command's options.

    Settings given with `-c` may name programs, and aliases are commands. The command of `submodule
    foreach` is shell text if it is a single word.
    """
    if args := _foreach_command(words):
        yield args[0].script
    for flag, word in pairwise(words):
        script = word.script
        if flag.text == "-c" and (set_to := re.match("[^=]*=!?", script.text)):
            yield script.skip(set_to.end())
        elif flag.text == "-x" or _runs_its_value(flag.text):
            yield script
    for script in (word.script for word in words[1:]):
        name, equals, _ = script.text.partition("=")
        if equals and _runs_its_value(name):
            yield script.skip(len(name) + 1)
        elif script.text[:2] in {"-x", "-O", "-u"} and " " in script.text:
            yield script.skip(2)


def _foreach_command(words: Sequence[Word]) -> list[Word]:
    texts = [word.text for word in words]
    if "submodule" not in texts or "foreach" not in texts:
        return []
    args = list(words[texts.index("foreach") + 1 :])
    while args and args[0].text.startswith("-"):
        args.pop(0)
    return args


def _runs_its_value(name: str) -> bool:
    return any(len(name) > 4 and long.startswith(name) for long in _RUNS)
