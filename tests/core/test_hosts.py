"""Which hosts an entry of a list covers."""

import pytest

from rookery.core.hosts import HostPort, covered, entries, entry, faulty_entries, host

COVERS = (
    ("example.com", "example.com", 443, True),
    ("example.com", "example.com", 80, True),
    ("example.com", "example.com", 22, False),
    ("example.com", "www.example.com", 443, False),
    ("example.com", "badexample.com", 443, False),
    ("Example.COM:8443", "example.com", 8443, True),
    ("example.com:8443", "example.com", 443, False),
    ("*.example.com", "a.b.example.com", 443, True),
    ("*.example.com", "example.com", 443, False),
    ("*.example.com", "badexample.com", 443, False),
    ("localhost:5432", "localhost", 5432, True),
    ("localhost:5432", "127.0.0.1", 5432, False),
    ("[::1]:80", "::1", 80, True),
    ("10.0.0.7:8080", "10.0.0.7", 8080, True),
)


@pytest.mark.parametrize(("text", "name", "port", "covers"), COVERS)
def test_an_entry_covers_only_its_own_hosts(text: str, name: str, port: int, covers: bool):
    assert covered(HostPort(name, port), entries([text])) is covers


FAULTY = ("", "*", "*.*", "http://example.com", "a b", "localhost", "127.0.0.1", "10.0.0.1")
FAULTY += ("example.com:0", "example.com:99999", "127.1:80", "2130706433:80", "me@example.com")
FAULTY += ("*.10.0.0.1:80", "169.254.169.254", "exämple.com")


@pytest.mark.parametrize("text", FAULTY)
def test_an_invalid_host_is_named(text: str):
    assert entry(text) is None
    assert faulty_entries([text, "example.com"])[0].startswith(f"'{text}' in sandbox.hosts")


HOSTS = (
    ("Example.com.", 443, "example.com:443"),
    ("[::1]", 80, "[::1]:80"),
    ("127.0.0.1", 80, "127.0.0.1:80"),
    ("127.1", 80, None),
    ("0x7f000001", 80, None),
    ("2130706433", 80, None),
    ("", 80, None),
    ("a", 0, None),
    ("evil.com\\@good.com", 80, None),
)


@pytest.mark.parametrize(("name", "port", "plain"), HOSTS)
def test_only_plain_names_and_addresses_are_hosts(name: str, port: int, plain: str | None):
    found = host(name, port)
    assert (str(found) if found else None) == plain
