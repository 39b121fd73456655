"""Judges a command line before it runs.

Every command in the line is judged, at any depth, together with the files its operands refer to.
What is not understood is reported as a doubt, never assumed to be harmless.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rookery.commands.changers import changing
from rookery.commands.git_use import shown_by_git, with_git_use
from rookery.commands.lookups import (
    ProgramPath,
    temporary_folders,
    why_runs_project,
)
from rookery.commands.nested_commands import (
    ELSEWHERE,
    MOST_BEFORE,
    MOST_COMMANDS,
    Folders,
    whole_line,
)
from rookery.commands.outputs import outputs, together
from rookery.commands.programs import CommandEffect, Operand, known_reader, reading
from rookery.commands.resolved_line import LineResolver, any_patterns, line_of
from rookery.commands.rules import begins_with, named_hosts
from rookery.commands.targets import TargetFinding, Targets
from rookery.commands.words import SimpleCommand, Word
from rookery.commands.wrappers import SHELLS, assignment, wrapped
from rookery.core.limits import KIB
from rookery.engine.ports.actions import Deed, Judgement, Plain, Target, program_name
from rookery.engine.ports.workspace import EntryFilter, Files
from rookery.first_use import lazy_pattern

LONGEST = 256 * KIB
MOST_REASONS = 20

_SHELL_OWN = {":", "cd", "pushd", "popd", "exit", "return", "break", "continue", "wait", "printf"}
_FORK_BOMB = lazy_pattern(
    r"(?<![\w.:])([\w.:]{1,30})\s{0,9}\(\)\s{0,9}\{[^}]{0,99}?\1\s{0,9}\|&?\s{0,9}\1[^}]{0,99}\}"
)


class CommandJudge:
    """Judges command lines for one workspace.

    `hiding` returns the filter of files the agent must not read. Writing to `temporary` folders is
    not dangerous.
    """

    def __init__(
        self,
        files: Files,
        workspace: Path,
        *,
        home: Path,
        hiding: Callable[[str], EntryFilter],
        temporary: Sequence[str] | None = None,
        leave: Sequence[str] = (),
        own_repository: Callable[[], bool] = lambda: True,
        writable: Sequence[str] = (),
        git_programs: Callable[[str, Sequence[str]], Sequence[str]] = lambda folder, words: (),
    ) -> None:
        """`leave` are the first words of commands that need the user's keys. `own_repository`
        tells whether git would use the workspace's own repository. `writable` are folders that
        commands in the sandbox can write programs to. `git_programs` returns the other programs
        that a git command runs in a folder."""
        self._git_programs = git_programs
        self._own_repository = own_repository
        self._writable = tuple(writable)
        self._leave = [entry.split() for entry in leave if entry.strip()]
        self._root = workspace.resolve()
        self._home = str(home)
        self._temporary = temporary_folders() if temporary is None else tuple(temporary)
        self._files = files
        self._hiding = hiding

    def __call__(self, command: str, cwd: str) -> Judgement:
        if len(command) > LONGEST:
            reason = "it is too long to be checked"
            return Judgement(line=(command, cwd), why_not=reason, dangers=(reason,), too_deep=True)
        start = str(self._root / cwd)
        whole = whole_line(command, self._home)
        line, commands = whole.line, whole.commands
        found = _Findings(line.doubts)
        found.dangers += whole.dangers
        if whole.too_deep:
            found.doubts.append("it nests commands too deeply to be checked")
        if _FORK_BOMB.search(command):
            found.dangers.append(
                "starts itself over and over until the machine fails (a fork bomb)"
            )
        self._judge(commands, start, found)
        spelled = self._resolve(line.plain, start, found) if line.plain else None
        if spelled and _runs_git(commands) and (found.elsewhere or not self._own_repository()):
            spelled = None
            found.doubts.append("git would use a repository that is not this folder's own")
        approved = found.only_reads and not found.doubts and not found.dangers
        texts = tuple(one.texts for one in commands if one.words)
        judged = Judgement(
            commands=texts,
            line=(command, cwd),
            written=line.plain,
            shown=tuple(map(shown_by_git, texts)),
            plain=spelled if approved else None,
            spelled=spelled,
            targets=tuple(dict.fromkeys(found.targets)),
            network=found.network,
            why_not="; ".join(list(dict.fromkeys(found.doubts))[:3]),
            dangers=tuple(dict.fromkeys(found.dangers))[:MOST_REASONS],
            notes=tuple(dict.fromkeys(found.notes))[:MOST_REASONS],
            too_deep=whole.too_deep,
            needs_keys=bool(texts)
            and all(any(begins_with(entry, reason) for entry in self._leave) for reason in texts),
            redefines=whole.redefines
            or (_runs_git(commands) and self._program_path().shadows("git")),
            redirects=any(map(_writes, commands)),
            hosts=tuple(map(str, named_hosts(texts))),
        )
        return with_git_use(judged)

    def _judge(self, commands: Sequence[SimpleCommand], start: str, found: "_Findings") -> None:
        folders = Folders(start, self._home)
        targets = Targets(
            self._files,
            self._root,
            home=Path(self._home),
            hiding=self._hiding,
            temporary=self._temporary,
        )
        for command in commands[:MOST_COMMANDS]:
            where = folders.of(command)
            effect = _effect_of(command)
            found.add_effect(effect)
            found.doubts += why_runs_project(effect, where, str(self._root))
            found.notes += self._programs_run_by_git(command, effect, where)
            found.elsewhere = found.elsewhere or self._in_another_repository(command, where)
            if command.scope[:1] == (ELSEWHERE,):
                found.dangers += _remote_dangers(effect)
                continue
            for operand in (*_redirect_operands(command), *effect.operands):
                for finding in targets.find(operand, where, effect.follows_links):
                    found.add(finding)
        if len(commands) > MOST_COMMANDS:
            found.dangers.append("has too many commands to be checked")

    def _programs_run_by_git(
        self, command: SimpleCommand, effect: CommandEffect, where: Sequence[str]
    ) -> Iterator[str]:
        """The hooks and programs that a git command would run, if it changes something."""
        texts = command.texts
        if effect.reads_only or not texts or program_name(texts[0]) != "git" or len(texts) < 2:
            return
        if texts[1].startswith("-"):
            return  # the command without these options is judged separately
        for folder in where[:MOST_BEFORE]:
            yield from self._git_programs(folder or str(self._root), texts)

    def _in_another_repository(self, command: SimpleCommand, where: Sequence[str]) -> bool:
        """Whether git would use or create a repository other than the workspace's own."""
        texts = command.texts
        if not texts or program_name(texts[0]) != "git":
            return False
        makes_one = texts[1:2] in (("init",), ("clone",))
        return makes_one or any(_in_nested_repository(folder, str(self._root)) for folder in where)

    def _resolve(self, parsed: Plain, start: str, found: "_Findings") -> Plain | None:
        """The line as it would run without a shell: programs as absolute paths, patterns
        replaced by file names. The expanded line is judged too. None if this cannot be done
        safely."""
        resolver = LineResolver(self._files, self._root, start, self._program_path())
        spelled = resolver.resolve(parsed)
        found.doubts += resolver.doubts
        if any_patterns(parsed):
            again = _Findings(())
            expanded = resolver.expand_patterns(parsed)
            self._judge(list(line_of(expanded).commands) if expanded else [], start, again)
            found.add_all(again)
        return spelled

    def _program_path(self) -> ProgramPath:
        path = os.environ.get("PATH", os.defpath)
        return ProgramPath(path, self._root, temporary=self._temporary, writable=self._writable)


class _Findings:
    def __init__(self, doubts: Sequence[str]) -> None:
        self.doubts = list(doubts)
        self.dangers: list[str] = []
        self.notes: list[str] = []
        self.targets: list[Target] = []
        self.network = False
        self.only_reads = True
        self.elsewhere = False
        """Whether git uses or creates a repository inside the workspace."""

    def add_effect(self, effect: CommandEffect) -> None:
        self.only_reads = self.only_reads and effect.reads_only
        self.dangers += effect.dangers
        if effect.why_not:
            self.doubts.append(effect.why_not)
        if effect.network:
            self.network = True
            self.notes.append("uses the network")

    def add_all(self, other: "_Findings") -> None:
        """Add the objections to the same line in its expanded form."""
        self.doubts += other.doubts
        self.dangers += other.dangers
        self.only_reads = self.only_reads and other.only_reads

    def add(self, finding: TargetFinding) -> None:
        self.targets += finding.targets
        self.dangers += finding.dangers
        self.notes += finding.notes
        if finding.doubt:
            self.doubts.append(finding.doubt)
        if finding.unfit:
            self.only_reads = False


def _runs_git(commands: Sequence[SimpleCommand]) -> bool:
    return any(program_name(one.words[0].text) == "git" for one in commands if one.words)


def _writes(command: SimpleCommand) -> bool:
    return any(one.writes and one.word.text != os.devnull for one in command.redirections)


def _in_nested_repository(folder: str, root: str) -> bool:
    """Whether a folder belongs to a repository nested in the workspace. True for a folder that
    is known only at run time."""
    while folder.startswith(f"{root}/"):
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
        folder = os.path.dirname(folder)
    return not folder


def _effect_of(command: SimpleCommand) -> CommandEffect:
    words = command.words
    if not words:
        return CommandEffect()
    if not words[0].known:
        return CommandEffect(
            why_not=f"which program it runs is known only when it runs: {words[0].text[:40]}"
        )
    name = program_name(words[0].text)
    if name == "cd" and len(words) == 2 and words[1].known:
        return CommandEffect(reads_only=True)
    if name in _SHELL_OWN and not (name == "printf" and reading(words).reads_only):
        return CommandEffect()
    read = reading(words)
    if read.reads_only:
        return read if "/" not in words[0].text else _by_path(read)
    if assignment(words[0]):
        return CommandEffect(why_not="it sets variables")
    return together(changing(words) or _unknown(words, name, read), outputs(words))


def _unknown(words: Sequence[Word], name: str, read: CommandEffect) -> CommandEffect:
    looked_through = wrapped(words) is not None and name not in SHELLS
    guesses = () if looked_through else tuple(_guesses(words))
    return CommandEffect(why_not=_why_unknown(words, name, read), operands=guesses)


def _by_path(read: CommandEffect) -> CommandEffect:
    return CommandEffect(operands=read.operands, why_not="a program is named by its path")


def _why_unknown(words: Sequence[Word], name: str, read: CommandEffect) -> str:
    if known_reader([word.text for word in words]):
        return read.why_not
    if wrapped(words) is not None:
        return f"{name} runs other commands"
    return f"what {name} does is not known"


def _guesses(words: Sequence[Word]) -> Iterator[Operand]:
    """Words of an unknown program that may be files it reads."""
    for word in words[1:]:
        if word.known and not word.text.startswith("-") and len(word.text) < 256:
            yield Operand(Deed.READ, word, maybe=True)


def _remote_dangers(effect: CommandEffect) -> list[str]:
    return [
        f"deletes on another machine: {operand.word.text}"
        for operand in effect.operands
        if operand.deed is Deed.DELETE and operand.deep
    ]


def _redirect_operands(command: SimpleCommand) -> Iterator[Operand]:
    for redirection in command.redirections:
        yield Operand(Deed.WRITE if redirection.writes else Deed.READ, redirection.word)
