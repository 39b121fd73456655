/** Searches, groups and sorts the list of sessions. */
import type { SessionRow } from "../protocol";

export interface Section {
  title: string;
  rows: SessionRow[];
}

const ARCHIVED = "Archived";

/** Sessions that contain all words, in the same order. */
export function searchSessions(rows: readonly SessionRow[], words: string): SessionRow[] {
  const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!terms.length) return [...rows];
  return rows.filter((row) => {
    const text = searched(row);
    return terms.every((word) => text.includes(word));
  });
}

/** The sections of the list, without empty ones: by state, then by the day of the time shown. */
export function sectionsOf(rows: readonly SessionRow[], now: number): Section[] {
  const titles = ["Pinned", "Needs you", "Working", "Today", "Yesterday", "Last 7 days", "Older", ARCHIVED];
  const sections = new Map(titles.map((title) => [title, [] as SessionRow[]]));
  for (const row of rows) sections.get(sectionOf(row, now))!.push(row);
  return [...sections].map(([title, rows]) => ({ title, rows })).filter((section) => section.rows.length);
}

function sectionOf(row: SessionRow, now: number): string {
  if (row.archived) return ARCHIVED;
  if (row.pinned) return "Pinned";
  if (row.flags.needs_attention && row.state !== "completed") return "Needs you";
  if (row.flags.is_active) return "Working";
  const days = daysBetween(shownTime(row), now);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? "Last 7 days" : "Older";
}

/** The time that the list shows, and is sorted by. */
export function shownTime(row: Pick<SessionRow, "start_time" | "end_time">): number {
  return row.end_time ?? row.start_time;
}

function daysBetween(then: number, now: number): number {
  const midnight = (time: number) => new Date(time).setHours(0, 0, 0, 0);
  return Math.round((midnight(now) - midnight(then)) / 86_400_000);
}

/** The sessions in display order. */
export function displayOrder(rows: readonly SessionRow[], words = "", now = Date.now()): SessionRow[] {
  return sectionsOf(searchSessions(rows, words), now).flatMap(({ rows }) =>
    groupSessions(rows).flatMap((each) => each.rows),
  );
}

/** All tags in use, by name. */
export function tagsOf(rows: readonly SessionRow[]): string[] {
  return [...new Set(rows.filter((row) => !row.archived).flatMap((row) => row.tags))].sort();
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
  const tags = row.tags.map((tag) => `#${tag}`);
  const texts = [row.name, row.prompt, row.branch, row.model ?? "", row.mode ?? "", row.intent, row.session_id, ...tags];
  return texts.join("\n").toLowerCase();
}

/** The text in parts: those that are one of the words, and those between them. */
export function markedParts(text: string, words: string): { text: string; found: boolean }[] {
  const terms = words.split(/\s+/).filter(Boolean).map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!terms.length) return [{ text, found: false }];
  const parts = text.split(new RegExp(`(${terms.join("|")})`, "i"));
  return parts.map((part, at) => ({ text: part, found: at % 2 === 1 })).filter((part) => part.text);
}
