/** What going back would do, in plain words, before anything is done. */
import type { RestoreRehearsal } from "../protocol";

export interface Choice {
  readonly files: boolean;
  readonly conversation: boolean;
  /** Also files that somebody else has changed since. */
  readonly overwrite: boolean;
}

export interface Consequence {
  readonly heading: string;
  readonly paths: readonly string[];
  readonly tone: "plain" | "careful";
}

export function consequences(rehearsal: RestoreRehearsal, choice: Choice): readonly Consequence[] {
  if (!choice.files) return [];
  const all: Consequence[] = [
    { heading: "Written as they were", paths: rehearsal.written, tone: "plain" },
    { heading: "Removed, because they did not exist yet", paths: rehearsal.removed, tone: "careful" },
    {
      heading: "Kept as they are now, because somebody else changed them",
      paths: rehearsal.kept,
      tone: "plain",
    },
    {
      heading: "Not in any checkpoint, so they cannot be put back",
      paths: rehearsal.unsaved,
      tone: "careful",
    },
  ];
  return all.filter((consequence) => consequence.paths.length > 0);
}

/** One sentence for the whole of it. */
export function summary(rehearsal: RestoreRehearsal, choice: Choice): string {
  const files = choice.files ? filesWords(rehearsal) : "No file is touched";
  const talk = choice.conversation
    ? "the conversation goes back to this moment"
    : "the conversation stays as it is";
  return `${files}, and ${talk}.`;
}

function filesWords(rehearsal: RestoreRehearsal): string {
  const parts: string[] = [];
  if (rehearsal.written.length > 0) parts.push(`${number(rehearsal.written)} written`);
  if (rehearsal.removed.length > 0) parts.push(`${number(rehearsal.removed)} removed`);
  if (rehearsal.kept.length > 0) parts.push(`${number(rehearsal.kept)} kept`);
  if (parts.length === 0) return "All files are already as they were";
  return parts.join(", ");
}

function number(paths: readonly string[]): string {
  return paths.length === 1 ? "1 file is" : `${paths.length} files are`;
}

export function changesAnything(rehearsal: RestoreRehearsal, choice: Choice): boolean {
  const files = choice.files && rehearsal.written.length + rehearsal.removed.length > 0;
  return files || choice.conversation;
}

export function buttonWords(choice: Choice): string {
  if (choice.files && choice.conversation) return "Go back with files and conversation";
  if (choice.conversation) return "Go back in the conversation only";
  return "Put the files back";
}
