"""Servers of this machine that a command in the sandbox could not reach."""

import socket

import pytest

from rookery.sandbox.bubblewrap import listening_ports
from rookery.sandbox.connections import refused_ports

SAID = {
    "old curl": "curl: (7) Failed to connect to localhost port 5432: Connection refused",
    "new curl": (
        "curl: (7) Failed to connect to localhost port 5432 after 0 ms: Couldn't connect to server"
    ),
    "curl by address": "* connect to 127.0.0.1 port 5432 failed: Connection refused",
    "psql": (
        'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused'
    ),
    "psql on IPv6": 'server at "localhost" (::1), port 5432 failed: Connection refused',
    "node": "Error: connect ECONNREFUSED 127.0.0.1:5432",
    "node on IPv6": "Error: connect ECONNREFUSED ::1:5432",
    "requests": "HTTPConnectionPool(host='localhost', port=5432): [Errno 111] Connection refused",
    "redis": "Error 111 connecting to localhost:5432. Connection refused.",
    "go": "dial tcp 127.0.0.1:5432: connect: connection refused",
    "go on IPv6": "dial tcp [::1]:5432: connect: connection refused",
    "wget": "Connecting to localhost (localhost)|127.0.0.1|:5432... failed: Connection refused.",
    "java": "Connection to localhost:5432 refused. Check that the hostname and port are correct",
    "mysql": "ERROR 2003 (HY000): Can't connect to MySQL server on '127.0.0.1:5432' (111)",
}


ALSO = [
    ("curl http://localhost:8080/", "Connection refused", [8080]),
    ("curl http://localhost:8080/", "hello", []),
    ("make test", "Listening on http://localhost:8080", []),
    ("make test", "db.example.com:5432: Connection refused", []),
    ("make test", "localhost:99999: Connection refused", []),
    ("make test", "localhost:1 and localhost:2 refused, localhost:1 again", [1, 2]),
]


def test_refused_localhost_ports_are_read_from_program_output():
    for who, said in SAID.items():
        assert refused_ports("make test", said) == [5432], who
    for command, said, ports in ALSO:
        assert refused_ports(command, said) == ports, said


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_is_listed_while_a_server_listens_on_it(address: str):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        assert port in listening_ports("self")
    assert port not in listening_ports("self")
