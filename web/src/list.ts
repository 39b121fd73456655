/** Applies the manager's changes to the list of sessions. */
import type { InboxRow, ListChange, Overview, SessionRow } from "./protocol";

export interface SessionList {
  overview: Overview | null;
  rows: ReadonlyMap<string, SessionRow>;
  /** Session ids in display order. */
  order: readonly string[];
  inbox: readonly InboxRow[];
}

export const NOTHING_LISTED: SessionList = { overview: null, rows: new Map(), order: [], inbox: [] };

export function changedList(list: SessionList, change: ListChange): SessionList {
  let rows = list.rows;
  if (change.rows?.length || change.removed?.length) {
    const next = new Map(rows);
    for (const id of change.removed ?? []) next.delete(id);
    for (const row of change.rows ?? []) next.set(row.session_id, row);
    rows = next;
  }
  return {
    overview: change.overview ?? list.overview,
    rows,
    order: change.order ?? list.order,
    inbox: change.inbox ?? list.inbox,
  };
}

/** The rows in display order. A row without a position comes last. */
export function inOrder(list: SessionList): SessionRow[] {
  const placed = list.order.flatMap((id) => list.rows.get(id) ?? []);
  if (placed.length === list.rows.size) return placed;
  const known = new Set(list.order);
  return [...placed, ...[...list.rows.values()].filter((row) => !known.has(row.session_id))];
}
