"""What git would change, and which of it cannot be taken back."""

import re
from collections.abc import Iterator, Sequence

from rookery.core.shell.judgement import Deed
from rookery.core.shell.programs import Doing, Operand
from rookery.core.shell.shell_words import Word
from rookery.core.shell.split_words import Split, split

_EVERYTHING = re.compile(r"(?=.)(:\([^)]*\)|:/?)?[*?./]*|:[!^].*|:\([^)]*exclude[^)]*\).*", re.S)
_NETWORK = {"push", "pull", "fetch", "clone", "ls-remote", "submodule", "remote", "lfs"}
_LOCAL = {
    "add", "commit", "checkout", "restore", "switch", "reset", "clean", "stash", "rebase", "merge",
    "rm", "mv", "branch", "tag", "reflog", "gc", "filter-branch", "update-ref", "worktree", "init",
    "revert", "cherry-pick", "am", "apply", "config", "bisect", "prune", "filter-repo", "notes",
    "sparse-checkout", "update-index", "read-tree", "checkout-index", "symbolic-ref", "replace",
}  # fmt: skip


def git_changes(words: Sequence[Word]) -> Doing:
    texts = [word.text for word in words]
    if any(text.startswith("-") for text in texts[1:2]):
        # the same command without these options is judged by itself
        return Doing(why_not=f"git is given {texts[1]} before its command")
    command = texts[1] if len(texts) > 1 else ""
    said = split(words[2:], "-m -F -b -B -C -c -s -S --message --source --exec -x -o --onto")
    runs = "git runs hooks and filters that are not known here"
    known = command in _LOCAL or command in _NETWORK
    return Doing(
        operands=tuple(_operands(command, said)),
        network=command in _NETWORK,
        grave=tuple(_grave(command, said, texts[2:])),
        why_not=runs if known else f"git {command} is not a command known here",
    )


def _operands(command: str, said: Split) -> Iterator[Operand]:
    match command:
        case "rm" if "--cached" not in said.flags:
            for word in said.operands:
                yield Operand(Deed.DELETE, word, deep="-r" in said.flags)
        case "mv":
            for word in said.operands[:-1]:
                yield Operand(Deed.DELETE, word, deep=True)
            for word in said.operands[-1:]:
                yield Operand(Deed.WRITE, word)
        case "clone" if len(said.operands) > 1:
            yield Operand(Deed.WRITE, said.operands[1])
        case "worktree" if [word.text for word in said.operands[:1]] == ["add"]:
            for word in said.operands[1:2]:
                yield Operand(Deed.WRITE, word)
        case "diff" if "--no-index" in said.flags:
            for word in said.operands:
                yield Operand(Deed.READ, word, deep=True)
        case "checkout" | "restore":
            for word in said.operands:
                yield Operand(Deed.WRITE, word, maybe=True)


def _grave(command: str, said: Split, texts: Sequence[str]) -> Iterator[str]:
    flags = said.flags
    operands = [word.text for word in said.operands]
    everything = any(_EVERYTHING.fullmatch(text) for text in operands)
    forced = "-f" in flags or said.abbreviates("--force", "--f")
    match command:
        case "clean" if forced and not ({"-n", "--dry-run"} & flags):
            yield "git clean deletes files that git does not know"
        case "reset" if said.abbreviates("--hard", "--h") or said.abbreviates("--merge", "--me"):
            yield "git reset --hard throws away every change that is not committed"
        case "push":
            yield from _grave_push(flags, operands)
        case "checkout" if "-B" in flags:
            yield "git checkout -B moves a branch away from commits that may be nowhere else"
        case "checkout" if forced or everything:
            yield "git checkout throws away changes that are not committed"
        case "switch" if "-C" in flags or said.abbreviates("--force-create", "--force-c"):
            yield "git switch -C moves a branch away from commits that may be nowhere else"
        case "switch" if forced or said.abbreviates("--discard-changes", "--d"):
            yield "git switch throws away changes that are not committed"
        case "restore" if everything and not ({"--staged", "-S"} & flags and "-W" not in flags):
            yield "git restore throws away every change that is not committed"
        case "branch" if (
            "-D" in flags or ("-d" in flags and forced) or ("--delete" in flags and forced)
        ):
            yield "git branch -D deletes a branch whose commits may be nowhere else"
        case "branch" if forced or {"-M", "-C"} & flags:
            yield "git branch -f, -M or -C overwrites a branch whose commits may be nowhere else"
        case "symbolic-ref" if {"-d", "--delete"} & flags:
            yield "git symbolic-ref -d deletes a reference"
        case "reflog" if operands[:1] in (["expire"], ["delete"]):
            yield "git reflog expire removes the last way back to lost commits"
        case "gc" if any(re.match(r"--prune=?(now|all)?$", text) for text in texts):
            yield "git gc --prune removes commits that nothing refers to"
        case "prune" if not ({"-n", "--dry-run"} & flags):
            yield "git prune removes commits that nothing refers to"
        case "update-ref" if "-d" in flags or "--stdin" in flags or "--delete" in flags:
            yield "git update-ref deletes references"
        case "filter-branch" | "filter-repo":
            yield f"git {command} rewrites the history"
        case "stash" if operands[:1] in (["drop"], ["clear"]):
            yield f"git stash {operands[0]} deletes changes that are nowhere else"
        case "worktree" if operands[:1] == ["remove"] and forced:
            yield "git worktree remove --force deletes changes that are not committed"
        case "rm" if forced and "--cached" not in flags:
            yield "git rm -f deletes changes that are not committed"
        case "checkout-index" if forced:
            yield "git checkout-index -f overwrites changes that are not committed"
        case "read-tree" if "--reset" in flags:
            yield "git read-tree --reset throws away changes that are not committed"


def _grave_push(flags: frozenset[str], operands: Sequence[str]) -> Iterator[str]:
    forcing = ("--force", "--mirror", "--delete", "--prune")
    if {"-f", "-d"} & flags or any(flag.startswith(forcing) for flag in flags):
        yield "git push --force, --mirror or --delete removes what others may rely on"
    elif any(
        flag in {"--f", "--fo", "--for", "--forc", "--mi", "--mir", "--del"} for flag in flags
    ):
        yield "git push is given an abbreviated option that may mean --force"
    if any(ref.startswith((":", "+")) for ref in operands[1:]):
        yield "git push deletes or overwrites a reference"
