"""Real MCP servers, language servers and kits, installed once into the tests' cache."""

import fcntl
import os
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from support.free_ports import free_port

VERSION = "2026.8.31"
PACKAGES = [
    f"@modelcontextprotocol/server-everything@{VERSION}",
    f"@modelcontextprotocol/server-filesystem@{VERSION}",
]
TYPESCRIPT = ["typescript-language-server@5.3.0", "typescript@5.9.3"]
PYRIGHT_VERSION = "1.1.414"
ACP = "@agentclientprotocol/sdk"
ACP_VERSION = "2.4.0"
PATIENCE = 60.0


@cache
def npm_server(name: str) -> str:
    """The path of an MCP server's program. Skips the test if there is no npm."""
    return str(_programs(f"mcp-{VERSION}", PACKAGES) / name)


@cache
def pyright_server() -> Path:
    """The folder with the language server's program. Skips the test if there is no npm."""
    return _programs(f"pyright-{PYRIGHT_VERSION}", [f"pyright@{PYRIGHT_VERSION}"])


@cache
def typescript_server() -> Path:
    """The folder with the language server's program. Skips the test if there is no npm."""
    return _programs("typescript-" + TYPESCRIPT[0].rpartition("@")[2], TYPESCRIPT)


@cache
def acp_kit() -> Path:
    """The folder of the Agent Client Protocol's kit. Skips the test if there is no npm."""
    return _programs(f"acp-{ACP_VERSION}", [f"{ACP}@{ACP_VERSION}"]).parent / ACP


def _programs(name: str, packages: list[str]) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, which brings the servers to test with")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "rookery-tests" / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _install(npm, folder, packages)
    return folder / "node_modules" / ".bin"


def _install(npm: str, folder: Path, packages: list[str]) -> None:
    done = subprocess.run(
        [npm, "install", "--no-save", "--ignore-scripts", "--prefix", str(folder), *packages],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"npm could not install {packages[0]}: {done.stderr.strip()[-200:]}")
    (folder / "complete").touch()


@contextmanager
def everything_over_http(kind: str) -> Iterator[str]:
    """Run the reference server on its own port; `kind` is streamableHttp or sse."""
    program = npm_server("mcp-server-everything")
    port = free_port()
    process = subprocess.Popen(
        [program, kind],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _wait_for(process, f"on port {port}".encode())
        _wait_until_reached(port)
        yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _wait_for(process: "subprocess.Popen[bytes]", text: bytes) -> None:
    assert process.stderr is not None
    deadline = time.monotonic() + PATIENCE
    said = b""
    while text not in said:
        ready, _, _ = select.select([process.stderr], [], [], deadline - time.monotonic())
        data = os.read(process.stderr.fileno(), 4096) if ready else b""
        assert data, f"The server never listened: {said!r}"
        said += data


def _wait_until_reached(port: int) -> None:
    """Wait until it accepts connections, which may be after it has printed its port."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "The server never listened."
            time.sleep(0.02)
