import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Flags, SessionRow } from "../protocol";
import { button, click, mount, press, type } from "../test-support/mount";
import { FakeManager } from "../test-support/fake-manager";
import { Composer, placeholderFor } from "./Composer";

const row = (state: SessionRow["state"], flags: Partial<Flags> = { input_enabled: true }) =>
  ({ session_id: "s1", state, flags }) as SessionRow;
const field = (place: HTMLElement) => place.querySelector("textarea")!;

let manager: FakeManager;

beforeEach(async () => {
  localStorage.clear();
  manager = new FakeManager();
  await manager.connect();
});

afterEach(() => vi.unstubAllGlobals());

describe("the message field", () => {
  it("sends on Enter, but not on Shift+Enter", async () => {
    const place = await mount(<Composer row={row("waiting_input")} ask_ts={42} />);
    await type(field(place), " Do it ");
    await press(field(place), "Enter", { shiftKey: true });
    expect(manager.requests).toEqual([]);
    await press(field(place), "Enter");
    await vi.waitFor(() => expect(field(place).value).toBe(""));
    expect(manager.requestsOf("send_words")).toEqual([
      { kind: "send_words", session_id: "s1", text: "Do it", images: [], ask_ts: 42 },
    ]);
  });

  it("does not send while an input method is composing", async () => {
    const place = await mount(<Composer row={row("completed")} ask_ts={null} />);
    await type(field(place), "かん");
    await press(field(place), "Enter", { isComposing: true });
    expect(manager.requests).toEqual([]);
  });

  it("does not send blank text", async () => {
    const place = await mount(<Composer row={row("completed")} ask_ts={null} />);
    await type(field(place), "  \n ");
    await press(field(place), "Enter");
    expect([manager.requests, button(place, "Send").disabled]).toEqual([[], true]);
  });

  it("keeps text that was typed while a message was being sent", async () => {
    const place = await mount(<Composer row={row("completed")} ask_ts={null} />);
    await type(field(place), "First");
    field(place).dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
    field(place).value = "Second";
    field(place).dispatchEvent(new Event("input", { bubbles: true }));
    await vi.waitFor(() => expect(manager.requestsOf("send_words")).toHaveLength(1));
    await act(() => new Promise((resolve) => setTimeout(resolve)));
    expect(field(place).value).toBe("Second");
  });

  it("keeps text that was refused", async () => {
    const place = await mount(<Composer row={row("completed")} ask_ts={null} />);
    await type(field(place), "Do it");
    manager.refusals.send_words = "There is no session s1.";
    await press(field(place), "Enter");
    await vi.waitFor(() => expect(manager.requestsOf("send_words")).toHaveLength(1));
    expect(field(place).value).toBe("Do it");
  });

  it("stores drafts per session until they are sent", async () => {
    const first = await mount(<Composer row={row("completed")} ask_ts={null} />);
    await type(field(first), "Half a sent");
    const other = await mount(<Composer row={{ ...row("completed"), session_id: "s2" }} ask_ts={null} />);
    expect(field(other).value).toBe("");
    const again = await mount(<Composer row={row("completed")} ask_ts={null} />);
    expect(field(again).value).toBe("Half a sent");
    await click(again, "Send");
    await vi.waitFor(() => expect(field(again).value).toBe(""));
    expect(Object.keys(localStorage).filter((key) => key.includes("draft"))).toEqual([]);
  });

  it("is enabled if the session accepts messages", async () => {
    const allowed = [
      row("streaming", { can_queue_text: true }),
      row("error", { can_guide_text: true }),
      row("paused", { input_enabled: true }),
    ];
    for (const each of allowed) expect(field(await mount(<Composer row={each} ask_ts={null} />)).disabled).toBe(false);
    expect(field(await mount(<Composer row={row("error", {})} ask_ts={null} />)).disabled).toBe(true);
  });

  it("gets the focus when a question arrives, unless the user is typing elsewhere", async () => {
    const place = await mount(<Composer row={row("streaming")} ask_ts={null} />);
    expect(document.activeElement).toBe(document.body);
    await act(() => render(<Composer row={row("waiting_input")} ask_ts={5} />, place));
    expect(document.activeElement).toBe(field(place));
  });
});

describe("mentioning a file", () => {
  it("offers matching files and inserts the chosen one", async () => {
    manager.answers.find_paths = [
      { path: "src/a.py", folder: false },
      { path: "src", folder: true },
    ];
    const place = await mount(<Composer row={row("completed")} ask_ts={null} />);
    field(place).setSelectionRange(0, 0);
    await type(field(place), "see @s");
    await vi.waitFor(() => expect(place.querySelectorAll('[role="option"]')).toHaveLength(2));
    expect(manager.requestsOf("find_paths")).toMatchObject([{ letters: "s", session_id: "s1" }]);
    await press(field(place), "ArrowDown");
    await press(field(place), "Enter");
    expect(field(place).value).toBe("see @/src/ ");
    expect(manager.requestsOf("send_words")).toEqual([]);
  });
});

it("every state has a placeholder", () => {
  const states = ["creating", "streaming", "waiting_approval", "waiting_input", "completed", "paused", "error", "stopped"];
  const placeholders = states.map((state) => placeholderFor(row(state as SessionRow["state"])));
  expect(placeholders.every(Boolean)).toBe(true);
});
