import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.hosts import is_public, origin_of, web_address


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://localhost:3000/a?b#c", "http://localhost:3000"),
        ("http://LOCALHOST:80", "http://localhost"),
        ("https://example.com:443/", "https://example.com"),
        ("https://example.com:8443/", "https://example.com:8443"),
        ("http://[::1]:3000/", "http://[::1]:3000"),
        ("http://127.0.0.1/", "http://127.0.0.1"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str):
    assert web_address(url).origin == origin
    assert origin_of(origin) == origin


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:3000", "file:///etc/passwd", "ftp://example.com/", "//example.com/"),
        *("http:example.com", "http:/example.com", "http:///example.com", "http://"),
        *("http://a@b.example/", "http://a:b@b.example/", "http://@b.example"),
        *("http://a.example\\@b.example/", "http://a.example /", "http://a.example\t/"),
        *("http://a.example\n/", " http://a.example/", "http://bücher.example/"),
        *("http://0x7f.1/", "http://2130706433/", "http://0177.0.0.1/", "http://127.1/"),
        *("http://127.0.0.1./", "http://localhost./", "http://a..example/", "http://%6c/"),
        *("http://[::1/", "http://[::ffff:7f00:1%25eth0]/", "http://[0:0::1]/"),
        *("http://a.example:99999/", "http://a.example:x/", f"http://a.example/{'x' * 4000}"),
    ],
)
def test_an_ambiguous_address_is_refused(url: str):
    with pytest.raises(ValueError, match=r"\.$"):
        web_address(url)
    assert origin_of(url) == ""


@given(st.text())
def test_any_text_is_an_address_or_a_value_error(said: str):
    try:
        address = web_address(said)
    except ValueError:
        return
    assert web_address(address.origin).origin == address.origin


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("64:ff9b::5db8:d822", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00:ec2::254", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2002:7f00:1::", False),
        ("ff02::1", False),
        ("fec0::1", False),
        ("::7f00:1", False),
        ("::808:808", False),
        ("64:ff9b:1::7f00:1", False),
        ("64:ff9b:1::808:808", False),
        ("168.63.129.16", False),
        ("::ffff:168.63.129.16", False),
        ("64:ff9b::a83f:8110", False),
        ("2002:a83f:8110::", False),
    ],
)
def test_only_internet_addresses_are_public(address: str, public: bool):
    assert is_public(address) is public
