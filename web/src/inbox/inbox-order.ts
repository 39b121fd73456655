/** The order of the inbox. */
import { formOf } from "../asks/ask";
import type { InboxRow } from "../protocol";

/**
 * Sessions that are blocked on an answer come first, then failures, then results. Within each group
 * the order stays, which is oldest first.
 */
export function sortInbox(rows: readonly InboxRow[]): InboxRow[] {
  return [...rows].sort((one, other) => urgencyOf(one) - urgencyOf(other));
}

function urgencyOf(row: InboxRow): number {
  if (row.state === "error") return 1;
  return formOf(row.ask) === "rest" ? 2 : 0;
}
