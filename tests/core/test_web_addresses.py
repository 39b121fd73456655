import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.hosts import origin_of, web_address
from support.each_row import each_row


@each_row(
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


@each_row(
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
