/** The order, the groups and the one-line summaries of the inbox. */
import { askOfInbox, formOf, headOf, wordsOf } from "../asks/ask";
import type { InboxRow } from "../protocol";

export type InboxGroup = "questions" | "failed" | "done";

export const GROUPS: readonly { id: InboxGroup; words: string }[] = [
  { id: "questions", words: "Questions" },
  { id: "failed", words: "Failed" },
  { id: "done", words: "Done" },
];

/**
 * Sessions that are blocked on an answer come first, then failures, then results. Within each group
 * the order stays, which is oldest first.
 */
export function sortInbox(rows: readonly InboxRow[]): InboxRow[] {
  return GROUPS.flatMap(({ id }) => rows.filter((row) => groupOf(row) === id));
}

export function groupOf(row: InboxRow): InboxGroup {
  if (row.state === "error") return "failed";
  return formOf(row.ask) === "rest" ? "done" : "questions";
}

export function keyOf(row: InboxRow): string {
  return `${row.session_id}/${row.task_id}/${row.ts}`;
}

/** What is asked, failed or done, on one line. */
export function summaryOf(row: InboxRow): string {
  const ask = askOfInbox(row);
  const form = formOf(row.ask);
  const words = form === "approval" && row.ask !== "command" ? headOf(ask) : wordsOf(ask);
  return words.split("\n").map((line) => line.trim()).find(Boolean) ?? "";
}

/** The row after a step from `key`; the first one if that row is gone. */
export function steppedRow(rows: readonly InboxRow[], key: string, by: number): InboxRow | undefined {
  const at = rows.findIndex((row) => keyOf(row) === key);
  return rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
}
