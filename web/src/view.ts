/**
 * The rows of one task, updated by the manager's changes.
 *
 * Each row has its own signal: while its text streams, only that row is drawn again. The list
 * changes when rows are added or removed. Rows are sorted by `ts`.
 */
import { batch, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Row, RowChange, SessionChange, ViewChange } from "./protocol";

export type Parts = NonNullable<ViewChange["parts"]>;

export interface ShownRow {
  readonly ts: number;
  readonly row: ReadonlySignal<Row>;
}

interface Cell extends ShownRow {
  readonly row: Signal<Row>;
}

export class TaskView {
  readonly rows = signal<readonly ShownRow[]>([]);
  readonly parts = signal<Parts>({});
  /** The number of rows before the first one here. */
  readonly earlier = signal(0);
  /** Whether a change has arrived. */
  readonly loaded = signal(false);
  /** Why the subscription ended, or null. */
  readonly ended = signal<string | null>(null);

  #cells: Cell[] = [];
  #stale = false;

  /** The next change replaces all rows; the old ones stay visible until then. */
  restart(): void {
    this.#stale = true;
    this.ended.value = null;
  }

  apply({ change, earlier }: SessionChange): void {
    batch(() => {
      if (this.#stale) this.#forget();
      this.#remove(change.removed ?? []);
      this.#add(change.added ?? []);
      for (const each of change.changed ?? []) this.#change(each);
      if (change.parts) this.parts.value = { ...this.parts.value, ...change.parts };
      this.earlier.value = earlier;
      this.loaded.value = true;
    });
  }

  row(ts: number | null | undefined): Row | null {
    const cell = ts == null ? undefined : this.#cells[indexOfTs(this.#cells, ts)];
    return cell?.ts === ts ? (cell?.row.value ?? null) : null;
  }

  #forget(): void {
    this.#stale = false;
    this.#cells = [];
    this.rows.value = [];
    this.parts.value = {};
  }

  #remove(removed: readonly number[]): void {
    if (!removed.length) return;
    const gone = new Set(removed);
    this.#show(this.#cells.filter((cell) => !gone.has(cell.ts)));
  }

  #add(added: readonly Row[]): void {
    if (!added.length) return;
    const cells = [...this.#cells];
    const fresh: Cell[] = [];
    for (const row of added) {
      const place = indexOfTs(cells, row.ts);
      if (cells[place]?.ts === row.ts) cells[place]!.row.value = row;
      else fresh.push({ ts: row.ts, row: signal(row) });
    }
    // usually added at the end or the beginning
    this.#show([...cells, ...fresh].sort((one, other) => one.ts - other.ts));
  }

  #change(change: RowChange): void {
    const cell = this.#cells[indexOfTs(this.#cells, change.ts)];
    if (cell?.ts === change.ts) cell.row.value = changedRow(cell.row.value, change);
  }

  #show(cells: Cell[]): void {
    this.#cells = cells;
    this.rows.value = cells;
  }
}

/** The row with a change applied: text appended or replaced, and the same for its HTML. */
export function changedRow(row: Row, change: RowChange): Row {
  const { drop = 0, append, html_add, ...fields } = change;
  const next: Row = { ...row, ...fields };
  if (append !== undefined || drop) {
    const text = row.text ?? "";
    next.text = text.slice(0, text.length - drop) + (append ?? "");
  }
  if (html_add) next.html = [...(fields.html ?? row.html ?? []), ...html_add];
  return next;
}

/** The index of a `ts`, or where to insert it. */
export function indexOfTs(cells: readonly Pick<ShownRow, "ts">[], ts: number): number {
  let low = 0;
  let high = cells.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cells[middle]!.ts < ts) low = middle + 1;
    else high = middle;
  }
  return low;
}
