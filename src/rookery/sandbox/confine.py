"""Stands in front of one command, gives up what the command must not have, and becomes it.

The sandbox runs this file as a script of its own. Its arguments are pairs of a verb and an
operand, then `--`, then the command:

    unset NAME            a variable the command does not get
    is DEVICE:INODE:PATH  what must be at the path, or nothing is run
    limit WHAT=NUMBER     a resource limit
    drop capabilities     for root, who keeps none
    write PATH            below it the command may write; without any, this is not restricted
    keep PATH             below it the command may not write, even if it may around it
    grow PATH             below it the command may make folders
    hide PATH             what is below it, the command cannot read
    network off|inside    no sockets but local ones, or those that a network namespace confines
    proxy PATH=TOKEN      the product serves what is listened on for the command; it says TOKEN
    forward PORT          a port of this machine that is served there too

Whatever cannot be given up ends it with status 126, before the command has run. It is in the
way of every command, hence imports almost nothing.
"""

# what `os`, `signal`, `ctypes` and `json` add to these takes longer to import than all the rest
import _signal  # type: ignore[import-not-found]
import posix as os
import sys

REFUSED = 126
GONE = 127

_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGPIPE, _signal.SIGXFSZ)

_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_CAP_AMBIENT = 38, 24, 22, 47
_PR_CAP_AMBIENT_CLEAR_ALL, _SECCOMP_MODE_FILTER = 4, 2
_CAPABILITIES_VERSION_3, _CAPABILITIES = 0x20080522, 64

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_ASK_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE = 1 << 0, 1 << 1, 1 << 2
CHANGE_ENTRIES = 0b1_1111_1111_0000
"""Make and remove entries of folders, of every kind."""
MAKE_DIR = 1 << 7
REFER, TRUNCATE = 1 << 13, 1 << 14
_BIND_TCP_AND_CONNECT_TCP = 0b11
KNOWS_TCP = 4
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

_DIRECTORY, _KIND = 0o040000, 0o170000


class NotConfined(Exception):
    pass


class ConfinementPlan:
    def __init__(self, words: list[str]) -> None:
        end = words.index("--")
        self._said = list(zip(words[:end:2], words[1:end:2], strict=True))
        self.command = words[end + 1 :]

    def all(self, verb: str) -> list[str]:
        return [operand for said, operand in self._said if said == verb]


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
    _must(_call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "new privileges cannot be prevented")
    for where in plan.all("proxy"):
        hand_over(where, [int(port) for port in plan.all("forward")])
    network_off = "off" in plan.all("network")
    if plan.all("write") or plan.all("hide"):
        landlock(plan, network_off=network_off)
    if network_off:
        close_network()
    elif plan.all("network"):
        close_other_networks()
    for number in _SIGNALS:
        _signal.signal(number, _signal.SIG_DFL)
    become(plan.command)


def become(command: list[str]) -> None:
    try:
        os.execve(command[0], command, os.environ)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(GONE)


def check_identity(named: str) -> None:
    """Mounts were made by path; what is mounted now stays, so that looking once is enough."""
    device, inode, path = named.split(":", 2)
    try:
        found = os.lstat(path)
    except OSError as error:
        raise NotConfined(f"{path}: {error.strerror}") from error
    if (found.st_dev, found.st_ino) != (int(device), int(inode)):
        raise NotConfined(f"{path} was replaced by something else just now")


def set_limit(what: str, number: str) -> None:
    """Lower both limits; what is lower already stays."""
    import resource

    which = getattr(resource, f"RLIMIT_{what}")
    limits = [
        int(number) if now < 0 else min(now, int(number)) for now in resource.getrlimit(which)
    ]
    resource.setrlimit(which, (limits[0], limits[1]))


_HERE = "127.0.0.1"
_LED = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LED_IF_SET = ("npm_config_proxy", "npm_config_https_proxy", "PIP_PROXY", "CARGO_HTTP_PROXY")
_LED_JAVA = ("MAVEN_OPTS", "GRADLE_OPTS")
_WAITING = 128


def hand_over(where: str, ports: list[int]) -> None:
    """Listen in the command's network, and have the product accept there. A socket belongs to the
    network it was made in, so that nothing has to run beside the command."""
    import _socket

    def listening(port: int) -> "_socket.socket":
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
            continue  # one below 1024 is the system's
    files = b"".join(_u32(each.fileno()) for each in served.values())
    said = " ".join([token, *map(str, served)]).encode()
    try:
        product = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        product.connect(path)
        product.sendmsg([said], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
        product.close()
    except OSError as error:
        raise NotConfined(f"the network proxy cannot be reached ({error.strerror})") from error
    try:  # noqa: SIM105 (contextlib is slow to import)
        os.unlink(path)
    except OSError:
        pass  # the product was quicker
    lead_to(served[0].getsockname()[1])
    for each in served.values():
        each.close()


def lead_to(port: int) -> None:
    """Tell programs of the proxy in the ways they know."""
    url = f"http://{_HERE}:{port}".encode()
    java = " ".join(f"-D{way}.proxyHost={_HERE} -D{way}.proxyPort={port}" for way in _WEB)
    for name in _LED:
        os.environ[name.encode()] = url
    for name in _LED_IF_SET:
        if name.encode() in os.environ:
            os.environ[name.encode()] = url
    for name in _LED_JAVA:
        before = os.environ.get(name.encode(), b"")
        os.environ[name.encode()] = (before + b" " + java.encode()).strip()
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name.encode()] = b"localhost,127.0.0.1,::1"
    os.environ[b"NODE_USE_ENV_PROXY"] = b"1"


_WEB = ("http", "https")


def drop_capabilities() -> None:
    for capability in range(_CAPABILITIES):
        _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the last one
    _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = _u32(_CAPABILITIES_VERSION_3, 0)
    _must(_call("capset", header, bytes(24)), "capabilities cannot be dropped")


def landlock_version() -> int:
    """What the kernel knows of Landlock; 0 or less if nothing."""
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
    if version >= KNOWS_TCP:
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
    _must(_call("syscall", _RESTRICT_SELF, rules, 0), "Landlock does not work")


def allow(rules: int, path: str, access: int) -> None:
    """What is gone needs no rule, and what a link leads to has its own."""
    try:
        file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    kind = os.fstat(file).st_mode & _KIND
    if kind != _DIRECTORY:
        access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
    if kind != 0o120000:
        rule = _u64(access) + _u32(file)
        _must(
            _call("syscall", _ADD_RULE, rules, _PATH_BENEATH, rule, 0), f"{path} cannot be confined"
        )
    os.close(file)


def allow_around(
    rules: int, folder: str, access: int, left_out: frozenset[str], above: frozenset[str]
) -> None:
    """Landlock only allows, and all below too. So whatever stands beside a place that is left out
    is allowed, and beside each folder on the way there."""
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
    "x86_64": ((0xC000003E, 41), (0x40000003, 102, 359)),
    "aarch64": ((0xC00000B7, 198), (0x40000028, 281)),
}
"""How the kernel calls them, and the number of `socket` there. Then the same for programs of
32 bits, all of whose ways to a socket are closed: some cannot be told apart."""
_IO_URING_SETUP, _FOREIGN_NUMBERS = 425, 0x40000000
_LOCAL_FAMILIES = 1, 16  # AF_UNIX and AF_NETLINK
_CONFINED_FAMILIES = (*_LOCAL_FAMILIES, 2, 10)  # AF_INET and AF_INET6
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _UNREACHABLE = 0x7FFF0000, 0x00050000 | 101


def close_network() -> None:
    """No sockets but local ones. Landlock knows TCP only; io_uring makes sockets as well."""
    if os.uname().machine in _ARCHITECTURES:
        allow_families(_LOCAL_FAMILIES)
    elif landlock_version() < KNOWS_TCP:  # `guarantees` says that only TCP is closed otherwise
        raise NotConfined("the network cannot be closed")


def close_other_networks() -> None:
    """Sockets of some families, such as those to the machine that hosts a virtual one, lead out
    of every network namespace."""
    if os.uname().machine in _ARCHITECTURES:
        allow_families(_CONFINED_FAMILIES)


def allow_families(families: tuple[int, ...]) -> None:
    (native, socket), (foreign, *sockets) = _ARCHITECTURES[os.uname().machine]
    family = [(_LOAD, 16, "", ""), *((_EQUAL, each, "allow", "") for each in families)]
    ours = [
        (_LOAD, 0, "", ""),
        (_AT_LEAST, _FOREIGN_NUMBERS, "deny", ""),
        (_EQUAL, _IO_URING_SETUP, "deny", ""),
        (_EQUAL, socket, "", "allow"),
        *family,
        (_RETURN, _UNREACHABLE, "", ""),
    ]
    theirs = [
        (_EQUAL, foreign, "", "deny"),
        (_LOAD, 0, "", ""),
        *((_EQUAL, each, "deny", "") for each in (*sockets, _IO_URING_SETUP)),
    ]
    ends = [(_RETURN, _ALLOW, "", ""), (_RETURN, _UNREACHABLE, "", "")]
    program = [(_LOAD, 4, "", ""), (_EQUAL, native, "", "theirs"), *ours, *theirs, *ends]
    last = len(program) - 1
    places = {"theirs": 2 + len(ours), "allow": last - 1, "deny": last}
    _set_filter(
        [
            _step(
                code,
                number,
                yes=places.get(yes, at + 1) - at - 1,
                no=places.get(no, at + 1) - at - 1,
            )
            for at, (code, number, yes, no) in enumerate(program)
        ]
    )


def _set_filter(program: list[bytes]) -> None:
    from array import array

    steps = array("B", b"".join(program))
    filter_ = _u64(len(program), steps.buffer_info()[0])
    done = _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_, 0, 0)
    _must(done, "the network cannot be closed")


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return code.to_bytes(2, sys.byteorder) + bytes((yes, no)) + _u32(value)


def _u32(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)


def _u64(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)


def _call(name: str, *arguments: int | bytes | None) -> int:
    import _ctypes

    libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    result: int = _ctypes.call_function(_ctypes.dlsym(libc, name), arguments)
    return result


def _must(result: int, otherwise: str) -> None:
    if result < 0:
        raise NotConfined(otherwise)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NotConfined as error:
        said = f"sandbox: {error}, so the command was not run.\n"
        os.write(2, said.encode(errors="surrogateescape"))
    finally:
        os._exit(REFUSED)
