/** Unsent comments on lines. They are stored until they are sent or deleted. */
import { loadValue, saveValue } from "../storage";
import type { DiffLine, LineComment } from "../protocol";

export interface Draft {
  readonly path: string;
  readonly line: number;
  /** On the old side of the diff. */
  readonly old: boolean;
  readonly text: string;
  /** The text of the line when the comment was started. */
  readonly quote: string;
}

export type Place = Pick<Draft, "path" | "line" | "old">;

export function placeOf(path: string, line: DiffLine): Place | null {
  const old = line.kind === "removed";
  const number = old ? line.old : line.new;
  return number == null || line.kind === "gap" ? null : { path, line: number, old };
}

export function keyOf(place: Place): string {
  return `${place.old ? "-" : "+"}${place.line} ${place.path}`;
}

export function wordsFor(place: Place): string {
  return `${place.path}, ${place.old ? "removed line" : "line"} ${place.line}`;
}

/** Adds or replaces a draft, sorted by file and line. An empty draft is removed. */
export function withDraft(drafts: readonly Draft[], draft: Draft): readonly Draft[] {
  const rest = withoutDraft(drafts, draft);
  return draft.text.trim() === "" ? rest : [...rest, draft].sort(byPlace);
}

export function withoutDraft(drafts: readonly Draft[], place: Place): readonly Draft[] {
  return drafts.filter((draft) => keyOf(draft) !== keyOf(place));
}

export function commentsOf(drafts: readonly Draft[]): LineComment[] {
  return drafts.map(({ path, line, old, text }) => ({ path, line, old, text: text.trim() }));
}

/** Drafts whose line is gone from the diff or has changed. */
export function outdated(
  drafts: readonly Draft[],
  path: string,
  lines: readonly DiffLine[],
): readonly Draft[] {
  const texts = new Map<string, string>();
  for (const line of lines) {
    const place = placeOf(path, line);
    if (place) texts.set(keyOf(place), plainText(line.html));
  }
  return drafts.filter((draft) => draft.path === path && texts.get(keyOf(draft)) !== draft.quote);
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&amp;": "&",
  "&quot;": '"',
  "&#39;": "'",
  "&#x27;": "'",
};

/** The text of a highlighted line, to compare and quote. It is never inserted as HTML. */
export function plainText(html: string): string {
  return html
    .replace(/<[^>]*>/g, "")
    .replace(/&(?:lt|gt|amp|quot|#39|#x27);/g, (entity) => ENTITIES[entity] ?? entity);
}

function byPlace(one: Draft, other: Draft): number {
  if (one.path !== other.path) return one.path < other.path ? -1 : 1;
  return one.line - other.line || Number(other.old) - Number(one.old);
}

const storageKey = (sessionId: string) => `review.comments.${sessionId}`;

export function storedDrafts(sessionId: string): readonly Draft[] {
  const found = loadValue<unknown>(storageKey(sessionId), []);
  return Array.isArray(found) ? found.filter(isDraft) : [];
}

export function saveDrafts(sessionId: string, drafts: readonly Draft[]): void {
  saveValue(storageKey(sessionId), drafts.length > 0 ? drafts : undefined);
}

function isDraft(found: unknown): found is Draft {
  const draft = found as Partial<Draft> | null;
  return (
    typeof draft?.path === "string" &&
    typeof draft.line === "number" &&
    typeof draft.old === "boolean" &&
    typeof draft.text === "string" &&
    typeof draft.quote === "string"
  );
}
