import { expect, it } from "vitest";
import type { InboxRow } from "../protocol";
import { sortInbox } from "./inbox-order";

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
