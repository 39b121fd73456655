/**
 * Runs of calls that only look or run commands, which collapse to one line ("Explored 3 files") once
 * something else follows. A call that was rejected, failed or is still open is never collapsed.
 */
import { counted } from "../format";
import type { Row } from "../protocol";
import type { ShownRow } from "../view";
import { isInvisible, outcomeOf, payloadOf, rowKindOf } from "./row-content";

export interface RowGroup {
  /** The `ts` of its first row, which shows the line. */
  readonly head: number;
  readonly words: string;
}

type Part = "file" | "search" | "command" | "output" | "neutral" | "other";

const LOOKS: Readonly<Record<string, Part>> = {
  readFile: "file",
  listFilesTopLevel: "search",
  listFilesRecursive: "search",
  listCodeDefinitionNames: "search",
  searchFiles: "search",
  codebaseSearch: "search",
};
const parts = new WeakMap<Row, Part>();

/** The group of each row that is in one, by `ts`. */
export function groupsOf(rows: readonly ShownRow[]): ReadonlyMap<number, RowGroup> {
  const groups = new Map<number, RowGroup>();
  let run: { ts: number; part: Part }[] = [];
  for (const shown of rows) {
    const part = partOf(shown.row.peek());
    if (part === "other") {
      close(run, groups);
      run = [];
    } else if (run.length || (part !== "neutral" && part !== "output")) {
      run.push({ ts: shown.ts, part });
    }
  }
  return groups;
}

function close(run: { ts: number; part: Part }[], groups: Map<number, RowGroup>): void {
  const last = run.findLastIndex(({ part }) => part !== "neutral");
  const words = wordsOf(run.map(({ part }) => part));
  if (!words) return;
  const group = { head: run[0]!.ts, words };
  for (const { ts } of run.slice(0, last + 1)) groups.set(ts, group);
}

/** Such as "Explored 3 files, ran 2 commands"; empty for fewer than two calls. */
export function wordsOf(run: readonly Part[]): string {
  const count = (wanted: Part) => run.filter((part) => part === wanted).length;
  const [files, searches, commands] = [count("file"), count("search"), count("command")];
  if (files + searches + commands < 2) return "";
  const done = [
    files && `explored ${counted(files, "file")}`,
    searches && (searches === 1 ? "searched once" : `searched ${searches} times`),
    commands && `ran ${counted(commands, "command")}`,
  ];
  const words = done.filter(Boolean).join(", ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function partOf(row: Row): Part {
  const known = parts.get(row) ?? classify(row);
  parts.set(row, known);
  return known;
}

function classify(row: Row): Part {
  const kind = rowKindOf(row);
  if (kind === "request" || kind === "checkpoint" || isInvisible(row)) return "neutral";
  if (kind === "output") return "output";
  if (kind !== "call" || row.partial || !row.answered || outcomeOf(row) || row.task_id) return "other";
  if (row.ask === "command") return "command";
  return LOOKS[payloadOf(row).tool ?? ""] ?? "other";
}
