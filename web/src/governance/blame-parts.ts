/** Groups the lines of a blamed file: consecutive lines written by one record. */
import type { BlamedLine } from "../protocol";

export interface Part {
  readonly from: number;
  readonly to: number;
  readonly lines: readonly BlamedLine[];
  /** A line with the author's record, or null if no record is known. */
  readonly by: BlamedLine | null;
}

export function parts(lines: readonly BlamedLine[]): readonly Part[] {
  const found: { lines: BlamedLine[] }[] = [];
  for (const line of lines) {
    const last = found.at(-1);
    if (last && belongs(last.lines[0], line)) last.lines.push(line);
    else found.push({ lines: [line] });
  }
  return found.map((part) => partOf(part.lines));
}

function belongs(first: BlamedLine | undefined, line: BlamedLine): boolean {
  return first?.record_id === line.record_id && first.criterion === line.criterion;
}

function partOf(lines: readonly BlamedLine[]): Part {
  const first = lines[0]!;
  const last = lines[lines.length - 1]!;
  return { from: first.line, to: last.line, lines, by: first.record_id === "" ? null : first };
}

/** How many lines the ledger knows: "12 of 40 lines". */
export function coverage(lines: readonly BlamedLine[]): string {
  const known = lines.filter((line) => line.record_id !== "").length;
  return `${known} of ${lines.length} ${lines.length === 1 ? "line" : "lines"}`;
}

/** The known links from a line to its approval. */
export function chain(by: BlamedLine): readonly { readonly name: string; readonly text: string }[] {
  const links = [
    { name: "Record", text: by.record_id },
    { name: "Intent", text: by.intent },
    { name: "Criterion", text: by.criterion },
    { name: "Tool", text: by.tool },
    { name: "Approved by", text: by.approved_by },
  ];
  return links.filter((link) => link.text !== "");
}
