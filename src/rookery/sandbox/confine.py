"""Drops what a command must not have, then becomes the command.

The sandbox runs this file as a script. Its arguments are pairs of a verb and an operand, then `--`,
then the command:

    unset NAME            remove an environment variable
    is DEVICE:INODE:PATH  refuse to run if anything else is at the path
    limit WHAT=NUMBER     a resource limit
    drop capabilities     drop all capabilities of root
    write PATH            allow writing below the path; without any, writing is not restricted
    keep PATH             deny writing below the path, even inside a writable folder
    grow PATH             allow creating folders below the path
    hide PATH             deny reading below the path
    network off|inside    allow only local sockets, or those that a network namespace confines
    proxy PATH=TOKEN      pass listening sockets to rookery, which serves them; TOKEN authenticates
    forward PORT          a port of this machine that is served there too

If something cannot be dropped, it exits with status 126 and the command does not run. It runs
before every command, so it imports almost nothing.
"""

# `os`, `signal`, `ctypes` and `json` would take longer to import than everything else here
import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import posix as os
import resource
import sys

_SCRIPT = 3  # its position in a command: after the interpreter and two options
_RUNNERS = ("plain_runner.py", f"plain_runner.{sys.implementation.cache_tag}.pyc")
_HEADER_OF_COMPILED = 16

REFUSED = 126
GONE = 127

_LIBC = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGPIPE, _signal.SIGXFSZ)

_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_CAP_AMBIENT = 38, 24, 22, 47
_PR_CAP_AMBIENT_CLEAR_ALL, _SECCOMP_MODE_FILTER = 4, 2
_CAPABILITIES_VERSION_3, _CAPABILITIES = 0x20080522, 64

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_ASK_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE = 1 << 0, 1 << 1, 1 << 2
CHANGE_ENTRIES = 0b1_1111_1111_0000
"""Create and remove all kinds of directory entries."""
MAKE_DIR = 1 << 7
REFER, TRUNCATE = 1 << 13, 1 << 14
_BIND_TCP_AND_CONNECT_TCP = 0b11
TCP_VERSION = 4
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

_DIRECTORY, _KIND = 0o040000, 0o170000


class NotConfined(Exception):
    pass


class ConfinementPlan:
    def __init__(self, words: list[str]) -> None:
        end = words.index("--")
        self._arguments = list(zip(words[:end:2], words[1:end:2], strict=True))
        self.command = words[end + 1 :]

    def all(self, verb: str) -> list[str]:
        return [operand for name, operand in self._arguments if name == verb]


def main(words: list[str]) -> None:
    plan = ConfinementPlan(words)
    for named in plan.all("is"):
        check_identity(named)
    for name in plan.all("unset"):
        os.environ.pop(name.encode(), None)
    for limit in plan.all("limit"):
        set_limit(*limit.split("="))
    if plan.all("drop"):
        drop_capabilities()
    _require(_call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "new privileges cannot be prevented")
    for where in plan.all("proxy"):
        pass_sockets(where, [int(port) for port in plan.all("forward")])
    network_off = "off" in plan.all("network")
    if plan.all("write") or plan.all("hide"):
        landlock(plan, network_off=network_off)
    if network_off:
        close_network()
    else:
        close_others(networks=bool(plan.all("network")))
    for number in _SIGNALS:
        _signal.signal(number, _signal.SIG_DFL)
    exec_command(plan.command)


def exec_command(command: list[str]) -> None:
    """Become the command. If it is `plain_runner`, run that here: Python runs already."""
    try:
        if len(command) > _SCRIPT and is_plain_runner(command[_SCRIPT]):
            run_script(command[_SCRIPT:])
        os.execve(command[0], command, os.environ)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(GONE)


def is_plain_runner(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    ours = __file__.rpartition("/")[0].removesuffix("/__pycache__").rpartition("/")[0]
    return folder.removesuffix("/__pycache__") == f"{ours}/platform" and name in _RUNNERS


def run_script(words: list[str]) -> None:
    """Run a script of ours as Python would; it ends the process."""
    with open(words[0], "rb") as file:
        data = file.read()
    if words[0].endswith(".pyc"):
        import marshal

        code = marshal.loads(data[_HEADER_OF_COMPILED:])
    else:
        code = compile(data, words[0], "exec")
    sys.argv[:] = words
    exec(code, {"__name__": "__main__", "__file__": words[0]})


def check_identity(named: str) -> None:
    """Refuse if something else is at the path. Checked after mounting, as mounts were made by
    path."""
    device, inode, path = named.split(":", 2)
    try:
        found = os.lstat(path)
    except OSError as error:
        raise NotConfined(f"{path}: {error.strerror}") from error
    if (found.st_dev, found.st_ino) != (int(device), int(inode)):
        raise NotConfined(f"{path} was replaced by something else just now")


def set_limit(what: str, number: str) -> None:
    """Lower the soft and the hard limit; lower ones stay."""
    which = getattr(resource, f"RLIMIT_{what}")
    limits = [
        int(number) if now < 0 else min(now, int(number)) for now in resource.getrlimit(which)
    ]
    resource.setrlimit(which, (limits[0], limits[1]))


_HERE = "127.0.0.1"
_PROXY = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_PROXY_IF_SET = ("npm_config_proxy", "npm_config_https_proxy", "PIP_PROXY", "CARGO_HTTP_PROXY")
_WEB = ("http", "https")
_PROXY_JAVA = ("MAVEN_OPTS", "GRADLE_OPTS")
_WAITING = 128


def pass_sockets(where: str, ports: list[int]) -> None:
    """Listen in the command's network and pass the sockets to rookery, which accepts on them. A
    socket stays in the namespace it was made in, so no process is needed beside the command."""

    def listening(port: int) -> _socket.socket:
        made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        made.bind((_HERE, port))
        made.listen(_WAITING)
        return made

    path, _, token = where.rpartition("=")
    served = {0: listening(0)}
    for port in ports:
        try:
            served[port] = listening(port)
        except OSError:
            continue  # ports below 1024 are privileged
    files = b"".join(_u32(each.fileno()) for each in served.values())
    message = " ".join([token, *map(str, served)]).encode()
    try:
        product = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        product.connect(path)
        product.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
        product.close()
    except OSError as error:
        raise NotConfined(f"the network proxy cannot be reached ({error.strerror})") from error
    try:  # noqa: SIM105 (contextlib is slow to import)
        os.unlink(path)
    except OSError:
        pass  # rookery has removed it already
    set_proxy_variables(served[0].getsockname()[1])
    for each in served.values():
        each.close()


def set_proxy_variables(port: int) -> None:
    """Set the variables by which programs find the proxy."""
    url = f"http://{_HERE}:{port}".encode()
    java = " ".join(f"-D{way}.proxyHost={_HERE} -D{way}.proxyPort={port}" for way in _WEB)
    for name in _PROXY:
        os.environ[name.encode()] = url
    for name in _PROXY_IF_SET:
        if name.encode() in os.environ:
            os.environ[name.encode()] = url
    for name in _PROXY_JAVA:
        before = os.environ.get(name.encode(), b"")
        os.environ[name.encode()] = (before + b" " + java.encode()).strip()
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name.encode()] = b"localhost,127.0.0.1,::1"
    os.environ[b"NODE_USE_ENV_PROXY"] = b"1"


def drop_capabilities() -> None:
    for capability in range(_CAPABILITIES):
        if _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # the kernel has no further capabilities
    _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = _u32(_CAPABILITIES_VERSION_3, 0)
    _require(_call("capset", header, bytes(24)), "capabilities cannot be dropped")


def landlock_version() -> int:
    """The kernel's Landlock version; 0 or less if it has none."""
    return _call("syscall", _CREATE_RULESET, None, 0, _ASK_VERSION)


def landlock(plan: ConfinementPlan, *, network_off: bool) -> None:
    version = landlock_version()
    if version < 1:
        raise NotConfined("the kernel has no Landlock")
    changes = WRITE_FILE | CHANGE_ENTRIES
    changes |= (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    hidden, unwritten = plan.all("hide"), plan.all("hide") + plan.all("keep")
    reads = EXECUTE | READ_FILE if hidden else 0
    handled = [changes | reads]
    if version >= TCP_VERSION:
        handled.append(_BIND_TCP_AND_CONNECT_TCP if network_off else 0)
    if version >= 6:
        handled.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    attributes = _u64(*handled)
    rules = _call("syscall", _CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        raise NotConfined("Landlock rejects the rules")
    left_out, above = frozenset(unwritten), _ancestors(unwritten)
    for path in plan.all("write"):
        allow_around(rules, path, changes | reads, left_out, above)
    for path in plan.all("grow"):
        allow(rules, path, MAKE_DIR)
    if hidden:
        allow_around(rules, "/", reads, frozenset(hidden), _ancestors(hidden))
    _require(_call("syscall", _RESTRICT_SELF, rules, 0), "Landlock does not work")


def allow(rules: int, path: str, access: int) -> None:
    """Add a rule for a path, unless it does not exist or is a link."""
    try:
        file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    kind = os.fstat(file).st_mode & _KIND
    if kind != _DIRECTORY:
        access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
    if kind != 0o120000:
        rule = _u64(access) + _u32(file)
        _require(
            _call("syscall", _ADD_RULE, rules, _PATH_BENEATH, rule, 0), f"{path} cannot be confined"
        )
    os.close(file)


def allow_around(
    rules: int, folder: str, access: int, left_out: frozenset[str], above: frozenset[str]
) -> None:
    """Allow everything in a folder except the paths in `left_out`. Landlock rules cover
    everything below a path, so the siblings on the way to an excluded path are allowed one by
    one."""
    if folder in left_out:
        return
    if folder not in above:
        allow(rules, folder, access)
        return
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        allow_around(rules, f"{folder.rstrip('/')}/{name}", access, left_out, above)


def _ancestors(paths: list[str]) -> frozenset[str]:
    return frozenset(
        path[:place] or "/" for path in paths for place in range(len(path)) if path[place] == "/"
    )


_ARCHITECTURES = {
    "x86_64": ((0xC000003E, 41), (0x40000003, 102, 359), (248, 286)),
    "aarch64": ((0xC00000B7, 198), (0x40000028, 281), (217, 309)),
}
"""The kernel's number of the architecture and of `socket`; the same for its 32-bit programs, with
all calls that can make a socket; and for both the first of three calls for the kernel's keys."""
_IO_URING_SETUP, _FOREIGN_NUMBERS = 425, 0x40000000
_LOCAL_FAMILIES = 1, 16  # AF_UNIX and AF_NETLINK
_CONFINED_FAMILIES = (*_LOCAL_FAMILIES, 2, 10)  # AF_INET and AF_INET6
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _UNREACHABLE = 0x7FFF0000, 0x00050000 | 101


def close_network() -> None:
    """Allow only local sockets. Landlock covers only TCP, and io_uring can make sockets too."""
    if os.uname().machine in _ARCHITECTURES:
        allow_families(_LOCAL_FAMILIES)
    elif landlock_version() < TCP_VERSION:  # otherwise only TCP is denied, as `guarantees` says
        raise NotConfined("the network cannot be closed")


def close_others(*, networks: bool) -> None:
    """Deny the kernel's keys, and families that bypass network namespaces, such as vsock."""
    if os.uname().machine in _ARCHITECTURES:
        allow_families(_CONFINED_FAMILIES if networks else ())


def allow_families(families: tuple[int, ...]) -> None:
    """Without families, all are allowed."""
    (native, socket), (foreign, *sockets), keys = _ARCHITECTURES[os.uname().machine]
    ours_denied, theirs_denied = ([*range(first, first + 3)] for first in keys)
    if families:
        ours_denied.append(_IO_URING_SETUP)
        theirs_denied += [*sockets, _IO_URING_SETUP]
    else:
        socket = _FOREIGN_NUMBERS  # denied before, so all others are allowed
    family = [(_LOAD, 16, "", ""), *((_EQUAL, each, "allow", "") for each in families)]
    ours = [
        (_LOAD, 0, "", ""),
        (_AT_LEAST, _FOREIGN_NUMBERS, "deny", ""),
        *((_EQUAL, each, "deny", "") for each in ours_denied),
        (_EQUAL, socket, "", "allow"),
        *family,
        (_RETURN, _UNREACHABLE, "", ""),
    ]
    theirs = [
        (_EQUAL, foreign, "", "deny"),
        (_LOAD, 0, "", ""),
        *((_EQUAL, each, "deny", "") for each in theirs_denied),
    ]
    ends = [(_RETURN, _ALLOW, "", ""), (_RETURN, _UNREACHABLE, "", "")]
    program = [(_LOAD, 4, "", ""), (_EQUAL, native, "", "theirs"), *ours, *theirs, *ends]
    last = len(program) - 1
    places = {"theirs": 2 + len(ours), "allow": last - 1, "deny": last}
    steps = [
        _step(code, number, *(places.get(each, at + 1) - at - 1 for each in (yes, no)))
        for at, (code, number, yes, no) in enumerate(program)
    ]
    _set_filter(steps)


def _set_filter(program: list[bytes]) -> None:
    class Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]  # `array` imports too much
        _type_ = "B"

    data = b"".join(program)
    steps = (Byte * len(data)).from_buffer_copy(data)
    filter_ = _u64(len(program), _ctypes.addressof(steps))
    done = _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_, 0, 0)
    _require(done, "system calls cannot be denied")


def _step(code: int, value: int, yes: int, no: int) -> bytes:
    return code.to_bytes(2, sys.byteorder) + bytes((yes, no)) + _u32(value)


def _u32(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)


def _u64(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)


def _call(name: str, *arguments: int | bytes | None) -> int:
    result: int = _ctypes.call_function(_ctypes.dlsym(_LIBC, name), arguments)
    return result


def _require(result: int, otherwise: str) -> None:
    if result < 0:
        raise NotConfined(otherwise)


def run() -> None:
    try:
        main(sys.argv[1:])
    except NotConfined as error:
        message = f"sandbox: {error}, so the command was not run.\n"
        os.write(2, message.encode(errors="surrogateescape"))
    finally:
        os._exit(REFUSED)


if __name__ == "__main__":
    run()
