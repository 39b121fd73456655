/** In which order what waits is gone through. */
import { formOf } from "../asking/ask";
import type { InboxRow } from "../protocol";

/** Whoever cannot go on without an answer comes first, then what failed, then results; whoever has
 *  waited longest first in each, as they come. */
export function inTurn(rows: readonly InboxRow[]): InboxRow[] {
  return [...rows].sort((one, other) => urgencyOf(one) - urgencyOf(other));
}

function urgencyOf(row: InboxRow): number {
  if (row.state === "error") return 1;
  return formOf(row.ask) === "rest" ? 2 : 0;
}
