"""Forks wardens, which takes a tenth of the time of starting Python for each.

`wardens` runs this as a process of its own. For each request on the socket that is its standard
input it forks a warden. A request has three files: the warden's socket, rookery's end of the
command's output, and the other end. The answer is the warden's PID. The warden is a child of
rookery, not of this process, which has no other thread, no secret and no file of rookery's.
"""

# what a warden may import: see there
import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import gc
import posix as os
import sys

from rookery.platform.starter import become, preload
from rookery.platform.warden import DEV_NULL, guard

CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}
"""The number of the system call `clone`, on machines on which wardens can be forked."""
PIPE, TERMINAL = b"p", b"t"
PID_SIZE = 8
_CLONE_PARENT = 0x8000
_FILES, _FILE_SIZE = 3, 4


def main() -> None:
    try:
        serve()
    finally:
        os._exit(0)


def serve() -> None:
    """Fork wardens until rookery closes the socket."""
    gc.disable()  # looking at all objects would copy the memory that wardens share
    for script in sys.argv[2:]:
        preload(script)
    rookery = _socket.socket(fileno=os.dup(0))
    room = _socket.CMSG_SPACE(_FILES * _FILE_SIZE)
    while True:
        place, messages, *_ = rookery.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC)
        if not place:
            return
        files = _files(messages[0][2])
        pid = _fork_beside_us()
        if pid == 0:
            rookery.close()
            _become_warden(*files, on_terminal=place == TERMINAL)
            return
        for file in files:
            os.close(file)
        rookery.send(pid.to_bytes(PID_SIZE, "little"))


def _files(data: bytes) -> list[int]:
    places = range(0, _FILES * _FILE_SIZE, _FILE_SIZE)
    return [int.from_bytes(data[at : at + _FILE_SIZE], sys.byteorder) for at in places]


def _fork_beside_us() -> int:
    """Fork a process whose parent is ours. The C library need not know, as we have one thread."""
    libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    number = CLONE_NUMBERS[os.uname().machine]
    words = (number, _CLONE_PARENT | _signal.SIGCHLD, 0, 0, 0, 0)
    pid: int = _ctypes.call_function(_ctypes.dlsym(libc, "syscall"), words)
    if pid < 0:
        raise OSError("no process can be forked")
    return pid


def _become_warden(product: int, output: int, output_in: int, *, on_terminal: bool) -> None:
    os.setsid()
    os.dup2(os.open(DEV_NULL, os.O_RDONLY), 0)
    for standard in (1, 2):
        os.dup2(output_in, standard)
    os.close(output_in)
    guard(product, output, on_terminal=on_terminal, become=become)
