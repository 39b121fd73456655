import { expect, it } from "vitest";
import type { InboxRow } from "../protocol";
import { keyOf, sortInbox, steppedRow, summaryOf } from "./inbox-order";

const row = (name: string, ask: string, state: InboxRow["state"]) => ({ name, ask, state }) as InboxRow;

it("blocked sessions come before failures, and failures before results; otherwise the order stays", () => {
  const rows = [
    row("done", "completion_result", "completed"),
    row("failed", "", "error"),
    row("may", "command", "waiting_approval"),
    row("done too", "", "completed"),
    row("asks", "followup", "waiting_input"),
  ];
  expect(sortInbox(rows).map((each) => each.name)).toEqual(["may", "asks", "failed", "done", "done too"]);
});

it.each([
  [{ ask: "command", state: "waiting_approval", text: "\n  make test\nrm a" }, "make test"],
  [{ ask: "tool", state: "waiting_approval", title: "Edit a.py", text: "{}" }, "Edit a.py?"],
  [{ ask: "followup", state: "waiting_input", text: '{"question":"Which?"}' }, "Which?"],
  [{ ask: "", state: "error", text: "No key." }, "No key."],
  [{ ask: "completion_result", state: "completed", text: "Done." }, "Done."],
] as [Partial<InboxRow>, string][])("a folded row says on one line what it is about", (about, words) =>
  expect(summaryOf({ title: "", text: "", ...about } as InboxRow)).toBe(words),
);

it("steps stay in the list, and begin at the first row if the last one is gone", () => {
  const rows = ["a", "b", "c"].map((session_id) => ({ session_id, task_id: "", ts: 1 }) as InboxRow);
  const step = (from: number | null, by: number) =>
    steppedRow(rows, from === null ? "gone" : keyOf(rows[from]!), by)?.session_id;
  expect([step(0, 1), step(2, 1), step(0, -1), step(null, 1), step(null, -1)]).toEqual(["b", "c", "a", "a", "a"]);
  expect(steppedRow([], "gone", 1)).toBeUndefined();
});
