"""A webhook starts a session of its schedule, and its token is good for nothing else."""

from pathlib import Path

import pytest

from rookery.manager.schedules.schedule_file import CallWebhook
from rookery.manager.web.access import WEBHOOK_BODY, WRONG_PER_MINUTE
from support.web_server import BUSY, PROJECT, SCHEDULE, SESSION, WEBHOOK_TOKEN, introduction, served

pytestmark = pytest.mark.anyio
WEBHOOK = f"/p/{PROJECT}/api/webhook"
BEARER = {"Authorization": f"Bearer {WEBHOOK_TOKEN}"}


async def test_a_webhook_starts_a_session_and_the_same_id_starts_it_once(tmp_path: Path):
    async with served(tmp_path) as at, at.client(headers=BEARER) as program:
        first = await program.post(WEBHOOK, json={"text": "Build 7 failed.", "id": "7"})
        assert (first.status_code, first.json()) == (202, {"session_ids": [SESSION]})
        again = await program.post(WEBHOOK, json={"text": "Build 7 failed.", "id": "7"})
        assert (again.status_code, again.json()) == (200, {"session_ids": []})
        (done,) = at.requests.done
        assert done == CallWebhook(schedule_id=SCHEDULE, text="Build 7 failed.", request_id="7")
        busy = await program.post(WEBHOOK, json={"text": BUSY})
        assert (busy.status_code, busy.json()["error"]["message"]) == (409, BUSY)


async def test_the_token_of_a_webhook_is_valid_for_its_webhook_only(tmp_path: Path):
    async with served(tmp_path) as at, at.client(headers=BEARER) as program:
        for path in ("/api/do", f"/p/{PROJECT}/api/do"):
            body = {"kind": "call_webhook", "schedule_id": SCHEDULE}
            assert (await program.post(path, json=body)).status_code == 401
        assert (await program.get("/api/health")).status_code == 401
        for path in ("/api/webhook", "/p/fedcba9876543210/api/webhook"):
            assert (await program.post(path, json={})).status_code == 401
        async with at.socket() as page:
            await page.send(introduction(WEBHOOK_TOKEN))
            await page.wait_closed()
            assert page.close_code == 1008
        own = await program.post(WEBHOOK, json={}, headers=at.bearer)
        assert own.status_code == 401
        unknown = {"kind": "call_webhook", "schedule_id": SCHEDULE}
        assert (await program.post("/api/do", json=unknown, headers=at.bearer)).status_code == 409
        assert at.requests.done == []


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({}, b"[]", 400),
        ({}, b'{"text": 7}', 400),
        ({}, b"x" * (WEBHOOK_BODY + 1), 413),
        ({"Content-Type": "text/plain"}, b"{}", 415),
        ({"Origin": "https://evil.example"}, b"{}", 403),
        ({"Origin": "null"}, b"{}", 403),
        ({"Sec-Fetch-Site": "cross-site"}, b"{}", 403),
        ({"Host": "evil.example"}, b"{}", 421),
        ({"X-Forwarded-For": "9.9.9.9"}, b"{}", 403),
        ({"Authorization": f"Basic {WEBHOOK_TOKEN}"}, b"{}", 401),
        ({"Authorization": f"Bearer {WEBHOOK_TOKEN[:-1]}"}, b"{}", 401),
    ],
)
async def test_other_requests_to_a_webhook_are_refused(
    tmp_path: Path, headers: dict[str, str], content: bytes, status: int
):
    given = {**BEARER, "Content-Type": "application/json", **headers}
    async with served(tmp_path) as at, at.client() as program:
        answer = await program.post(WEBHOOK, content=content, headers=given)
        assert (answer.status_code, answer.content) == (status, b"")
        assert at.requests.done == []


async def test_guesses_are_limited_and_do_not_lock_the_webhook(tmp_path: Path):
    async with served(tmp_path) as at, at.client() as program:
        found = [
            (
                await program.post(WEBHOOK, json={}, headers={"Authorization": f"Bearer {guess}"})
            ).status_code
            for guess in range(WRONG_PER_MINUTE + 2)
        ]
        assert found == [401] * WRONG_PER_MINUTE + [429] * 2
        assert (await program.post(WEBHOOK, json={}, headers=BEARER)).status_code == 202
