/** Searches, groups and sorts the list of sessions. */
import type { SessionRow } from "../protocol";

export interface Sections {
  active: SessionRow[];
  history: SessionRow[];
  archived: SessionRow[];
}

/** Sessions that contain all words, in the same order. */
export function searchSessions(rows: readonly SessionRow[], words: string): SessionRow[] {
  const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!terms.length) return [...rows];
  return rows.filter((row) => {
    const text = searched(row);
    return terms.every((word) => text.includes(word));
  });
}

export function sectionsOf(rows: readonly SessionRow[]): Sections {
  return {
    active: rows.filter((row) => !row.archived && row.flags.is_active),
    history: rows.filter((row) => !row.archived && !row.flags.is_active),
    archived: rows.filter((row) => row.archived),
  };
}

/** The sessions in display order. */
export function displayOrder(rows: readonly SessionRow[], words = ""): SessionRow[] {
  const { active, history, archived } = sectionsOf(searchSessions(rows, words));
  return [active, history, archived].flatMap((section) => groupSessions(section).flatMap((each) => each.rows));
}

/** Sessions listed under one heading: the versions of a prompt, or a single session. */
export interface SessionGroup {
  group_id: string;
  rows: SessionRow[];
}

/** Groups versions at the position of the first one, ordered by start time. */
export function groupSessions(rows: readonly SessionRow[]): SessionGroup[] {
  const groups = new Map<string, SessionGroup>();
  for (const row of rows) {
    const key = row.group_id || row.session_id;
    const group = groups.get(key) ?? { group_id: row.group_id, rows: [] };
    group.rows.push(row);
    groups.set(key, group);
  }
  for (const group of groups.values()) group.rows.sort(byStart);
  return [...groups.values()];
}

/** Versions start at the same time, so names decide. */
function byStart(one: SessionRow, other: SessionRow): number {
  return one.start_time - other.start_time || (one.name < other.name ? -1 : 1);
}

/** The number of each version, in start order; only for groups of several. */
export function versionNumbers(rows: readonly SessionRow[]): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>();
  for (const group of groupSessions(rows)) {
    if (group.rows.length > 1) group.rows.forEach((row, at) => numbers.set(row.session_id, at + 1));
  }
  return numbers;
}

/** The common name of the versions of a prompt. */
export function commonName(rows: readonly SessionRow[]): string {
  const [shortest = ""] = rows.map((row) => row.name).sort((one, other) => one.length - other.length);
  return shortest.replace(/ v?\d$/, "");
}

/** Positions of queued sessions: first come, first served. */
export function queuePlaces(rows: readonly SessionRow[]): ReadonlyMap<string, number> {
  const waiting = rows.filter((row) => row.queued).sort((one, other) => one.start_time - other.start_time);
  return new Map(waiting.map((row, at) => [row.session_id, at + 1]));
}

function searched(row: SessionRow): string {
  const texts = [row.name, row.prompt, row.branch, row.model ?? "", row.mode ?? "", row.intent, row.session_id];
  return texts.join("\n").toLowerCase();
}
