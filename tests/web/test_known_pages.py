"""Which pages ask, and how long an approval lasts."""

from pathlib import Path

import pytest

from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.facts import TaskOpened, next_event
from rookery.core.limits import Limits
from rookery.core.settings_sections import WebSettings
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.workspace import Place
from rookery.errors import Denied, ToolError
from rookery.permissions.approval import AllowRules, stored_rules
from rookery.web.web_tools import KnownPages, WebFetch
from support.tool_workspace import Bench
from support.web_site import web_site

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c1", name="web_fetch", arguments={})
DONE = Outcome(text="")
DOCS, LOCAL = "https://docs.example", "http://localhost:3000"


async def no_document(name: str, data: bytes) -> tuple[str, str]:
    return "", ""


def fetch(*hosts: str, network: bool = True) -> WebFetch:
    settings = WebSettings(hosts=hosts)
    return WebFetch(settings, Limits(), network=network, read_document=no_document)


def rules(folder: Path) -> AllowRules:
    return AllowRules(folder / "rules.json", folder, place=Place, now=lambda: 1_000)


def hook(folder: Path, *hosts: str, automatic: bool = False) -> KnownPages:
    opened = next_event(None, TaskOpened(text=f"Read {DOCS}/ and go on."), 0)
    return KnownPages(rules(folder), fetch(*hosts).is_listed, lambda: automatic, lambda: [[opened]])


def page(about: str, path: str = "/") -> Action:
    async def perform(permit: Permit) -> Outcome:
        raise AssertionError("It must not be performed.")

    return Action(
        title="",
        perform=perform,
        external=f"web {about}",
        spares_files=True,
        payload={"url": f"{about}{path}"},
    )


NO_OPINION, ALLOW, ASK = Decision.NONE, Decision.ALLOW, Decision.ASK
RULINGS = {
    DOCS: NO_OPINION,
    "https://listed.example": ALLOW,
    LOCAL: ASK,
    "http://127.0.0.1:3000": ASK,
    "http://[::1]": ASK,
    "http://localhost:4000": ALLOW,
    "http://10.0.0.1:8080": ALLOW,
    "search brave": NO_OPINION,
}


@pytest.mark.parametrize(("about", "ruling"), RULINGS.items(), ids=RULINGS)
async def test_what_the_settings_list_is_allowed_and_this_machine_asks(
    tmp_path: Path, about: str, ruling: Decision
):
    for automatic in (False, True):
        pages = hook(
            tmp_path, "listed.example", "localhost:4000", "10.0.0.1:8080", automatic=automatic
        )
        assert (await pages.before(CALL, page(about))).decision is ruling


async def test_an_approval_lasts_for_the_origin_until_the_task_ends(tmp_path: Path):
    pages = hook(tmp_path)
    for about in (DOCS, LOCAL, "search brave"):
        await pages.after(CALL, page(about), DONE)
        assert (await pages.before(CALL, page(about))).decision is ALLOW
    other = await pages.before(CALL, page("https://docs.example:8443"))
    assert other.decision is NO_OPINION
    assert (await hook(tmp_path).before(CALL, page(DOCS))).decision is NO_OPINION


async def test_what_ran_automatically_was_not_approved(tmp_path: Path):
    pages = hook(tmp_path, automatic=True)
    await pages.after(CALL, page(DOCS), DONE)
    assert (await pages.before(CALL, page(DOCS))).decision is NO_OPINION
    assert (await pages.before(CALL, page(LOCAL))).decision is ASK
    await pages.after(CALL, page(LOCAL), DONE)
    assert (await pages.before(CALL, page(LOCAL))).decision is ALLOW


async def test_an_automatic_run_asks_about_a_page_that_nothing_names(tmp_path: Path):
    made_up = page("https://made-up.example", "/?data=1")
    assert (await hook(tmp_path).before(CALL, made_up)).decision is NO_OPINION
    pages = hook(tmp_path, "listed.example", automatic=True)
    ruling = await pages.before(CALL, made_up)
    assert ruling.decision is ASK
    assert "could carry data to made-up.example" in ruling.reasons[0]
    assert (await pages.before(CALL, page(DOCS, "/?data=1"))).decision is ASK
    assert (await pages.before(CALL, page("https://a.listed.example"))).decision is ASK
    assert (await pages.before(CALL, page("https://listed.example", "/?a"))).decision is ALLOW
    await pages.after(CALL, made_up, DONE)  # a person has approved it
    assert (await pages.before(CALL, page("https://made-up.example"))).decision is ALLOW


async def test_always_is_a_rule_for_pages_and_for_nothing_else(tmp_path: Path):
    book = rules(tmp_path)
    assert book.rule_for(page(DOCS)) == f"web pages of {DOCS} in {tmp_path}, for 30 days"
    assert book.rule_for(page("search brave")).startswith("web searches with brave in ")
    book.add(page(DOCS))
    assert [rule.words for rule in stored_rules(tmp_path / "rules.json", 1_000)] == [
        book.rule_for(page(DOCS))
    ]
    later = hook(tmp_path)
    assert (await later.before(CALL, page(DOCS))).decision is ALLOW
    assert (await later.before(CALL, page("http://docs.example"))).decision is NO_OPINION
    assert not rules(tmp_path).hosts()


async def test_the_question_shows_the_whole_address(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    short = await bench.prepare(fetch(), url=f"{DOCS}/a?data=1#top")
    assert (short.title, list(short.notes)) == (f"Fetch {DOCS}/a?data=1", [])
    url = f"{DOCS}/search?data={'x' * 200}"
    long = await bench.prepare(fetch(), url=url)
    assert (long.title, list(long.notes)) == (f"Fetch a page of {DOCS}", [f"url: {url}"])
    assert long.external == f"web {DOCS}"
    assert not long.may_change_files
    assert long.changes_things


async def test_nothing_is_fetched_without_a_permit_for_it(tmp_path: Path):
    bench = Bench(tmp_path, Limits())
    action = await bench.prepare(fetch(), url=f"{DOCS}/a")
    with pytest.raises(Denied):
        await action.perform(Permit("0" * 64))


async def test_the_next_part_of_a_page_is_not_downloaded_again(tmp_path: Path):
    bench = Bench(tmp_path, Limits(page_characters=100))
    tool = fetch()
    with web_site() as site:
        first = await bench.call(tool, url=f"{site.origin}/long")
        again = await bench.call(tool, url=f"{site.origin}/long", offset=100)
        assert "line 0\n" in first.text
        assert "characters 100 to" in again.text
        assert len(site.requests) == 1
        await bench.call(tool, url=f"{site.origin}/long")
        assert len(site.requests) == 2


REFUSED = {
    "http://10.0.0.1/": r'private address.*web.hosts = \["10.0.0.1:80"\]',
    "http://169.254.169.254/": r"private address\.$",
    "ftp://docs.example/": "Only http:// and https://",
    f"{DOCS.replace('//', '//user:pass@')}/": "user name or password",
}


@pytest.mark.parametrize(("url", "reason"), REFUSED.items(), ids=REFUSED)
async def test_some_addresses_are_refused_without_a_question(tmp_path: Path, url: str, reason: str):
    with pytest.raises(ToolError, match=reason):
        await Bench(tmp_path, Limits()).prepare(fetch(), url=url)


async def test_without_network_nothing_is_asked(tmp_path: Path):
    with pytest.raises(ToolError, match="The network is turned off"):
        await Bench(tmp_path, Limits()).prepare(fetch(network=False), url=DOCS)
