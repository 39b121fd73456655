/** Decides which rows to draw: those near the viewport, with the focus, or selected. */

/** Consecutive rows from `from` up to, but not including, `to`. */
export interface Run {
  readonly from: number;
  readonly to: number;
}

/** The reading position: the end, or an offset in pixels into a row. */
export type Place = "end" | { readonly ts: number; readonly into: number };

/** Pixels above and below the viewport that are drawn. */
export const MARGIN = 800;
/** Other rows are drawn when less than this margin is left. */
export const MIN_MARGIN = 350;
/** A longer selection is not kept in the document. */
const MAX_SELECTED = 300;
/** Rows drawn around the focused one, for the Tab key. */
const NEIGHBOURS = 2;

/** The rows in or near the viewport. `tops` holds the top of each row and the bottom of the last. */
export function visibleRun(tops: Float64Array, top: number, bottom: number): Run {
  const count = tops.length - 1;
  const from = Math.min(rowAt(tops, top - MARGIN), Math.max(0, count - 1));
  const to = Math.min(count, rowAt(tops, bottom + MARGIN) + 1);
  return { from, to: Math.max(to, Math.min(count, from + 1)) };
}

/** The row at a height; the last one if the height is below all rows. */
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

/** The focused row and its neighbours. */
export function focusRun(at: number, count: number): Run {
  return { from: Math.max(0, at - NEIGHBOURS), to: Math.min(count, at + NEIGHBOURS + 1) };
}

/** The selected rows; none if there are too many. */
export function selectionRun(one: number, other: number): Run[] {
  const [from, to] = [Math.min(one, other), Math.max(one, other) + 1];
  return to - from > MAX_SELECTED ? [] : [{ from, to }];
}

/** The runs sorted, with overlaps joined. */
export function mergeRuns(runs: readonly Run[]): Run[] {
  const sorted = runs.filter((run) => run.from < run.to).sort((one, other) => one.from - other.from);
  const whole: Run[] = [];
  for (const run of sorted) {
    const last = whole.at(-1);
    if (last && run.from <= last.to) whole[whole.length - 1] = { from: last.from, to: Math.max(last.to, run.to) };
    else whole.push(run);
  }
  return whole;
}

export function sameRuns(some: readonly Run[], others: readonly Run[]): boolean {
  return some.length === others.length && some.every((run, at) => run.from === others[at]!.from && run.to === others[at]!.to);
}

/** The scroll position of a box. */
export type Scrolled = Pick<HTMLElement, "scrollTop" | "scrollHeight" | "clientHeight">;

const NEAR_THE_END = 60;

/**
 * Whether the view is still at the end after scrolling. A smaller box or longer text does not leave
 * the end; scrolling up does.
 */
export function staysAtEnd(box: Scrolled, before: { atEnd: boolean; top: number }): boolean {
  const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_THE_END;
  return isNear || (before.atEnd && box.scrollTop >= before.top - 1);
}
