"""Becomes a program that is started in a special way.

`bubblewrap` puts this script before its own program. Its arguments are how to start it, then the
program:

    deaf           ignore HUP, INT and TERM
    join=PID       join the user and network namespaces of a process
    keeper=PATH    a program that copies its input to its output

A warden forked from `fork_server` does the same without running the script. If there is a keeper,
it also enters the sandbox instead of starting Python in it: bubblewrap runs the keeper, and a
process forked here joins the namespaces and runs the script that bubblewrap was to run. That
script drops all capabilities, and confines the command so that it cannot trace the keeper.
"""

import _signal  # type: ignore[import-not-found]
import posix as os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

DEAF, JOIN, KEEPER = "deaf", "join=", "keeper="

_FAILED = 126
_ENDING = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
_USER, _NETWORK = 0x10000000, 0x40000000
_INSIDE = _USER | _NETWORK | 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000
"""The last four are the namespaces of mounts, names, IPC and processes."""
_SCRIPT = 3
"""The position of a script in its command: after the interpreter and two options."""
_HEADER_OF_COMPILED = 16
_SIGN = b"\n"
_MOST_FILES = 1 << 20
_REPORT = 3
_PR_SET_PDEATHSIG = 1

_preloaded: "dict[bytes, Callable[[], object]]" = {}


def preload(script: str) -> None:
    """Load one of our scripts for all processes that are forked from now on. They call its function
    `run`."""
    names = {"__name__": "preloaded", "__file__": script}
    exec(_load(_encoded(script)), names)
    _preloaded[_encoded(script)] = names["run"]  # type: ignore[assignment]


def become(program: bytes, argv: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Become a program. If it is this script, or the one that confines a command without
    bubblewrap, do what it would do. Raises `OSError`."""
    if _is_ours(argv, b"sandbox/confine."):
        _run(_script(argv[_SCRIPT]), argv[_SCRIPT:], b".", environment)
    if _is_ours(argv, b"platform/starter."):
        argv, keeper = prepare(argv[_SCRIPT + 1 :])
        if keeper:
            at = argv.index(b"--")
            enter(argv[:at], keeper, argv[at + 1 :], environment)
    os.execve(argv[0], argv, environment)


def prepare(words: list[bytes]) -> tuple[list[bytes], bytes]:
    """Do what the words before the program say; returns the program with its arguments, and the
    keeper. Raises `OSError`."""
    keeper = b""
    for at, word in enumerate(words):
        if word == DEAF.encode():
            for number in _ENDING:
                _signal.signal(number, _signal.SIG_IGN)
        elif word.startswith(JOIN.encode()):
            join(int(word[len(JOIN) :]), _USER | _NETWORK)
        elif word.startswith(KEEPER.encode()):
            keeper = word[len(KEEPER) :]
        else:
            return words[at:], keeper
    raise OSError(0, "no program was given")


def join(process: int, namespaces: int) -> None:
    """Join all of these namespaces of a process or, raising `OSError`, none."""
    file = os.pidfd_open(process)
    joined = _libc("setns", file, namespaces)
    os.close(file)
    if joined < 0:
        raise OSError(0, "the namespaces of the sandbox cannot be joined")


def enter(
    bubblewrap: list[bytes], keeper: bytes, script: list[bytes], environment: dict[bytes, bytes]
) -> None:
    """Run a script in the sandbox and end with its status. Returns if the sandbox cannot be
    entered; it is gone then, and nothing has run in it."""
    warden = os.getppid()
    run = _script(script[_SCRIPT])
    folder = bubblewrap[bubblewrap.index(b"--chdir") + 1]
    outer, inner = _make_sandbox(bubblewrap, keeper, environment)
    try:
        join(inner, _INSIDE if _own_network(inner) else _INSIDE & ~_NETWORK)
    except OSError:
        _end(outer)
        return
    _libc("prctl", _PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)  # joining may have cleared it
    if os.getppid() != warden:
        return
    pid = os.fork()
    if pid == 0:
        _run(run, script[_SCRIPT:], folder, {**environment, b"PWD": folder})
    status = _status(pid)
    _end(outer)
    os._exit(status)


def _own_network(process: int) -> bool:
    """Whether its network is another than ours; ours cannot be joined without privileges."""
    ours = os.readlink("/proc/self/ns/net")
    return os.readlink(f"/proc/{process}/ns/net") != ours


def _make_sandbox(
    bubblewrap: list[bytes], keeper: bytes, environment: dict[bytes, bytes]
) -> tuple[int, int]:
    """Start bubblewrap; returns its PID and that of the first process in the sandbox, once the
    keeper runs. If it does not, bubblewrap has said why, and this process ends as bubblewrap."""
    (source, keeping), (answer, target), (told, report) = os.pipe(), os.pipe(), os.pipe()
    os.write(keeping, _SIGN)  # it stays open as long as this process
    argv = [*bubblewrap, b"--info-fd", b"%d" % _REPORT, b"--", keeper]
    moved = ((source, 0), (target, 1), (report, _REPORT))
    actions = [(os.POSIX_SPAWN_DUP2, file, number) for file, number in moved]
    outer = os.posix_spawn(argv[0], argv, environment, file_actions=actions)
    for file in (source, target, report):
        os.close(file)
    if os.read(answer, 1) != _SIGN:
        os._exit(_status(outer) or _FAILED)
    _, _, rest = os.read(told, 4096).partition(b'"child-pid":')
    return outer, int(rest.partition(b",")[0].strip(b" \n}"))


def _run(
    run: "Callable[[], object]", words: list[bytes], folder: bytes, environment: dict[bytes, bytes]
) -> None:
    try:
        os.closerange(3, _MOST_FILES)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv[:] = map(_decoded, words)
        run()
    finally:
        os._exit(_FAILED)


def _script(script: bytes) -> "Callable[[], object]":
    """Return a function that runs one of our scripts as Python would."""
    if script in _preloaded:
        return _preloaded[script]
    code = _load(script)
    return lambda: exec(code, {"__name__": "__main__", "__file__": _decoded(script)})


def _load(script: bytes) -> "CodeType":
    """The code of a script of ours, compiled or not."""
    with open(script, "rb") as file:
        data = file.read()
    if not script.endswith(b".pyc"):
        return compile(data, script, "exec")
    import marshal

    code: CodeType = marshal.loads(data[_HEADER_OF_COMPILED:])
    return code


def _end(process: int) -> None:
    os.kill(process, _signal.SIGKILL)
    os.waitpid(process, 0)


def _status(process: int) -> int:
    """The exit status of a process, as bubblewrap and shells pass it on."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code if code >= 0 else 128 - code


def _is_ours(argv: list[bytes], script: bytes) -> bool:
    """Whether a command runs this script of our package, compiled or not."""
    if len(argv) <= _SCRIPT:
        return False
    package = _encoded(__file__).replace(b"/__pycache__/", b"/").rpartition(b"/platform/")[0]
    return argv[_SCRIPT].replace(b"/__pycache__/", b"/").startswith(package + b"/" + script)


def _decoded(word: bytes) -> str:
    return word.decode(sys.getfilesystemencoding(), "surrogateescape")


def _encoded(word: str) -> bytes:
    return word.encode(sys.getfilesystemencoding(), "surrogateescape")


def _libc(name: str, *arguments: int) -> int:
    import _ctypes

    libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    result: int = _ctypes.call_function(_ctypes.dlsym(libc, name), arguments)
    return result


if __name__ == "__main__":
    try:
        words, _ = prepare([_encoded(word) for word in sys.argv[1:]])
        os.execve(words[0], words, os.environ)
    except OSError as error:
        os.write(2, f"sandbox: {error.strerror}\n".encode(errors="surrogateescape"))
    finally:
        os._exit(_FAILED)
