"""Holds the network namespace that the commands of a session share, or connects into it.

`bubblewrap` runs this file as a script, with a socket as its standard input:

    hold PROGRAM    create the namespace, send `ready`, and become the program
    connect PID     join the namespace of the process that holds it. Then read port numbers from
                    the socket, and answer each with a socket connected to that port inside

Both end when the socket is closed: the program copies its input to nowhere. It is small, and has
no rights in the namespace. Python runs only for connections into it.
"""

import _socket
import fcntl
import posix as os
import sys

HOLD, CONNECT = "hold", "connect"
HERE = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
CONNECT_SECONDS = 5
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_PORT_SIZE = 2


def hold(program: str) -> None:
    enter_own_network()
    os.write(0, b"ready")
    os.execve(program, [program], {})


def connect(holder: int) -> None:
    if _libc("setns", os.pidfd_open(holder), _CLONE_NEWUSER | _CLONE_NEWNET) < 0:
        raise OSError("the network namespace cannot be joined")
    product = _socket.socket(fileno=0)
    while len(request := product.recv(_PORT_SIZE)) == _PORT_SIZE:
        answer(product, int.from_bytes(request, "little"))


def enter_own_network() -> None:
    user, group = os.getuid(), os.getgid()
    if _libc("unshare", _CLONE_NEWUSER | _CLONE_NEWNET) < 0:
        raise OSError("no network namespace can be made")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    made = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    request = b"lo".ljust(16, b"\0") + _IFF_UP.to_bytes(2, sys.byteorder) + bytes(22)
    fcntl.ioctl(made.fileno(), _SIOCSIFFLAGS, request)
    made.close()


def answer(product: "_socket.socket", port: int) -> None:
    """Send a socket connected to the port, or none if that fails."""
    made = connected(port)
    if made is None:
        product.send(b"0")
        return
    file = made.fileno().to_bytes(4, sys.byteorder)
    product.sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, file)])
    made.close()


def connected(port: int) -> "_socket.socket | None":
    for family, address in HERE:
        made = _socket.socket(family, _socket.SOCK_STREAM)
        made.settimeout(CONNECT_SECONDS)
        try:
            made.connect((address, port))
        except OSError:
            made.close()
            continue
        return made
    return None


def _libc(name: str, *arguments: int) -> int:
    import _ctypes

    libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    result: int = _ctypes.call_function(_ctypes.dlsym(libc, name), arguments)
    return result


if __name__ == "__main__":
    try:
        if sys.argv[1] == HOLD:
            hold(sys.argv[2])
        else:
            connect(int(sys.argv[2]))
    except OSError as error:
        sys.exit(str(error))
