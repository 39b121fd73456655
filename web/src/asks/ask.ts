/** A question of an agent, from an inbox row or a transcript row, and how it can be answered. */
import type { InboxRow, IntentQuestion, Row } from "../protocol";
import { followupOf, objectIn } from "../transcript/row-content";

export interface Ask {
  session_id: string;
  task_id: string;
  ts: number;
  ask: string;
  text: string;
  html: readonly string[];
  digest: string;
  title: string;
  diff: string;
  where: string;
  notes: readonly string[];
  rule: string;
  governance: IntentQuestion | null;
  /** Still streaming; cannot be answered yet. */
  partial: boolean;
}

/**
 * `approval`: allow an action. `limit`: continue past a limit. `question`: free text. `failure`:
 * retry. `stuck`: retry with a hint. `rest`: nothing to answer.
 */
export type AskForm = "approval" | "limit" | "question" | "failure" | "stuck" | "rest";

const FORMS: Record<string, AskForm> = {
  tool: "approval",
  command: "approval",
  use_mcp_server: "approval",
  browser_action_launch: "approval",
  report_bug: "approval",
  condense: "approval",
  checkpoint_restore: "approval",
  auto_approval_max_req_reached: "limit",
  followup: "question",
  api_req_failed: "failure",
  payment_required_prompt: "failure",
  invalid_model: "failure",
  mistake_limit_reached: "stuck",
};

export function formOf(ask: string): AskForm {
  return FORMS[ask] ?? "rest";
}

export function askOfRow(session_id: string, task_id: string, row: Row): Ask {
  return {
    session_id,
    task_id,
    ts: row.ts,
    ask: row.ask ?? "",
    text: row.text ?? "",
    html: row.html ?? [],
    digest: row.digest ?? "",
    title: row.title ?? "",
    diff: row.diff ?? "",
    where: row.where ?? "",
    notes: row.notes ?? [],
    rule: row.rule ?? "",
    governance: row.governance ?? null,
    partial: row.partial ?? false,
  };
}

export function askOfInbox(row: InboxRow): Ask {
  const { name: _, state: __, images: ___, ...ask } = row;
  return { ...ask, partial: false };
}

export function headOf(ask: Ask): string {
  switch (formOf(ask.ask)) {
    case "approval":
      if (ask.ask === "command") return "Run this command?";
      return ask.title ? `${ask.title.replace(/\?$/, "")}?` : "Allow this?";
    case "limit":
      return "Limit reached";
    case "question":
      return "Question from the agent";
    case "stuck":
      return "The agent is stuck";
    case "failure":
      return ask.ask === "payment_required_prompt" ? "The provider requires payment" : "The request failed";
    case "rest":
      return ask.ask === "completion_result" ? "Done" : "Stopped";
  }
}

/** The text of the question. An approval shows its action instead. */
export function wordsOf(ask: Ask): string {
  switch (formOf(ask.ask)) {
    case "limit":
      return ""; // the server renders this text
    case "question":
      return followupOf(ask.text).question;
    case "failure": {
      const { message, title } = objectIn(ask.text);
      return [title, message].filter((part) => typeof part === "string").join(": ") || ask.text;
    }
    default:
      return ask.text;
  }
}

/**
 * Whether no rule could allow this without asking: destructive commands, deleted files, anything
 * outside the project. A single key does not approve it.
 */
export function isAlwaysAsked(ask: Ask): boolean {
  return ask.rule === "";
}

/** Notes that do not repeat a governance reason. */
export function otherNotes(ask: Ask): string[] {
  const reasons = new Set(ask.governance?.reasons.map((reason) => reason.text) ?? []);
  return ask.notes.filter((note) => !reasons.has(note));
}

/** Indented JSON; text that is not JSON is returned unchanged. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
