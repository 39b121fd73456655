import { signal } from "@preact/signals";
import { act } from "preact/test-utils";
import { describe, expect, it } from "vitest";
import type { Row } from "../protocol";
import { button, click, mount } from "../test-support/mount";
import { lastLines, TranscriptRow } from "./TranscriptRow";

async function shown(row: Partial<Row>, opening = false) {
  const cell = signal<Row>({ ts: 1, type: "say", ...row });
  const forked: number[] = [];
  const place = await mount(
    <TranscriptRow
      shown={{ ts: 1, row: cell }}
      place={opening ? 0 : 4}
      count={signal(9)}
      session_id="s"
      fork={(ts) => forked.push(ts)}
    />,
  );
  return { place, cell, forked };
}

const HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>';

describe("a row", () => {
  const kinds: [string, Partial<Row>][] = [
    ["of the user", { say: "user_feedback" }],
    ["of the model", { say: "text" }],
    ["of an error", { say: "error" }],
    ["of a note", { say: "note" }],
    ["of output", { say: "command_output" }],
    ["of a result", { say: "completion_result" }],
    ["of a command", { type: "ask", ask: "command", answered: true }],
    ["of a tool", { type: "ask", ask: "tool", answered: true, title: HOSTILE }],
  ];
  it.each(kinds)("%s shows markup as text", async (_, row) => {
    const { place } = await shown({ ...row, text: HOSTILE });
    expect(place.querySelector("img, script")).toBeNull();
    expect(place.textContent).toContain("<img src=x");
  });

  it("shows only valid images", async () => {
    const images = [
      { media_type: "image/png", data: "aGk=" },
      { media_type: "image/svg+xml", data: "aGk=" },
      { media_type: "image/png", data: '"onload="' },
    ];
    const { place } = await shown({ say: "user_feedback", images });
    expect([...place.querySelectorAll("img")].map((each) => each.getAttribute("src"))).toEqual([
      "data:image/png;base64,aGk=",
    ]);
  });
});

describe("a row of the model", () => {
  it("shows the rendered part, and the rest as it streams", async () => {
    const { place, cell } = await shown({ say: "text", text: "One.\n\nTw", html: ["<p>One.</p>"], html_upto: 6, partial: true });
    const first = place.querySelector("p");
    expect(place.querySelector(".prose")!.textContent).toBe("One.Tw");
    await act(() => {
      cell.value = { ...cell.value, text: "One.\n\nTwo.", html: ["<p>One.</p>", "<p>Two.</p>"], html_upto: 10, partial: false };
    });
    expect(place.querySelector(".prose")!.textContent).toBe("One.Two.");
    expect(place.querySelector("p")).toBe(first);
  });

  it("can be forked", async () => {
    const { place, forked } = await shown({ say: "text", text: "One." });
    await click(place, "Fork");
    expect(forked).toEqual([1]);
  });

  it("is collapsed if it is a thought", async () => {
    const { place } = await shown({ say: "reasoning", text: "First\nsecond" });
    expect(place.querySelector(".prose")).toBeNull();
    await click(place, "Thought");
    expect(place.querySelector(".prose")!.textContent).toContain("First\nsecond");
  });
});

it("a row has its position and the number of rows", async () => {
  const { place } = await shown({ say: "text", text: "One." });
  const item = place.querySelector('[role="listitem"]')!;
  expect([item.getAttribute("aria-posinset"), item.getAttribute("aria-setsize")]).toEqual(["5", "9"]);
});

describe("a row of a tool call", () => {
  it("shows only its title while its question is open", async () => {
    const { place } = await shown({ type: "ask", ask: "tool", title: "Edit a.py", text: '{"diffStats":{}}', diff: "+x" });
    expect(place.querySelector(".diff-text")).toBeNull();
  });

  it("shows the diff of an auto-approved edit, not the model's text", async () => {
    const text = JSON.stringify({ tool: "appliedDiff", diff: "<<<<<<< SEARCH", content: "@@ -1 +1 @@\n-a\n+b\n" });
    const { place } = await shown({ type: "ask", ask: "tool", answered: true, title: "Edit a.py", text });
    expect(place.querySelector(".diff-text")?.textContent).not.toContain("SEARCH");
  });

  it("shows the diff of an edit, shortenReferences if it is long", async () => {
    const diff = Array.from({ length: 40 }, (_, at) => `+line ${at}`).join("\n");
    const text = '{"tool":"appliedDiff","diffStats":{"added":40,"removed":0}}';
    const { place } = await shown({ type: "ask", ask: "tool", answered: true, title: "Edit a.py", text, diff });
    expect(place.querySelectorAll("tr.added")).toHaveLength(16);
    await click(place, "Show 24 more lines");
    expect(place.querySelectorAll("tr.added")).toHaveLength(40);
  });

  it("links to its sub-task", async () => {
    const { place } = await shown({ type: "ask", ask: "tool", answered: true, title: "Begin", text: "{}", task_id: "t 2" });
    expect(place.querySelector("a")!.getAttribute("href")).toBe("#/session/s/task/t%202");
  });

  it("links to each of its agents", async () => {
    const agents = [{ task_id: "a", name: "scout" }, { task_id: "b", name: "fixer" }];
    const { place } = await shown({ type: "ask", ask: "tool", answered: true, title: "Start", text: "{}", task_id: "a", agents });
    expect([...place.querySelectorAll("a")].map((each) => each.textContent!.trim())).toEqual(["scout", "fixer"]);
  });
});

describe("command output", () => {
  it("shows its last lines, and all of it on request", async () => {
    const text = Array.from({ length: 30 }, (_, at) => `line ${at}`).join("\n");
    const { place } = await shown({ say: "command_output", text });
    expect(place.querySelector("pre")!.textContent!.split("\n")).toHaveLength(10);
    await click(place, "Show 20 lines above");
    expect(place.querySelector("pre")!.textContent).toBe(text);
    expect(button(place, "Show less")).toBeTruthy();
  });

  it.each([
    ["a\nb\nc", 2, "b\nc"],
    ["a\nb\nc\n", 2, "b\nc\n"],
    ["a", 2, "a"],
    ["", 2, ""],
    ["\n\n\n", 1, "\n"],
  ])("has last lines: %j", (text, most, last) => expect(lastLines(text, most)).toBe(last));
});

it("an invisible row is not drawn", async () => {
  expect((await shown({ say: "api_req_finished" })).place.innerHTML).toBe("");
  expect((await shown({ type: "ask", ask: "completion_result" })).place.innerHTML).toBe("");
});

describe("a call that was not carried out", () => {
  const edit: Partial<Row> = {
    type: "ask",
    ask: "tool",
    answered: true,
    title: "Edit a.py",
    text: JSON.stringify({ tool: "editedExistingFile", path: "a.py", diffStats: { added: 2, removed: 0 } }),
    diff: "@@ -1 +1,2 @@\n a\n+b\n",
  };

  it("is open and has counts without an outcome", async () => {
    const { place } = await shown(edit);
    expect(place.textContent).toContain("+2");
    expect(place.querySelector(".diff-text")).not.toBeNull();
    expect(place.textContent).not.toMatch(/Rejected|Failed/);
  });

  it.each([
    ["denied", "a1", "Rejected"],
    ["denied", "", "Refused"],
    ["failed", "", "Failed"],
  ] as const)("says so and collapses the proposed changes: %s %s", async (outcome, ask_id, words) => {
    const { place, cell } = await shown(edit);
    await act(() => {
      cell.value = { ...cell.value, outcome, ask_id };
    });
    expect(place.textContent).toContain(words);
    expect(place.textContent).not.toContain("+2");
    expect(place.querySelector(".diff-text")).toBeNull();
    await click(place, "Proposed changes");
    expect(place.querySelector(".diff-text")).not.toBeNull();
  });

  it("says so for a command too", async () => {
    const { place } = await shown({ type: "ask", ask: "command", answered: true, ask_id: "a1", text: "make", outcome: "denied" });
    expect(place.textContent).toContain("Rejected");
  });

  it("has a readable title if its own is a tool name", async () => {
    const text = JSON.stringify({ tool: "write_to_file", path: "a.py" });
    const { place } = await shown({ ...edit, title: "write_to_file", text, outcome: "failed" });
    expect(place.querySelector(".call-title")!.textContent).toBe("Write a.py");
  });
});
