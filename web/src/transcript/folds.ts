/** Remembers which parts of a row are expanded while the row is not drawn. */
import { type Signal, signal, useSignal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export class Folds {
  readonly #folds = new Map<string, Signal<boolean>>();

  of(ts: number, name: string, open: boolean): Signal<boolean> {
    const key = `${ts} ${name}`;
    const fold = this.#folds.get(key) ?? signal(open);
    this.#folds.set(key, fold);
    return fold;
  }
}

export const FoldsContext = createContext<Folds | null>(null);
/** The `ts` of the enclosing row. */
export const RowContext = createContext(0);

/** Whether a part is expanded. The name must be unique in its row, by default the enclosing one. */
export function useFold(name: string, open = false, row?: number): Signal<boolean> {
  const own = useSignal(open);
  const folds = useContext(FoldsContext);
  const ts = useContext(RowContext);
  return folds?.of(row ?? ts, name, open) ?? own;
}
