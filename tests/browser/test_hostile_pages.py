"""Remote pages cannot reach services of this machine.

Not by what they started before they were left, nor from inside another page. Nothing leaves the
browser except through the proxy.
"""

import socket
from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from rookery.browser.browser_session import RESTARTED
from rookery.platform.http_proxy import OutOfReach
from support.browser_site import Bench, Site, open_bench
from support.processes import PATIENCE

pytestmark = pytest.mark.anyio
STRANGER = "stranger.example"
MOMENT = 1.0
"""Seconds in which a request that must not come would have come."""

LEAVING = """<title>Leaving</title><script>addEventListener("pagehide", () => {
  fetch("/later", {method: "POST", keepalive: true, body: "x", mode: "no-cors"});
  navigator.sendBeacon("/later", "x");
})</script>"""
GREEDY = """<title>Greedy</title><script>
for (const way of ["/greedy", "/asked"])
  fetch(`http://localhost:PORT${way}`, {mode: "no-cors", method: "POST", body: "x"});
fetch("/at-once", {mode: "no-cors", method: "POST", body: "x"});
new WebSocket("ws://localhost:PORT/socket");
</script>"""

GATHER = """async server => {
  const peer = new RTCPeerConnection({
    iceSites: [
      {urls: `stun:${server}`},
      {urls: `turn:${server}`, username: "words-of-the-page", credential: "x"},
      {urls: `turn:${server}?transport=tcp`, username: "words-of-the-page", credential: "x"},
    ],
  });
  peer.createDataChannel("any");
  await peer.setLocalDescription(await peer.createOffer());
  const [address, port] = server.split(":");
  const told = (await peer.createOffer()).sdp.replace(/a=setup:actpass/, "a=setup:active");
  await peer.setRemoteDescription({type: "answer", sdp: told});
  await peer.addIceCandidate({
    candidate: `candidate:1 1 udp 2113937151 ${address} ${port} typ host`, sdpMLineIndex: 0,
  });
  const late = new Promise(done => setTimeout(done, 1500, true));
  const complete = new Promise(done => peer.onicegatheringstatechange =
    () => peer.iceGatheringState == "complete" && done(true));
  return peer.iceGatheringState == "complete" || await Promise.race([complete, late]);
}"""
QUIC = """async server => {
  const hash = {algorithm: "sha-256", value: new Uint8Array(32)};
  const transport = new WebTransport(`https://${server}/`, {serverCertificateHashes: [hash]});
  return await transport.ready.then(() => false, () => true);
}"""
NAMES = ("RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport")
IN_A_FRAME = """names => {
  const frame = document.body.appendChild(document.createElement("iframe"));
  return names.filter(name => name in window || name in frame.contentWindow);
}"""


@pytest.fixture
def here() -> Iterator[Site]:
    with Site(pages={"/": "<title>Here</title><h1>here</h1>"}).open() as site:
        yield site


@pytest.fixture
def there(here: Site) -> Iterator[Site]:
    """A site that the browser takes for a remote one."""
    greedy = GREEDY.replace("PORT", str(here.port))
    with Site(pages={"/leaving": LEAVING, "/greedy": greedy}).open() as site:
        site.redirections["/later"] = f"http://localhost:{here.port}/late"
        site.redirections["/at-once"] = f"http://localhost:{here.port}/redirected"
        yield site


@pytest.fixture(scope="module")
async def bench(program: str) -> AsyncIterator[Bench]:
    async def find(host: str, port: int) -> list[str]:
        if host != STRANGER:
            raise OutOfReach("It is not part of this test.")
        return ["127.0.0.1"]

    async with open_bench(program, network=True, find=find) as bench:
        yield bench


async def test_a_remote_page_cannot_reach_this_machine(bench: Bench, here: Site, there: Site):
    await bench.visit(f"http://{STRANGER}:{there.port}/greedy")
    assert await there.receives("/at-once")
    assert not await here.receives("/", within=MOMENT)


async def test_a_page_left_behind_cannot_use_the_access_of_the_next_one(
    bench: Bench, here: Site, there: Site
):
    await bench.visit(f"http://{STRANGER}:{there.port}/leaving")
    shown = await bench.go(f"http://localhost:{here.port}/", sees=False)
    assert shown.text.startswith(f"The browser is at http://localhost:{here.port}/.\n{RESTARTED}")
    there.late.set()
    assert not await here.receives("/late", within=MOMENT)


FRAMED = (
    "<iframe src='STRANGER/greedy?0'></iframe>",
    "<iframe src='/redirect?1'></iframe>",
    "<iframe src='STRANGER/greedy?{a|2}'></iframe>",
    "<object data='STRANGER/greedy?3'></object>",
    "<iframe src='OTHER/inner?4'></iframe>",
    "<iframe sandbox='allow-scripts' src='OTHER/inner?5'></iframe>",
)
OPENED = ("<script>open('STRANGER/greedy?6')</script>", "<script>open('/redirect?7')</script>")
"""The number at the end of each address tells whose request it is."""


@pytest.mark.parametrize("ways", [FRAMED, OPENED], ids=["framed", "opened"])
async def test_a_remote_page_inside_a_local_one_cannot_reach_this_machine(
    bench: Bench, here: Site, there: Site, ways: tuple[str, ...]
):
    stranger = f"http://{STRANGER}:{there.port}"
    for way in ("0", "1", "{a|2}", "3", "4", "5", "6", "7"):
        there.pages[f"/greedy?{way}"] = there.pages["/greedy"]
        here.redirections[f"/redirect?{way}"] = f"{stranger}/greedy?{way}"
        here.pages[f"/inner?{way}"] = f"<script>location = '{stranger}/greedy?{way}'</script>"
    words = "".join(ways).replace("STRANGER", stranger)
    words = words.replace("OTHER", f"http://127.0.0.1:{here.port}")
    here.pages["/"] = f"<title>Here</title>{words}<script>fetch('/own')</script>"
    shown = await bench.go(f"http://localhost:{here.port}/", sees=False)
    assert await here.receives("/own")
    assert not await here.receives("asked", within=MOMENT)
    assert there.asked == []
    refused = len(ways) if ways is FRAMED else 0
    assert shown.text.count("Pages of this machine cannot include") == refused, shown.text


async def test_local_pages_reach_each_other_and_remote_resources(
    bench: Bench, here: Site, there: Site
):
    there.pages["/library.js"] = "console.log('library')"
    here.pages["/"] = (
        f"<title>Here</title><script src='http://{STRANGER}:{there.port}/library.js'></script>"
        f"<iframe src='http://127.0.0.1:{here.port}/inner'></iframe>"
        f"<script>fetch('http://127.0.0.1:{here.port}/service', {{method: 'POST'}})</script>"
    )
    shown = await bench.go(f"http://localhost:{here.port}/", sees=False)
    assert "[log] library" in shown.text
    assert await here.receives("GET /inner")
    assert await here.receives("POST /service")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Serve on a non-loopback address of this machine, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as received:
        received.bind((_own_address(), 0))
        received.setblocking(False)
        yield received


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))  # sends nothing, only chooses an address
        except OSError:
            return "127.0.0.2"
        return str(way.getsockname()[0])


async def test_nothing_bypasses_the_proxy(bench: Bench, here: Site, listener: socket.socket):
    await bench.visit(f"http://localhost:{here.port}/")
    browser = bench.session.running.context.browser
    assert browser is not None
    # in a separate context, because ours removes these interfaces
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(f"http://localhost:{here.port}/")
        address, port = listener.getsockname()
        with socket.create_server((address, port)) as door, anyio.fail_after(PATIENCE):
            door.setblocking(False)
            for attempt in (GATHER, QUIC):
                assert await page.evaluate(attempt, f"{address}:{port}")
            with pytest.raises(BlockingIOError):
                door.accept()
    finally:
        await context.close()
    with pytest.raises(BlockingIOError):
        listener.recvfrom(2048)


async def test_pages_and_frames_have_no_interface_for_datagrams(bench: Bench, here: Site):
    await bench.visit(f"http://localhost:{here.port}/")
    page = bench.session.running.page.page
    assert await page.evaluate(IN_A_FRAME, list(NAMES)) == []
    await bench.session.running.replace_page()
    await bench.visit(f"http://localhost:{here.port}/")
    page = bench.session.running.page.page
    assert await page.evaluate(IN_A_FRAME, list(NAMES)) == []


async def test_permissions_are_denied(bench: Bench, site: Site):
    assert "[log] denied" in (await bench.go(f"{site.origin}/asking", sees=False)).text
