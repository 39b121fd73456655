"""Runs a plain command line: programs, their arguments and pipes, and no shell anywhere.

It is run as a script of its own, inside the sandbox. Its arguments are lists, each behind its
length: variables for git, then pipelines. A pipeline is `when` it is run and a list of commands;
a command is what becomes of its `errors` and of its `output`, the folder it runs in, the file
that it reads from (or nothing), how many words git's sub-command stands behind, and a list of
words, of which the first is a path. It ends as the last program of the last pipeline that ran.
"""

# like the warden it is in the way of every command; `os` and `signal` take long to import
import _signal  # type: ignore[import-not-found]
import posix as os
import sys

NOT_OPENED, NOT_STARTED, NOT_THERE = 1, 126, 127
NOWHERE = "/dev/null"
SETTINGS_OF_THE_USER = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
NAMED_PROGRAMS = r"^(filter\..*|diff\..*\.(textconv|command)|merge\..*\.driver)$"
COMMITTING = {
    "commit",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
    "am",
    "stash",
    "pull",
    "tag",
    "notes",
}
_IGNORED_BY_PYTHON = (_signal.SIGPIPE, _signal.SIGXFSZ)


class ArgumentWords:
    """The arguments, taken from the front."""

    def __init__(self, words: list[str]) -> None:
        self._rest = words[::-1]

    def __bool__(self) -> bool:
        return bool(self._rest)

    def next(self) -> str:
        return self._rest.pop()

    def list(self) -> list[str]:
        return [self.next() for _ in range(int(self.next()))]


class PipelineCommand:
    """A program with its arguments. `lead` words stand before git's sub-command; 0 if not git."""

    def __init__(self, words: ArgumentWords) -> None:
        self.errors = words.next()
        self.output = words.next()
        self.folder = words.next()
        self.source = words.next()
        self.lead = int(words.next())
        self.words = words.list()


def main(words: ArgumentWords) -> int:
    variables = dict(each.split("=", 1) for each in words.list())
    status = 0
    while words:
        when = words.next()
        commands = [PipelineCommand(words) for _ in range(int(words.next()))]
        if when == "always" or (when == "succeeded") == (status == 0):
            status = run_pipeline(commands, variables)
    return status


def run_pipeline(commands: list[PipelineCommand], variables: dict[str, str]) -> int:
    """The status of the last command, once all of them have ended."""
    pids = []
    source = os.open(NOWHERE, os.O_RDONLY | os.O_CLOEXEC)
    for command in commands[:-1]:
        next_source, target = os.pipe()
        pids.append(start(command, source, target, variables))
        os.close(target)
        os.close(source)
        source = next_source
    pids.append(start(commands[-1], source, 1, variables))
    os.close(source)
    return [shell_status(os.waitpid(pid, 0)[1]) for pid in pids][-1]


def shell_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def start(command: PipelineCommand, source: int, target: int, variables: dict[str, str]) -> int:
    pid = os.fork()
    if pid == 0:
        become(command, source, target, variables)
    return pid


def become(command: PipelineCommand, source: int, target: int, variables: dict[str, str]) -> None:
    status = NOT_STARTED
    program = command.words[0]
    try:
        if command.folder:
            os.chdir(command.folder)
        if command.source:
            source = opened(command.source)
        environment = git_environment(command, variables) if command.lead else os.environ
        os.dup2(source, 0)
        os.dup2(target, 1)
        if command.errors == "with output":
            os.dup2(1, 2)
        elif command.errors == "dropped":
            os.dup2(os.open(NOWHERE, os.O_WRONLY), 2)
        if command.output == "dropped":
            os.dup2(os.open(NOWHERE, os.O_WRONLY), 1)
        for number in _IGNORED_BY_PYTHON:
            _signal.signal(number, _signal.SIG_DFL)
        os.execve(program, command.words, environment)
    except OSError as error:
        status = NOT_THERE if isinstance(error, FileNotFoundError) else NOT_STARTED
        os.write(2, f"{program}: {error.strerror}\n".encode(errors="surrogateescape"))
    finally:
        os._exit(status)


def opened(path: str) -> int:
    """A file to read from. If there is none, the command is not run, as in a shell."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        os.write(2, f"{path}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(NOT_OPENED)


def git_environment(command: PipelineCommand, variables: dict[str, str]) -> dict[bytes, bytes]:
    """Without what was inherited for git, with the variables, and with no program by name."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(b"GIT_")}
    asks = command.words[command.lead : command.lead + 1] == ["config"]
    for name, text in variables.items():
        if asks and name in SETTINGS_OF_THE_USER:
            continue  # to look up a setting runs nothing, and most of them are there
        kept[name.encode()] = text.encode(errors="surrogateescape")
    programs = asked_of_git(command, kept, ["--name-only", "--get-regexp", NAMED_PROGRAMS])
    settings = {key: b"false" if key.endswith(b".required") else b"" for key in programs}
    settings |= identity(command, kept)
    for at, (key, set_to) in enumerate(settings.items()):
        kept[b"GIT_CONFIG_KEY_%d" % at] = key
        kept[b"GIT_CONFIG_VALUE_%d" % at] = set_to
    return kept | {b"GIT_CONFIG_COUNT": b"%d" % len(settings)}


def identity(command: PipelineCommand, environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Who commits, as the user's own settings say, of which git is to obey nothing else."""
    if not COMMITTING.intersection(command.words[command.lead : command.lead + 1]):
        return {}
    hidden = [name.encode() for name in SETTINGS_OF_THE_USER]
    known = {name: text for name, text in environment.items() if name not in hidden}
    found = asked_of_git(command, known, ["--get-regexp", r"^user\.(name|email)$"])
    return {key: text for key, given, text in (each.partition(b"\n") for each in found) if given}


def asked_of_git(
    command: PipelineCommand, environment: dict[bytes, bytes], question: list[str]
) -> list[bytes]:
    """What git says of its settings. Asking for them runs nothing."""
    answer, target = os.pipe()
    pid = os.fork()
    if pid == 0:
        ask_git(command, target, environment, question)
    os.close(target)
    said = b""
    while data := os.read(answer, 65536):
        said += data
    os.close(answer)
    os.waitpid(pid, 0)
    return said.split(b"\0")[:-1]


def ask_git(
    command: PipelineCommand, target: int, environment: dict[bytes, bytes], question: list[str]
) -> None:
    try:
        os.dup2(os.open(NOWHERE, os.O_RDWR), 0)
        os.dup2(target, 1)
        os.dup2(0, 2)
        asked = ["config", "-z", *question]
        os.execve(command.words[0], [*command.words[: command.lead], *asked], environment)
    finally:
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    status = NOT_STARTED
    try:
        status = main(ArgumentWords(sys.argv[1:]))
    finally:
        os._exit(status)
