/** Compares the versions of one prompt. */
import { loadValue, saveValue } from "../storage";
import type { ChangedFile, Version } from "../protocol";

export type Measure = "cost" | "tokens" | "seconds";

const WORKING: readonly Version["state"][] = ["creating", "streaming"];

export function isWorking(version: Version): boolean {
  return WORKING.includes(version.state);
}

/** Sessions with the lowest value among completed versions; none if all are equal. */
export function lowest(versions: readonly Version[], measure: Measure): ReadonlySet<string> {
  const done = versions.filter((version) => version.state === "completed" && version[measure] > 0);
  const smallest = Math.min(...done.map((version) => version[measure]));
  const best = done.filter((version) => version[measure] === smallest);
  return new Set(best.length < done.length ? best.map((version) => version.session_id) : []);
}

/** Why a version cannot be kept now, or null. */
export function whyNotKept(version: Version): string | null {
  if (version.worktree_id === "") return "The worktree was removed.";
  if (isWorking(version)) return "Still working.";
  if (version.stats.files === 0) return "No changes.";
  return null;
}

/** Changed files by session. Versions that are not loaded are missing. */
export type FilesByVersion = ReadonlyMap<string, readonly ChangedFile[]>;

/** All changed files with the number of versions that changed them, most first. */
export function filesOf(versions: readonly Version[], files: FilesByVersion): { path: string; by: number }[] {
  const by = new Map<string, number>();
  for (const { session_id } of versions) {
    for (const { path } of files.get(session_id) ?? []) by.set(path, (by.get(path) ?? 0) + 1);
  }
  const listed = [...by].map(([path, count]) => ({ path, by: count }));
  return listed.sort((one, other) => other.by - one.by || (one.path < other.path ? -1 : 1));
}

export function otherVersions(versions: readonly Version[], winner: Version): readonly Version[] {
  const rest = versions.filter((version) => version.worktree_id !== winner.worktree_id);
  return rest.filter((version) => version.worktree_id !== "");
}

/** The text without Markdown syntax, for a table cell. */
export function withoutMarkdown(text: string): string {
  return text
    .replaceAll(/^```.*$\n?/gm, "")
    .replaceAll(/`([^`\n]+)`/g, "$1")
    .replaceAll(/(\*\*|__)(?=\S)(.+?)(?<=\S)\1/g, "$2")
    .replaceAll(/^#{1,6}\s+/gm, "")
    .replaceAll(/^(\s*)[*-]\s+/gm, "$1• ")
    .replaceAll(/\[([^\]\n]+)\]\([^)\n]+\)/g, "$1");
}

const STORAGE_KEY = "versions.kept.";

/** The session of the version that was applied from this browser, or "". */
export function keptVersion(group_id: string): string {
  return loadValue(`${STORAGE_KEY}${group_id}`, "");
}

export function keepVersion(group_id: string, version: Version): void {
  saveValue(`${STORAGE_KEY}${group_id}`, version.session_id);
}

/** The start of a result, for a table cell. */
export function beginning(result: string, most = 280): string {
  const text = result.trim();
  return text.length <= most ? text : `${text.slice(0, most).trimEnd()}…`;
}
