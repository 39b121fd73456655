"""What pages can reach, checked at the proxy that all requests go through."""

from typing import TYPE_CHECKING, cast

import anyio
import pytest

from rookery.browser.reach import BrowserReach, proxy
from rookery.browser.watched_page import PageEvents, WatchedPage
from rookery.core.hosts import web_address
from support.browser_site import Site

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio
PUBLIC = "https://example.com"


async def asked(reach: BrowserReach, request: str) -> tuple[int, list[str]]:
    """The response status and the reports of one request."""
    reported: list[str] = []
    async with proxy(reach, reported.append) as address:
        host, port = address.removeprefix("http://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(request.encode() + b"\r\n\r\n")
            answer = await stream.receive()
    return int(answer.split()[1]), reported


def reach(home: str, *, network: bool = True) -> BrowserReach:
    """The proxy of a browser with this page open."""
    local = bool(home) and web_address(home).is_loopback
    return BrowserReach(network=network, local=local, opened={home} - {""})


PRIVATE = """
169.254.169.254:80 metadata.google.internal:80 10.0.0.1:80 192.168.1.1:443 172.16.0.1:443
100.100.100.200:80 0.0.0.0:80 127.0.0.2:80 2130706433:80 0x7f.1:80 localhost.:80
[::ffff:127.0.0.1]:80 [::ffff:7f00:1]:80 [64:ff9b::7f00:1]:80 [2002:7f00:1::]:80 [fe80::1]:80
[fd00:ec2::254]:80 [::]:80 [fec0::1]:80 [::7f00:1]:80 [::a00:1]:80 [64:ff9b:1::7f00:1]:80
[64:ff9b:1::808:808]:80 168.63.129.16:80 [::ffff:168.63.129.16]:80
"""


@pytest.mark.parametrize("home", [PUBLIC, "http://localhost:3000"])
async def test_private_addresses_are_refused_in_every_notation(home: str):
    for host in PRIVATE.split():
        for request in (f"CONNECT {host} HTTP/1.1", f"GET http://{host}/ HTTP/1.1"):
            status, reported = await asked(reach(home), request)
            assert (status, len(reported)) == (403, 1), request


async def test_local_pages_reach_this_machine_and_remote_pages_do_not(site: Site):
    where = site.origin.removeprefix("http://")
    request = f"GET http://{where}/other HTTP/1.1\r\nHost: {where}"
    assert (await asked(reach(site.origin), request)) == (200, [])
    status, reported = await asked(reach(PUBLIC), request)
    assert status == 403
    assert reported == [
        f"A request to {where} was refused. Pages from elsewhere cannot reach this machine."
    ]
    assert (await asked(reach(""), request))[0] == 403


async def test_without_network_only_this_machine_is_reached(site: Site):
    status, _ = await asked(reach(site.origin, network=False), "CONNECT example.com:443 HTTP/1.1")
    assert status == 403
    where = site.origin.removeprefix("http://")
    for name in ("localhost", "127.0.0.1"):
        request = f"CONNECT {name}:{where.partition(':')[2]} HTTP/1.1"
        assert (await asked(reach(site.origin, network=False), request)) == (200, [])


async def test_the_browser_fetches_nothing_by_itself():
    assert await asked(reach(PUBLIC), "CONNECT update.googleapis.com:443 HTTP/1.1") == (403, [])


@pytest.mark.parametrize("request_line", ["nonsense", "GET / HTTP/1.1", "CONNECT :x HTTP/1.1"])
async def test_an_invalid_request_is_refused(request_line: str):
    assert (await asked(reach(PUBLIC), request_line))[0] in (400, 403)


async def test_an_unreachable_server_is_reported_to_the_browser():
    with Site().open() as gone:
        pass
    where = gone.origin.removeprefix("http://")
    assert (await asked(reach(gone.origin), f"CONNECT {where} HTTP/1.1"))[0] == 502


@pytest.mark.parametrize(("local", "reported"), [(True, 1), (False, 0)])
async def test_local_pages_reach_only_known_remote_hosts(local: bool, reported: int):
    """The model may have written such a page, and it could leak data."""

    async def find(host: str, port: int) -> list[str]:
        raise OSError("It leads nowhere.")

    only_known = BrowserReach(
        network=True, local=local, find=find, knows=lambda host: str(host) == "known.test:443"
    )
    assert (await asked(only_known, "CONNECT known.test:443 HTTP/1.1"))[1] == []
    for request in ("CONNECT evil.test:443 HTTP/1.1", "GET http://known.test/ HTTP/1.1"):
        assert len((await asked(only_known, request))[1]) == reported


def test_a_remote_page_does_not_lead_to_this_machine_even_if_that_was_approved():
    here, there = "http://localhost:3000", "https://example.com"

    def page(*, local: bool) -> WatchedPage:
        reach = BrowserReach(network=True, local=local)
        return WatchedPage(cast("Page", None), {here, there}, reach, PageEvents())

    assert page(local=False).refusal(f"{here}/") == (
        "Pages from elsewhere cannot reach this machine. Use navigate to open it."
    )
    assert page(local=False).refusal(f"{there}/other") == ""
    assert page(local=True).refusal(f"{here}/other") == ""
    assert page(local=True).refusal(f"{there}/") == (
        "Pages of this machine cannot include pages from elsewhere. Use navigate to open it."
    )
