/** Which of the rows that are known are drawn: the newest, and as many before as were scrolled to. */
import type { ShownRow } from "../view";

export const ROWS_AT_ONCE = 200;

/** How many of the first rows are left out. `first` names the first that is wanted, if that was said. */
export function leftOut(rows: readonly ShownRow[], first: number | null): number {
  if (first === null) return Math.max(0, rows.length - ROWS_AT_ONCE);
  const at = rows.findIndex((row) => row.ts >= first);
  return at < 0 ? Math.max(0, rows.length - ROWS_AT_ONCE) : at;
}

/** The first row that is wanted once somebody scrolled to the first that is drawn. */
export function earlierFirst(rows: readonly ShownRow[], first: number | null): number {
  const hidden = leftOut(rows, first);
  return rows[Math.max(0, hidden - ROWS_AT_ONCE)]?.ts ?? 0;
}

/** What of a scrolled box tells where one is in it. */
export type Scrolled = Pick<HTMLElement, "scrollTop" | "scrollHeight" | "clientHeight">;

const NEAR_THE_END = 60;

/** Whether one stays at the end, after the box was scrolled to where it is. A box that became
 *  smaller, or its text longer, takes nobody away from the end; scrolling up does. */
export function staysAtEnd(box: Scrolled, before: { atEnd: boolean; top: number }): boolean {
  const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_THE_END;
  return isNear || (before.atEnd && box.scrollTop >= before.top - 1);
}

/** Whoever stays at the end needs no more than the newest. */
export function isTooMuch(rows: readonly ShownRow[], first: number | null): boolean {
  return rows.length - leftOut(rows, first) > 2 * ROWS_AT_ONCE;
}
