"""Which hosts an entry of a list covers."""

import pytest

from rookery.core.hosts import (
    HostPort,
    covered,
    entries,
    entry,
    faulty_entries,
    host,
    is_public,
    web_address,
)
from support.each_row import each_row

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


@each_row(("text", "name", "port", "covers"), COVERS)
def test_an_entry_covers_only_its_own_hosts(text: str, name: str, port: int, covers: bool):
    assert covered(HostPort(name, port), entries([text])) is covers


FAULTY = ("", "*", "*.*", "http://example.com", "a b", "localhost", "127.0.0.1", "10.0.0.1")
FAULTY += ("example.com:0", "example.com:99999", "127.1:80", "2130706433:80", "me@example.com")
FAULTY += ("*.10.0.0.1:80", "169.254.169.254", "exämple.com")


@each_row("text", FAULTY)
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


@each_row(("name", "port", "plain"), HOSTS)
def test_only_plain_names_and_addresses_are_hosts(name: str, port: int, plain: str | None):
    found = host(name, port)
    assert (str(found) if found else None) == plain


PUBLIC = ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "2002:5db8:d822::")
NOT_PUBLIC = (
    *("127.0.0.1", "10.0.0.1", "100.64.0.1", "169.254.169.254", "168.63.129.16", "0.0.0.0"),
    *("192.0.0.8", "192.88.99.1", "198.18.0.1", "224.0.0.1", "::1", "::", "fe80::1", "fd00::1"),
    *("::ffff:127.0.0.1", "::ffff:0:7f00:1", "::127.0.0.1", "64:ff9b::7f00:1", "fd00:ec2::254"),
    *("64:ff9b:1::7f00:1", "2002:7f00:1::", "fec0::1", "2001:db8::1", "3fff::1", "5f00::1"),
    *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "ff02::1", "::808:808", "64:ff9b:1::808:808"),
    *("::ffff:168.63.129.16", "64:ff9b::a83f:8110", "2002:a83f:8110::"),
)


@each_row("address", [*PUBLIC, *NOT_PUBLIC])
def test_which_addresses_are_public(address: str):
    assert is_public(address) is (address in PUBLIC)


def test_an_address_has_the_port_that_its_origin_shows():
    with pytest.raises(ValueError, match="Port 0"):
        web_address("https://example.com:0/")
