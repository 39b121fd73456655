/** The files that a tool call would change, whole, from the pieces that the agent sends. */
import type { Wire } from "./rpc.ts";

export interface Piece {
  path: string;
  oldText: string | null;
  newText: string;
  /** The first line in the new file, counted from 1. */
  line: number;
}

export interface Proposal {
  path: string;
  /** The text now; null for a new file. */
  before: string | null;
  after: string;
}

export function piecesOf(call: Wire): Piece[] {
  const diffs = asList(call.content).filter((each) => each.type === "diff");
  const places = asList(call.locations);
  return diffs.map((each, index) => ({
    path: String(each.path),
    oldText: each.oldText ?? null,
    newText: String(each.newText),
    line: places[index]?.path === each.path ? Number(places[index]?.line ?? 1) : 1,
  }));
}

/** The new files; undefined if a piece does not fit the text, so that no wrong text is shown. */
export function proposalsOf(pieces: Piece[], textOf: (path: string) => string | null): Proposal[] | undefined {
  const proposals: Proposal[] = [];
  for (const [path, ofFile] of grouped(pieces)) {
    const before = textOf(path);
    const after = changed(before, ofFile);
    if (after === undefined) return undefined;
    proposals.push({ path, before, after });
  }
  return proposals;
}

/** Pieces come from top to bottom, so a line of the new file is a line of the text changed so far. */
export function changed(before: string | null, pieces: Piece[]): string | undefined {
  if (before === null) return pieces.length === 1 && pieces[0]!.oldText === null ? pieces[0]!.newText : undefined;
  const ending = before.includes("\r\n") ? "\r\n" : "\n";
  const lines = before.replaceAll("\r\n", "\n").split("\n");
  for (const piece of pieces) {
    const old = linesOf(piece.oldText ?? "");
    const at = piece.line - 1;
    if (old.some((line, index) => lines[at + index] !== line)) return undefined;
    lines.splice(at, old.length, ...linesOf(piece.newText));
  }
  return lines.join(ending);
}

function linesOf(text: string): string[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function asList(value: unknown): Wire[] {
  return Array.isArray(value) ? value : [];
}

function grouped(pieces: Piece[]): Map<string, Piece[]> {
  const files = new Map<string, Piece[]>();
  for (const each of pieces) files.set(each.path, [...(files.get(each.path) ?? []), each]);
  return files;
}
