/** Which sessions the list shows, and under which heads. */
import type { SessionRow } from "../protocol";

export interface Sections {
  active: SessionRow[];
  history: SessionRow[];
  archived: SessionRow[];
}

/** Those that hold all words somewhere, in the order they come. */
export function found(rows: readonly SessionRow[], words: string): SessionRow[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return [...rows];
  return rows.filter((row) => {
    const text = searched(row);
    return wanted.every((word) => text.includes(word));
  });
}

export function sectionsOf(rows: readonly SessionRow[]): Sections {
  return {
    active: rows.filter((row) => !row.archived && row.flags.is_active),
    history: rows.filter((row) => !row.archived && !row.flags.is_active),
    archived: rows.filter((row) => row.archived),
  };
}

/** In which place those wait whose process has not started: first come, first served. */
export function queuePlaces(rows: readonly SessionRow[]): ReadonlyMap<string, number> {
  const waiting = rows.filter((row) => row.queued).sort((one, other) => one.start_time - other.start_time);
  return new Map(waiting.map((row, at) => [row.session_id, at + 1]));
}

function searched(row: SessionRow): string {
  const texts = [row.name, row.prompt, row.branch, row.model ?? "", row.mode ?? "", row.intent, row.session_id];
  return texts.join("\n").toLowerCase();
}
