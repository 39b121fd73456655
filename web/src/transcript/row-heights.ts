/** Heights of rows: measured, or estimated from rows of the same kind. */
import type { ShownRow } from "../view";
import { isInvisible } from "./row-content";

/** The height of a row, and its distance from the row above. */
interface Measured {
  readonly height: number;
  readonly gap: number;
}

const USUAL: Measured = { height: 32, gap: 12 };

export class RowHeights {
  readonly #measured = new Map<number, Measured>();
  readonly #kinds = new Map<string, { sum: number; count: number }>();

  /** Records a measured row. Without `gap`, because the row above is not drawn, the old gap stays. */
  learn(shown: ShownRow, height: number, gap?: number): void {
    const before = this.#measured.get(shown.ts);
    const now = { height, gap: gap ?? before?.gap ?? USUAL.gap };
    this.#measured.set(shown.ts, now);
    const kind = kindOf(shown);
    const all = this.#kinds.get(kind) ?? { sum: 0, count: 0 };
    all.sum += now.height + now.gap - (before ? before.height + before.gap : 0);
    all.count += before ? 0 : 1;
    this.#kinds.set(kind, all);
  }

  /** The distance from the row above. */
  gapOf(shown: ShownRow): number {
    return this.#measured.get(shown.ts)?.gap ?? USUAL.gap;
  }

  /** The top of each row, gap included; the last entry is the bottom of all rows. */
  topsOf(rows: readonly ShownRow[]): Float64Array {
    const tops = new Float64Array(rows.length + 1);
    rows.forEach((shown, at) => {
      tops[at + 1] = tops[at]! + this.#extentOf(shown);
    });
    return tops;
  }

  #extentOf(shown: ShownRow): number {
    const measured = this.#measured.get(shown.ts);
    if (measured) return measured.height + measured.gap;
    if (isInvisible(shown.row.peek())) return 0;
    const alike = this.#kinds.get(kindOf(shown));
    return alike ? alike.sum / alike.count : USUAL.height + USUAL.gap;
  }
}

function kindOf(shown: ShownRow): string {
  const row = shown.row.peek();
  return row.say ?? row.ask ?? "";
}
