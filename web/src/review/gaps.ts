/** The lines a diff leaves out, and how they are put in when somebody wants to see them. */
import type { DiffLine } from "../protocol";
import { plainText } from "./comments";

/** So many at a time where a gap is long. */
export const LINES_AT_ONCE = 200;

/** How many lines are left out at `at`, as the gap says or else as the lines around it do. At the
 *  end of a file whose length nobody said it is null. */
export function hiddenLines(lines: readonly DiffLine[], at: number): number | null {
  const said = /\d+/.exec(plainText(lines[at]?.html ?? ""));
  if (said) return Number(said[0]);
  const next = lines.slice(at + 1).find(hasOldNumber)?.old;
  if (next == null) return null;
  const before = lines.slice(0, at).findLast(hasOldNumber)?.old ?? 0;
  return next - before - 1;
}

/** A gap has the numbers of what it leaves out, so it is no line to count from. */
function hasOldNumber(line: DiffLine): boolean {
  return line.kind !== "gap" && line.old !== null;
}

/** How wide a diff must be read so that the gap at `at` closes, or shrinks if it is long. */
export function contextFor(lines: readonly DiffLine[], at: number): number {
  return Math.min(hiddenLines(lines, at) ?? LINES_AT_ONCE, LINES_AT_ONCE) + 3;
}

/** The diff with the gap at `at` filled from a wider reading; other gaps stay as they are.
 *  If the file has changed in between, the wider reading is all that is true. */
export function filled(
  lines: readonly DiffLine[],
  at: number,
  wide: readonly DiffLine[],
): readonly DiffLine[] {
  const from = at === 0 ? 0 : placeOf(lines[at - 1], wide) + 1;
  const to = at === lines.length - 1 ? wide.length : placeOf(lines[at + 1], wide);
  const known = (at === 0 || from > 0) && to >= from;
  if (!known) return wide;
  return [...lines.slice(0, at), ...wide.slice(from, to), ...lines.slice(at + 1)];
}

function placeOf(line: DiffLine | undefined, lines: readonly DiffLine[]): number {
  if (line === undefined) return -1;
  return lines.findIndex(
    (other) =>
      other.kind === line.kind &&
      other.old === line.old &&
      other.new === line.new &&
      other.html === line.html,
  );
}
