/**
 * Which of the rows that are known are drawn: those near to what is seen, and those that must not
 * go away under somebody's hands.
 */

/** Rows one after the other, up to and without `to`. */
export interface Run {
  readonly from: number;
  readonly to: number;
}

/** What somebody looks at: the end, whatever comes; or so many pixels into a row. */
export type Place = "end" | { readonly ts: number; readonly into: number };

/** So many pixels above and below what is seen are drawn. */
export const MARGIN = 800;
/** Others are drawn once fewer than so many are left. */
export const LEAST_MARGIN = 350;
/** A selection is kept whole as long as it is not longer. */
const MOST_SELECTED = 300;
/** Neighbours of the row with the focus are there for the Tab key. */
const NEIGHBOURS = 2;

/** The rows that are in sight, or nearly. `tops` says where each begins and the last one ends. */
export function runInSight(tops: Float64Array, top: number, bottom: number): Run {
  const count = tops.length - 1;
  const from = Math.min(rowAt(tops, top - MARGIN), Math.max(0, count - 1));
  const to = Math.min(count, rowAt(tops, bottom + MARGIN) + 1);
  return { from, to: Math.max(to, Math.min(count, from + 1)) };
}

/** Which row a height is in; the last if it is below all. */
export function rowAt(tops: Float64Array, height: number): number {
  let low = 0;
  let high = Math.max(0, tops.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle]! <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The row with the focus, and those around it. */
export function runOfFocus(at: number, count: number): Run {
  return { from: Math.max(0, at - NEIGHBOURS), to: Math.min(count, at + NEIGHBOURS + 1) };
}

/** What is selected from one row to another; nothing if that is too much. */
export function runOfSelection(one: number, other: number): Run[] {
  const [from, to] = [Math.min(one, other), Math.max(one, other) + 1];
  return to - from > MOST_SELECTED ? [] : [{ from, to }];
}

/** The same rows in order, each once. */
export function merged(runs: readonly Run[]): Run[] {
  const sorted = runs.filter((run) => run.from < run.to).sort((one, other) => one.from - other.from);
  const whole: Run[] = [];
  for (const run of sorted) {
    const last = whole.at(-1);
    if (last && run.from <= last.to) whole[whole.length - 1] = { from: last.from, to: Math.max(last.to, run.to) };
    else whole.push(run);
  }
  return whole;
}

export function areSame(some: readonly Run[], others: readonly Run[]): boolean {
  return some.length === others.length && some.every((run, at) => run.from === others[at]!.from && run.to === others[at]!.to);
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
