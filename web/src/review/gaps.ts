/** The unchanged lines that a diff omits, and how to show them. */
import type { DiffLine } from "../protocol";
import { plainText } from "./comments";

/** How many lines of a long gap to load at once. */
export const LINES_AT_ONCE = 200;

/**
 * How many lines are omitted at `at`: the number in the gap, or else computed from the lines around
 * it. Null at the end of a file of unknown length.
 */
export function hiddenLines(lines: readonly DiffLine[], at: number): number | null {
  const stated = /\d+/.exec(plainText(lines[at]?.html ?? ""));
  if (stated) return Number(stated[0]);
  const next = lines.slice(at + 1).find(hasOldNumber)?.old;
  if (next == null) return null;
  const before = lines.slice(0, at).findLast(hasOldNumber)?.old ?? 0;
  return next - before - 1;
}

/** Gaps carry the numbers of the omitted lines, so they do not count. */
function hasOldNumber(line: DiffLine): boolean {
  return line.kind !== "gap" && line.old !== null;
}

/** The number of context lines that closes the gap at `at`, or shrinks a long one. */
export function contextFor(lines: readonly DiffLine[], at: number): number {
  return Math.min(hiddenLines(lines, at) ?? LINES_AT_ONCE, LINES_AT_ONCE) + 3;
}

/**
 * The diff with the gap at `at` filled from a diff with more context; other gaps stay. If the file
 * has changed in between, the result is `wide`.
 */
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
