import { describe, expect, it } from "vitest";
import type { InboxRow, Row } from "../protocol";
import { askOfInbox, askOfRow, formOf, headOf, prettyJson, otherNotes, wordsOf } from "./ask";

const ask = (kind: string, about: Partial<Row> = {}) => askOfRow("s", "s", { ts: 1, type: "ask", ask: kind, ...about });

describe("a question", () => {
  it.each([
    ["tool", "approval"],
    ["command", "approval"],
    ["use_mcp_server", "approval"],
    ["browser_action_launch", "approval"],
    ["auto_approval_max_req_reached", "limit"],
    ["followup", "question"],
    ["api_req_failed", "failure"],
    ["invalid_model", "failure"],
    ["payment_required_prompt", "failure"],
    ["mistake_limit_reached", "stuck"],
    ["completion_result", "rest"],
    ["resume_task", "rest"],
    ["of a later version", "rest"],
  ])("%s is a %s", (kind, form) => expect(formOf(kind)).toBe(form));

  it("has a heading", () => {
    expect(headOf(ask("command"))).toBe("Run this command?");
    expect(headOf(ask("tool", { title: "Edit a.py" }))).toBe("Edit a.py?");
    expect(headOf(ask("tool", { title: "Sure?" }))).toBe("Sure?");
    expect(headOf(ask("tool"))).toBe("Allow this?");
  });

  it("never shows raw JSON", () => {
    expect(wordsOf(ask("payment_required_prompt", { text: '{"title":"No credit","message":"Add some."}' }))).toBe(
      "No credit: Add some.",
    );
    expect(wordsOf(ask("followup", { text: '{"question":"Which?"}' }))).toBe("Which?");
    expect(wordsOf(ask("api_req_failed", { text: "Gone." }))).toBe("Gone.");
  });

  it("shows each note once", () => {
    const governance = { reasons: [{ code: "X", error_type: "", text: "outside" }] } as unknown as Row["governance"];
    expect(otherNotes(ask("tool", { notes: ["outside", "protected"], governance }))).toEqual(["protected"]);
  });

  it("is the same from the inbox and from the session", () => {
    const row: Row = { ts: 5, type: "ask", ask: "command", text: "ls", digest: "d", rule: "r", where: "w", notes: ["n"] };
    const inbox = { ...askOfRow("s", "t", row), name: "N", state: "waiting_approval", images: 0 } as unknown as InboxRow;
    expect(askOfInbox(inbox)).toEqual(askOfRow("s", "t", row));
  });

  it("indents JSON arguments and leaves other text unchanged", () => {
    expect([prettyJson('{"a":1}'), prettyJson("{a")]).toEqual(['{\n  "a": 1\n}', "{a"]);
  });
});
