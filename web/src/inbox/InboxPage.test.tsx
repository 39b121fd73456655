import { beforeEach, describe, expect, it } from "vitest";
import { NOTHING_LISTED } from "../list";
import type { InboxRow, SessionRow } from "../protocol";
import { list, listLoaded } from "../store";
import { mount } from "../test-support/mount";
import { InboxPage } from "./InboxPage";

const asked: InboxRow = {
  session_id: "s1",
  name: "One",
  task_id: "s1",
  ts: 1,
  ask: "",
  state: "error",
  text: "",
  html: [],
  digest: "",
  title: "",
  diff: "",
  where: "",
  notes: [],
  rule: "",
  images: 0,
  governance: null,
};
const session = (about: object) =>
  ({
    session_id: "s1",
    prompt: "Add a sum",
    branch: "",
    worktree_id: null,
    state: "error",
    ...about,
    flags: { show_retry_button: true, show_resume_button: false },
  }) as SessionRow;
const setInbox = (row: Partial<InboxRow>, about: object = {}) => {
  const rows = new Map([["s1", session(about)]]);
  list.value = { ...NOTHING_LISTED, rows, order: ["s1"], inbox: [{ ...asked, ...row }] };
};
const buttons = (place: HTMLElement) => [...place.querySelectorAll(".inbox-card button")].map((each) => each.textContent);

beforeEach(() => {
  listLoaded.value = true;
});

describe("the inbox", () => {
  it("draws hundreds of rows only as they come into view, and unfolds the first", async () => {
    const rows = Array.from({ length: 300 }, (_, at) => ({ ...asked, session_id: `s${at}`, task_id: `s${at}` }));
    list.value = { ...NOTHING_LISTED, inbox: rows };
    const place = await mount(<InboxPage />);
    expect(place.querySelectorAll(".inbox-card")).toHaveLength(60);
    expect(place.querySelector("h2")!.textContent).toBe("Failed 300");
    expect(place.querySelectorAll(".inbox-card.open")).toHaveLength(1);
  });

  it("shows why a session failed, its prompt, and how to retry", async () => {
    setInbox({ text: "There is no model yet." });
    const place = await mount(<InboxPage />);
    expect(place.querySelector(".page-head")!.textContent).toContain("1 waiting for you");
    expect(place.querySelector(".failure-words")!.textContent).toBe("There is no model yet.");
    expect(place.textContent).toContain("Add a sum");
    expect(buttons(place)).toContain("Retry");
  });

  it("shows the result of a session", async () => {
    setInbox({ state: "completed", ask: "completion_result", html: ["<p>Done <code>sum</code>.</p>"] });
    const place = await mount(<InboxPage />);
    expect(place.querySelector(".inbox-result code")!.textContent).toBe("sum");
    expect(place.querySelector("textarea")).not.toBeNull();
  });

  it.each([
    ["error", { text: "It is gone." }],
    ["completed", { ask: "completion_result", text: "Done." }],
  ] as const)("offers no retry or reply if the worktree was removed: %s", async (state, row) => {
    setInbox({ state, ...row }, { branch: "agent/sum", state });
    const place = await mount(<InboxPage />);
    expect(place.textContent).toContain("The worktree was removed");
    expect(buttons(place)).not.toContain("Retry");
    expect(place.querySelector("textarea")).toBeNull();
  });
});
