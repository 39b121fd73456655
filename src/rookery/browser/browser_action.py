"""The browser tool, and the hook that avoids repeated questions about allowed pages.

`BrowserAction` drives one page of an installed browser. `KnownOrigins` allows further steps on a
local page that was allowed once; on other pages, text and addresses written by the model always
ask. Starts with playwright load both, so nothing heavy may be imported at module level.
"""

import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from rookery.core.asks import AskKind, Ruling, allow
from rookery.core.blocks import Sight, ToolCall, picture
from rookery.core.tool_traits import BROWSER, ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments, Denied, ToolError
from rookery.first_use import lazy_pattern

if TYPE_CHECKING:
    from rookery.browser.browser_session import BrowserSession
    from rookery.browser.watched_page import Spot
    from rookery.core.hosts import WebAddress

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

NO_EXTRA = (
    "The browser tool needs the package playwright. Ask the user to run: pip install playwright"
)
NO_BROWSER = (
    "No Chromium or Chrome found on this machine. Ask the user to install one, for "
    "example Debian's package chromium, or to set browser.path."
)


def find_browser(chosen: str, search: str) -> str:
    """Return the absolute path of the browser: `chosen`, or the first one found in `search`, a
    PATH string. Raises `ToolError` if playwright or the browser is missing."""
    if find_spec("playwright") is None:
        raise ToolError(NO_EXTRA)
    if chosen:
        return _check_program(os.path.expanduser(chosen))
    folders = [folder for folder in search.split(os.pathsep) if os.path.isabs(folder)]
    found = (shutil.which(name, path=os.pathsep.join(folders)) for name in PROGRAMS)
    program = next(filter(None, found), None) or next(filter(os.path.exists, _MAC), None)
    if program is None:
        raise ToolError(NO_BROWSER)
    return program


def _check_program(program: str) -> str:
    if os.path.isabs(program) and os.path.isfile(program) and os.access(program, os.X_OK):
        return program
    raise ToolError(
        f"The setting browser.path is {program}, which is not an absolute path to a "
        "program. Ask the user to correct or remove it."
    )


_KEYS = frozenset(
    (
        *("Enter", "Tab", "Escape", "Backspace", "Delete", "Insert"),
        *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"),
        *(f"F{number}" for number in range(1, 13)),
    )
)
"""Keys that type no text. Other keys ask, because they could spell out a text key by key."""

LONGEST_TEXT = 20_000
LONGEST_KEY = 40
LONGEST_SHOWN = 2000
_POINT = lazy_pattern(r"\s*(\d{1,5})\s*,\s*(\d{1,5})\s*")
Step: TypeAlias = Callable[[], Awaitable[None]]


class KnownOrigins(Hook):
    """Hook that allows further steps on local pages allowed earlier in the task. On remote
    pages, addresses and text written by the model ask every time."""

    def __init__(self, allowed: Callable[[], Collection[str]]) -> None:
        self._allowed = allowed

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        kind, _, origin = action.external.partition(" ")
        if kind != "browser" or origin not in self._allowed():
            return Ruling()
        from rookery.core.hosts import web_address

        harmless = _sends_no_text(action.payload) or web_address(origin).is_loopback
        return allow() if harmless else Ruling()


class BrowserActionArgs(msgspec.Struct, forbid_unknown_fields=True):
    action: Literal[
        "launch",
        "navigate",
        "click",
        "type",
        "press",
        "scroll_down",
        "scroll_up",
        "screenshot",
        "close",
    ]
    url: str | None = None
    coordinate: Annotated[str | None, msgspec.Meta(description="x,y")] = None
    selector: str | None = None
    text: Annotated[str | None, msgspec.Meta(description="Text to type, or key.")] = None


class BrowserAction:
    name: ClassVar[str] = BROWSER.name
    description: ClassVar[str] = (
        "Use a web page in a headless browser: launch it with a url, then act. Shows the page."
    )
    arguments: ClassVar[type[msgspec.Struct]] = BrowserActionArgs
    group: ClassVar[ToolGroup] = BROWSER.group
    traits: ClassVar[ToolTraits] = BROWSER

    def __init__(self, open_session: Callable[[], "BrowserSession"]) -> None:
        self._open_session = open_session
        self._opened: BrowserSession | None = None

    @property
    def allowed(self) -> Collection[str]:
        return self._opened.allowed if self._opened else ()

    async def end(self) -> None:
        """Close the browser. Await this at the end of the task."""
        if self._opened:
            await self._opened.close()

    async def prepare(self, args: BrowserActionArgs, ctx: ToolContext) -> Action:
        match args.action:
            case "launch" | "navigate":
                return self._open_action(args, ctx)
            case "click" | "type" | "press":
                return self._use_action(args, ctx)
            case _:
                return self._view_action(args, ctx)

    @property
    def _session(self) -> "BrowserSession":
        if self._opened is None:
            self._opened = self._open_session()
        return self._opened

    def _open_action(self, args: BrowserActionArgs, ctx: ToolContext) -> Action:
        session, address = self._session, _address(args)
        if reason := session.refusal(address):
            raise ToolError(f"{address.origin} was not opened. {reason}")
        launching = args.action == "launch"
        if not launching:
            _ = session.origin  # raises if there is no browser
        return self._external_action(
            args,
            ctx,
            title=f"{'Launch a browser at' if launching else 'Browse to'} {address.origin}",
            origin=address.origin,
            notes=[f"url: {address.url}", *(session.warnings if launching else ())],
            step=partial(session.launch if launching else session.navigate, address),
        )

    def _use_action(self, args: BrowserActionArgs, ctx: ToolContext) -> Action:
        session = self._session
        origin = session.origin
        if not origin:
            raise ToolError("No page is open. Use navigate with a url first.")
        title, notes, step = _plan_step(args, session)

        async def step_unless_moved() -> None:
            if session.origin != origin:
                raise ToolError(f"Nothing was done: the page has left {origin}.")
            await step()

        return self._external_action(
            args,
            ctx,
            title=f"{title} on {origin}",
            origin=origin,
            notes=notes,
            step=step_unless_moved,
        )

    def _external_action(
        self,
        args: BrowserActionArgs,
        ctx: ToolContext,
        *,
        title: str,
        origin: str,
        notes: list[str],
        step: Step,
    ) -> Action:
        async def perform(permit: Permit) -> Outcome:
            if permit.digest != action.digest:
                raise Denied("This was not permitted, so it was not done.")
            await step()
            return await self._outcome(ctx)

        action = Action(
            title=title,
            perform=perform,
            external=f"browser {origin}",
            spares_files=True,
            ask_as=AskKind.BROWSER_ACTION_LAUNCH,
            notes=notes,
            payload=_payload(args),
        )
        return action

    def _view_action(self, args: BrowserActionArgs, ctx: ToolContext) -> Action:
        session = self._session

        async def perform(permit: Permit) -> Outcome:
            match args.action:
                case "close":
                    await session.close()
                    return Outcome(text="The browser is closed.")
                case "scroll_down" | "scroll_up":
                    await session.scroll(1 if args.action == "scroll_down" else -1)
            return await self._outcome(ctx)

        titles = {"close": "Close the browser", "screenshot": "Look at the page"}
        title = titles.get(args.action, "Scroll the page")
        return Action(title=title, perform=perform, payload=_payload(args))

    async def _outcome(self, ctx: ToolContext) -> Outcome:
        from rookery.browser.watched_page import view_text

        view = await self._session.view(pictured=ctx.sees_images)
        sight = Sight(sees=ctx.sees_images, most=ctx.limits.image_bytes)
        shown = picture(view.picture, sight) if view.picture else None
        images = (shown.image,) if shown and shown.image else ()
        unseen = f"\n{shown.words}" if shown and not shown.image else ""
        return Outcome(text=view_text(view) + unseen, images=images)


def _sends_no_text(payload: Mapping[str, Any]) -> bool:
    """Whether the action sends no text or address written by the model."""
    match payload:
        case {"action": "click"}:
            return True
        case {"action": "press", "text": str(key)}:
            return key.removeprefix("Shift+") in _KEYS
        case _:
            return False


def _plan_step(args: BrowserActionArgs, session: "BrowserSession") -> tuple[str, list[str], Step]:
    """Return the title, the notes and the step for a click, a text or a key press."""
    spot = _spot(args)
    where = [f"where: {_name(spot)}"] if spot is not None else []
    if args.action == "click":
        if spot is None:
            raise BadArguments("click needs a coordinate or a selector.")
        return f"Click {_name(spot)}", where, partial(session.click, spot)
    text = args.text or ""
    if not text or len(text) > LONGEST_TEXT:
        raise BadArguments(f"{args.action} needs a text of 1 to {LONGEST_TEXT} characters.")
    if args.action == "press":
        if len(text) > LONGEST_KEY:
            raise BadArguments("press needs a key such as Enter or Control+A.")
        return f"Press {text}", [], partial(session.press, text)
    return "Type", [f"text: {text}", *where], partial(session.type, text, spot)


def _address(args: BrowserActionArgs) -> "WebAddress":
    from rookery.core.hosts import web_address

    if not args.url:
        raise BadArguments(f"{args.action} needs a url.")
    try:
        return web_address(args.url)
    except ValueError as error:
        raise BadArguments(str(error)) from error


def _spot(args: BrowserActionArgs) -> "Spot | None":
    from rookery.browser.watched_page import VIEWPORT, PagePoint

    if args.coordinate is None:
        return args.selector or None
    found = _POINT.fullmatch(args.coordinate)
    width, height = VIEWPORT
    if not found or int(found[1]) >= width or int(found[2]) >= height:
        raise BadArguments(f'coordinate must be "x,y" within {width}x{height}.')
    return PagePoint(int(found[1]), int(found[2]))


def _name(spot: "Spot") -> str:
    return spot[:LONGEST_SHOWN] if isinstance(spot, str) else f"{spot.x},{spot.y}"


def _payload(args: BrowserActionArgs) -> dict[str, str]:
    given = msgspec.to_builtins(args)
    return {"tool": "browserAction", **{name: value for name, value in given.items() if value}}
