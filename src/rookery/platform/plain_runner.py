"""Runs a plain command line: programs with arguments and pipes, without a shell.

It is run as a script inside the sandbox. Its arguments are lists, each preceded by its length: the
variables for git, then pipelines. A pipeline is its `when` and a list of commands. A command is its
`errors` and `output`, its folder, its input file (or empty), the number of words before git's
sub-command, and a list of words, of which the first is a path. It exits with the status of the last
program of the last pipeline that ran.
"""

# it runs before every command, and `os` and `signal` take long to import
import _signal  # type: ignore[import-not-found]
import posix as os
import sys

NOT_OPENED, NOT_STARTED, NOT_FOUND = 1, 126, 127
DEV_NULL = "/dev/null"
USER_SETTINGS = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
NAMED_PROGRAMS = r"^(filter\..*|diff\..*\.(textconv|command)|merge\..*\.driver)$"
COMMITTING = {
    *("commit", "merge", "rebase", "cherry-pick", "revert", "am", "stash", "pull", "tag", "notes"),
}
_PYTHON_IGNORES = (_signal.SIGPIPE, _signal.SIGXFSZ)


class ArgumentWords:
    """The arguments, consumed from the front."""

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
    """Run the commands; returns the status of the last one once all have ended."""
    pids = []
    source = os.open(DEV_NULL, os.O_RDONLY | os.O_CLOEXEC)
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
            source = open_input(command.source)
        environment = git_environment(command, variables) if command.lead else os.environ
        os.dup2(source, 0)
        os.dup2(target, 1)
        if command.errors == "with output":
            os.dup2(1, 2)
        elif command.errors == "dropped":
            os.dup2(os.open(DEV_NULL, os.O_WRONLY), 2)
        if command.output == "dropped":
            os.dup2(os.open(DEV_NULL, os.O_WRONLY), 1)
        for number in _PYTHON_IGNORES:
            _signal.signal(number, _signal.SIG_DFL)
        os.execve(program, command.words, environment)
    except OSError as error:
        status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
        os.write(2, f"{program}: {error.strerror}\n".encode(errors="surrogateescape"))
    finally:
        os._exit(status)


def open_input(path: str) -> int:
    """Open the input file. If that fails the command does not run, as in a shell."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        os.write(2, f"{path}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(NOT_OPENED)


def git_environment(command: PipelineCommand, variables: dict[str, str]) -> dict[bytes, bytes]:
    """The environment for git: inherited `GIT_*` replaced by the variables, and filters, diff
    and merge drivers disabled."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(b"GIT_")}
    is_config = command.words[command.lead : command.lead + 1] == ["config"]
    for name, text in variables.items():
        if is_config and name in USER_SETTINGS:
            continue  # reading settings runs nothing, and most are the user's
        kept[name.encode()] = text.encode(errors="surrogateescape")
    programs = query_settings(command, kept, ["--name-only", "--get-regexp", NAMED_PROGRAMS])
    settings = {key: b"false" if key.endswith(b".required") else b"" for key in programs}
    settings |= identity(command, kept)
    for at, (key, set_to) in enumerate(settings.items()):
        kept[b"GIT_CONFIG_KEY_%d" % at] = key
        kept[b"GIT_CONFIG_VALUE_%d" % at] = set_to
    return kept | {b"GIT_CONFIG_COUNT": b"%d" % len(settings)}


def identity(command: PipelineCommand, environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The user's name and email, which are the only user settings that git may use."""
    if not COMMITTING.intersection(command.words[command.lead : command.lead + 1]):
        return {}
    hidden = [name.encode() for name in USER_SETTINGS]
    known = {name: text for name, text in environment.items() if name not in hidden}
    found = query_settings(command, known, ["--get-regexp", r"^user\.(name|email)$"])
    return {key: text for key, given, text in (each.partition(b"\n") for each in found) if given}


def query_settings(
    command: PipelineCommand, environment: dict[bytes, bytes], question: list[str]
) -> list[bytes]:
    """Query git's settings, which runs nothing."""
    answer, target = os.pipe()
    pid = os.fork()
    if pid == 0:
        exec_git_config(command, target, environment, question)
    os.close(target)
    output = b""
    while data := os.read(answer, 65536):
        output += data
    os.close(answer)
    os.waitpid(pid, 0)
    return output.split(b"\0")[:-1]


def exec_git_config(
    command: PipelineCommand, target: int, environment: dict[bytes, bytes], question: list[str]
) -> None:
    try:
        os.dup2(os.open(DEV_NULL, os.O_RDWR), 0)
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
