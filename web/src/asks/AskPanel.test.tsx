import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { IntentQuestion } from "../protocol";
import { button, click, mount, press, type } from "../test-support/mount";
import { FakeManager } from "../test-support/fake-manager";
import { listenToKeys } from "../keys";
import { type Ask, askOfRow } from "./ask";
import { AskPanel } from "./AskPanel";

const ask = (kind: string, about: Partial<Ask> = {}): Ask => ({
  ...askOfRow("s1", "s1", { ts: 7, type: "ask", ask: kind }),
  digest: "d7",
  ...about,
});

const GOVERNED = {
  intent_id: "INT-1",
  intent_name: "Cents",
  scope: ["src/**"],
  reasons: [{ code: "OUT", error_type: "", text: "build is outside." }],
  targets: [{ path: "build", op: "delete", verdict: "out_of_scope", nearest: "src/**", real_path: "/real/build" }],
  analysis: "",
  sandboxed: false,
  pattern: "build/**",
  grant: "build/x",
  choices: ["task", "expand", "halt"],
  revision: 1,
} satisfies IntentQuestion;

let manager: FakeManager;

beforeEach(async () => {
  manager = new FakeManager();
  await manager.connect();
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** The panel after the minimum viewing time. Nothing needs scrolling in the test document. */
async function seen(asked: Ask): Promise<HTMLElement> {
  const place = await mount(<AskPanel ask={asked} />);
  place.querySelector(".ask-scroll")?.dispatchEvent(new Event("scroll"));
  await act(() => void vi.advanceTimersByTime(600));
  return place;
}

describe("the key that approves", () => {
  beforeAll(listenToKeys);
  const pressed = async (keys: string, about: Partial<Ask>) => {
    const place = await mount(<AskPanel ask={ask("command", { text: "make", ...about })} keys />);
    place.querySelector(".ask-scroll")?.dispatchEvent(new Event("scroll"));
    await act(() => void vi.advanceTimersByTime(600));
    for (const key of keys) {
      await press(document.body, key);
      await act(() => void vi.advanceTimersByTime(400));
    }
    const outcome = [place.textContent!.includes("Press y"), manager.requestsOf("approve_action").length];
    await act(() => render(null, place)); // so that it gets no keys of the next test
    return outcome;
  };

  it.each([
    ["a", { rule: "make" }, [false, 1]],
    ["a", { rule: "" }, [true, 0]],
    ["ay", { rule: "" }, [true, 1]],
    // last: a letter without effect is taken for the beginning of a word, for a second
    ["aa", { rule: "" }, [true, 0]],
    ["y", { rule: "" }, [false, 0]],
  ] as const)("is followed by another if it always asks: %s %j", async (keys, about, outcome) =>
    expect(await pressed(keys, about)).toEqual(outcome),
  );
});

describe("a question that was not visible long enough", () => {
  it("cannot be approved yet", async () => {
    const place = await mount(<AskPanel ask={ask("command", { text: "ls" })} />);
    expect(button(place, "Approve").disabled).toBe(true);
    await act(() => void vi.advanceTimersByTime(400));
    expect(button(place, "Approve").disabled).toBe(true);
  });

  it("cannot be approved while it is streaming", async () => {
    const place = await seen(ask("command", { text: "ls", partial: true }));
    expect(button(place, "Approve").disabled).toBe(true);
  });

  it("must be visible again after it changes", async () => {
    const place = await seen(ask("command", { text: "ls" }));
    expect(button(place, "Approve").disabled).toBe(false);
    await act(() => render(<AskPanel ask={ask("command", { text: "rm", ts: 8, digest: "d8" })} />, place));
    expect(button(place, "Approve").disabled).toBe(true);
  });

  it("can be rejected immediately", async () => {
    const place = await mount(<AskPanel ask={ask("command", { text: "ls" })} />);
    expect(button(place, "Reject").disabled).toBe(false);
  });
});

describe("an approval", () => {
  it("names the question and the digest of what was shown", async () => {
    await click(await seen(ask("command", { text: "ls" })), "Approve");
    expect(manager.requestsOf("approve_action")).toEqual([
      { kind: "approve_action", session_id: "s1", ask_ts: 7, digest: "d7" },
    ]);
  });

  it("shows the whole command with invisible characters spelled out", async () => {
    const place = await seen(ask("command", { text: `echo${" ".repeat(50)}\u202e; rm -rf /\nsecond`, where: "/w, no sandbox" }));
    expect(place.querySelector(".ask-command")!.textContent).toBe("echo<50 blanks><U+202E>; rm -rf /second");
    expect(place.textContent).toContain("/w, no sandbox");
  });

  it("shows markup as text", async () => {
    const place = await seen(ask("use_mcp_server", { text: '{"arguments":{"x":"<img src=x onerror=alert(1)>"}}' }));
    expect(place.querySelector("img")).toBeNull();
    expect(place.textContent).toContain("<img src=x onerror=alert(1)>");
  });

  it("with \"Always allow\" shows the rule and needs a second click", async () => {
    const place = await seen(ask("command", { text: "npm test", rule: "npm test, in this project" }));
    await click(place, "Always");
    expect(place.querySelector(".ask-rule")!.textContent).toBe("npm test, in this project");
    expect(manager.requests).toEqual([]);
    await click(place, "Save rule");
    expect(manager.requestsOf("approve_action")).toMatchObject([{ always: true, digest: "d7" }]);
  });

  it("without a rule offers no \"Always allow\"", async () => {
    const place = await seen(ask("command", { text: "npm test" }));
    expect(() => button(place, "Always")).toThrow();
  });
});

describe("a rejection", () => {
  it("sends a reason", async () => {
    const place = await seen(ask("tool", { title: "Edit a.py" }));
    await click(place, "Reject");
    const field = place.querySelector("textarea")!;
    await type(field, " Use b.py ");
    await press(field, "Enter");
    expect(manager.requestsOf("reject_action")).toEqual([{ kind: "reject_action", session_id: "s1", ask_ts: 7, text: "Use b.py" }]);
  });

  it("works without a reason, and can be cancelled", async () => {
    const place = await seen(ask("tool", { title: "Edit a.py" }));
    await click(place, "Reject");
    await press(place.querySelector("textarea")!, "Escape");
    expect(manager.requests).toEqual([]);
    await click(place, "Reject");
    await click(place, "Reject");
    expect(manager.requestsOf("reject_action")).toMatchObject([{ text: "" }]);
  });
});

describe("a governance question", () => {
  it("shows the intent, reasons, targets and resolved paths", async () => {
    const place = await seen(ask("command", { text: "rm build", governance: GOVERNED, notes: ["build is outside."] }));
    for (const words of ["INT-1", "Cents", "build is outside.", "out of scope", "resolves to /real/build"]) {
      expect(place.textContent).toContain(words);
    }
    expect(place.textContent!.split("build is outside.")).toHaveLength(2);
  });

  it.each([
    ["For this task", "build/x", "Allow for this task", "task"],
    ["Add to scope", "build/**", "Add to scope and allow", "expand"],
  ])("%s shows first what it allows", async (offer, what, yes, choice) => {
    const place = await seen(ask("command", { text: "rm build", governance: GOVERNED }));
    await click(place, offer);
    expect(place.querySelector(".ask-rule")!.textContent).toBe(what);
    await click(place, yes);
    expect(manager.requestsOf("approve_action")).toMatchObject([{ choice, digest: "d7" }]);
  });

  it("can be rejected groupSessions with stopping the session", async () => {
    const place = await seen(ask("command", { text: "rm build", governance: GOVERNED }));
    await click(place, "Reject and stop");
    expect(manager.requestsOf("reject_action")).toMatchObject([{ choice: "halt" }]);
  });
});

describe("other questions", () => {
  it("a suggestion sends an answer and switches the mode if it names one", async () => {
    const text = '{"question":"Which?","suggest":["one",{"answer":"two","mode":"architect"}]}';
    const place = await seen(ask("followup", { text }));
    await click(place, "two");
    await vi.waitFor(() => expect(manager.requestsOf("send_words")).toHaveLength(1));
    expect(manager.requests).toMatchObject([
      { kind: "switch_session", mode: "architect" },
      { kind: "send_words", text: "two", ask_ts: 7 },
    ]);
  });

  it("a failure can be retried", async () => {
    await click(await seen(ask("api_req_failed", { text: "Gone." })), "Retry");
    expect(manager.requestsOf("retry_session")).toMatchObject([{ session_id: "s1" }]);
  });

  it("a stuck agent can get a hint", async () => {
    const place = await seen(ask("mistake_limit_reached", { text: "Stuck." }));
    await type(place.querySelector("textarea")!, "Look in b.py");
    await click(place, "Send hint");
    expect(manager.requestsOf("send_words")).toMatchObject([{ text: "Look in b.py", ask_ts: 7 }]);
  });

  it("a limit can be exceeded", async () => {
    const place = await seen(ask("auto_approval_max_req_reached", { html: ["<p>This session has made 5 requests.</p>"] }));
    expect(place.textContent).toContain("has made 5 requests");
    await click(place, "Continue");
    expect(manager.requestsOf("approve_action")).toHaveLength(1);
  });
});
