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

/** The sessions in the order in which the list shows them. */
export function asListed(rows: readonly SessionRow[], words = ""): SessionRow[] {
  const { active, history, archived } = sectionsOf(found(rows, words));
  return [active, history, archived].flatMap((section) => together(section).flatMap((each) => each.rows));
}

/** Sessions that are listed under one heading: the versions of a prompt, or one alone. */
export interface Together {
  group_id: string;
  rows: SessionRow[];
}

/** Versions come where the first of them would, in the order they were started. */
export function together(rows: readonly SessionRow[]): Together[] {
  const groups = new Map<string, Together>();
  for (const row of rows) {
    const key = row.group_id || row.session_id;
    const group = groups.get(key) ?? { group_id: row.group_id, rows: [] };
    group.rows.push(row);
    groups.set(key, group);
  }
  for (const group of groups.values()) group.rows.sort(byStart);
  return [...groups.values()];
}

/** Versions are started at once; then their names tell. */
function byStart(one: SessionRow, other: SessionRow): number {
  return one.start_time - other.start_time || (one.name < other.name ? -1 : 1);
}

/** Which version each is that is one of several, counted in the order they were started. */
export function versionNumbers(rows: readonly SessionRow[]): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>();
  for (const group of together(rows)) {
    if (group.rows.length > 1) group.rows.forEach((row, at) => numbers.set(row.session_id, at + 1));
  }
  return numbers;
}

/** What the versions of a prompt are called together. */
export function commonName(rows: readonly SessionRow[]): string {
  const [shortest = ""] = rows.map((row) => row.name).sort((one, other) => one.length - other.length);
  return shortest.replace(/ v?\d$/, "");
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
