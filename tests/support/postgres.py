"""A real PostgreSQL in its own folder, on a free port."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from rookery.fleet.cli import _check_database
from support.free_ports import free_port

SETTINGS = "-c shared_buffers=16MB -c max_connections=200 -c log_min_messages=fatal"
SECONDS = 180
TEMPLATE = "fleet_0"
MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""More than the databases of all tests, 8 MB each."""


def postgres_programs() -> Path | None:
    """The folder of `initdb`: on the path, or where Debian puts it."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return debian[-1].parent if debian else None


class Postgres:
    """A server that is running until `close`."""

    def __init__(self, *, tls: bool = False, durable: bool = False) -> None:
        programs = postgres_programs()
        if programs is None:
            pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
        self._programs = programs
        self._user = _unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=_place(durable)))
        self._made = 0
        self.certificate = b""
        if self._user:
            shutil.chown(self._folder, self._user)
        self.port = free_port()
        self._run("initdb", "--no-sync", "-U", "rookery", "-A", "trust", "-E", "UTF8", "--locale=C")
        self._settings = SETTINGS if durable else f"{SETTINGS} -c fsync=off"
        if tls:
            self._settings += f" {self._certified()}"
        self.start()

    def _certified(self) -> str:
        """Make a certificate for 127.0.0.1, and refuse connections without TLS."""
        script = """cd "$1"
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 \
                -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
                -keyout server.key -out server.crt 2>/dev/null
            chmod 600 server.key
            echo "hostssl all all 127.0.0.1/32 trust" > pg_hba.conf
            cat server.crt"""
        words = ["sh", "-ec", script, "sh", str(self._folder / "data")]
        made = subprocess.run(words, check=True, stdout=subprocess.PIPE, cwd="/", user=self._user)
        self.certificate = made.stdout
        return "-c ssl=on"

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self._folder} {self._settings}"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-w", "-t", str(SECONDS), "-l", log, "-o", options, "start")

    def stop(self, how: str = "immediate") -> None:
        """`immediate` is what a crash is."""
        self._run("pg_ctl", "-w", "-t", str(SECONDS), "-m", how, "stop")

    def close(self) -> None:
        self.stop()
        with_rights = ["rm", "-rf", str(self._folder)]
        subprocess.run(with_rights, check=True, cwd="/", user=self._user)

    def new_database(self) -> str:
        """The address of an empty database with the fleet's tables: a copy of the first."""
        if not self._made:
            self._create(TEMPLATE)
            _check_database(self.address(TEMPLATE))  # creates the tables
        self._made += 1
        name = f"fleet_{self._made}"
        self._create(name, template=TEMPLATE)
        return self.address(name)

    def _create(self, name: str, template: str = "template1") -> None:
        with psycopg.connect(self.address("postgres"), autocommit=True) as server:
            named = server.info.server_version >= 150000  # before, it was the only strategy
            strategy = "strategy file_copy" if named else ""
            server.execute(f"create database {name} template {template} {strategy}")

    def address(self, name: str) -> str:
        return f"postgresql://rookery@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        with tempfile.TemporaryFile("w+") as output:
            ended = subprocess.run(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd="/",
                user=self._user,
                timeout=SECONDS,
            )
            output.seek(0)
            assert ended.returncode == 0, output.read()


def _place(durable: bool) -> Path | None:
    """Memory, if there is room: to create the 300 files of a database costs a tenth there."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    return MEMORY if roomy and not durable and os.access(MEMORY, os.W_OK) else None


def _unprivileged() -> str | None:
    """The user that the server runs as: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
