"""What does not go through the proxy does not leave the browser."""

import socket
from collections.abc import Iterator

import anyio
import pytest

from browser.bench import Bench, Site

pytestmark = pytest.mark.anyio

GATHER = """async server => {
  const peer = new RTCPeerConnection({
    iceServers: [
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
  const late = new Promise(done => setTimeout(done, 5000, true));
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
def listener() -> Iterator[socket.socket]:
    """On an address of this machine that is none of its loopback, if it has such a one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind((_own_address(), 0))
        heard.setblocking(False)
        yield heard


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))  # sends nothing, only chooses an address
        except OSError:
            return "127.0.0.2"
        return str(way.getsockname()[0])


@pytest.mark.parametrize("attempt", [GATHER, QUIC], ids=["webrtc", "quic"])
async def test_NET_1_nothing_is_sent_round_the_proxy(
    bench: Bench, site: Site, listener: socket.socket, attempt: str
):
    await bench.go(f"{site.origin}/other")
    browser = bench.session.running.context.browser
    assert browser is not None
    # in a context of its own, because in ours there is nothing that could be tried
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(f"{site.origin}/other")
        address, port = listener.getsockname()
        with socket.create_server((address, port)) as door, anyio.fail_after(20):
            door.setblocking(False)
            assert await page.evaluate(attempt, f"{address}:{port}")
            with pytest.raises(BlockingIOError):
                door.accept()
    finally:
        await context.close()
    with pytest.raises(BlockingIOError):
        listener.recvfrom(2048)


async def test_NET_1_pages_and_their_frames_have_nothing_that_sends_datagrams(
    bench: Bench, site: Site
):
    await bench.go(f"{site.origin}/other")
    page = bench.session.running.page.page
    assert await page.evaluate(IN_A_FRAME, list(NAMES)) == []
    await bench.session.running.replace_page()
    await bench.go(f"{site.origin}/")
    page = bench.session.running.page.page
    assert await page.evaluate(IN_A_FRAME, list(NAMES)) == []
