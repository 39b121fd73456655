/** Parses a diff. A line that is not part of a diff is shown unchanged: the user may have to approve it. */
export interface DiffLine {
  kind: "added" | "removed" | "same" | "head" | "raw";
  number: number | null;
  words: string;
}

const HUNK = /^@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@(.*)$/;

export function diffLines(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let old = 0;
  let now = 0;
  for (const row of diff ? diff.replace(/\n$/, "").split("\n") : []) {
    const head = HUNK.exec(row);
    if (head) {
      old = Number(head[1]);
      now = Number(head[2]);
      lines.push({ kind: "head", number: null, words: head[3]!.trim() });
      continue;
    }
    const words = row.slice(1);
    switch (row[0]) {
      case "+":
        lines.push({ kind: "added", number: now++ || null, words });
        break;
      case "-":
        lines.push({ kind: "removed", number: old++ || null, words });
        break;
      case " ":
      case undefined:
        lines.push({ kind: "same", number: now++ || null, words });
        old++;
        break;
      default:
        lines.push({ kind: "raw", number: null, words: row });
    }
  }
  return lines;
}
