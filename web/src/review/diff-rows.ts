/** A diff as table rows: unified, or split into old and new side by side. */
import type { DiffLine } from "../protocol";

export type DiffView = "unified" | "split";

export type DiffRow =
  | { readonly kind: "gap"; readonly at: number }
  | { readonly kind: "line"; readonly line: DiffLine }
  | { readonly kind: "pair"; readonly left: DiffLine | null; readonly right: DiffLine | null };

/** Small enough to draw at once, large enough that most diffs are one piece. */
export const ROWS_IN_A_PIECE = 120;

export function rowsOf(lines: readonly DiffLine[], view: DiffView): DiffRow[] {
  return view === "split" ? pairedRows(lines) : lines.map(singleRow);
}

export function piecesOf(rows: readonly DiffRow[], size = ROWS_IN_A_PIECE): DiffRow[][] {
  const pieces: DiffRow[][] = [];
  for (let at = 0; at < rows.length; at += size) pieces.push(rows.slice(at, at + size));
  return pieces;
}

function singleRow(line: DiffLine, at: number): DiffRow {
  return line.kind === "gap" ? { kind: "gap", at } : { kind: "line", line };
}

/** Pairs removed lines with the added lines that replace them, in order. */
function pairedRows(lines: readonly DiffLine[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const settle = () => {
    const most = Math.max(removed.length, added.length);
    for (let i = 0; i < most; i++) {
      rows.push({ kind: "pair", left: removed[i] ?? null, right: added[i] ?? null });
    }
    removed = [];
    added = [];
  };
  lines.forEach((line, at) => {
    switch (line.kind) {
      case "removed":
        // a removal after an addition starts a new change
        if (added.length > 0) settle();
        removed.push(line);
        break;
      case "added":
        added.push(line);
        break;
      case "gap":
        settle();
        rows.push({ kind: "gap", at });
        break;
      case "same":
        settle();
        rows.push({ kind: "pair", left: line, right: line });
        break;
    }
  });
  settle();
  return rows;
}
