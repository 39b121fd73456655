/** Texts that describe what restoring a checkpoint would do. */
import type { RestoreRehearsal } from "../protocol";

export interface Choice {
  readonly files: boolean;
  readonly conversation: boolean;
  /** Also restore files that someone else changed since. */
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
    { heading: "Restored to their earlier content", paths: rehearsal.written, tone: "plain" },
    { heading: "Deleted, because they did not exist yet", paths: rehearsal.removed, tone: "careful" },
    {
      heading: "Left unchanged, because someone else changed them",
      paths: rehearsal.kept,
      tone: "plain",
    },
    {
      heading: "Not in any checkpoint, so they cannot be restored",
      paths: rehearsal.unsaved,
      tone: "careful",
    },
  ];
  return all.filter((consequence) => consequence.paths.length > 0);
}

export function summary(rehearsal: RestoreRehearsal, choice: Choice): string {
  const files = choice.files ? filesWords(rehearsal) : "No file is changed";
  const conversation = choice.conversation
    ? "the conversation is rewound to this point"
    : "the conversation is not changed";
  return `${files}, and ${conversation}.`;
}

function filesWords(rehearsal: RestoreRehearsal): string {
  const parts: string[] = [];
  if (rehearsal.written.length > 0) parts.push(`${number(rehearsal.written)} restored`);
  if (rehearsal.removed.length > 0) parts.push(`${number(rehearsal.removed)} deleted`);
  if (rehearsal.kept.length > 0) parts.push(`${number(rehearsal.kept)} left unchanged`);
  if (parts.length === 0) return "All files already match this checkpoint";
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
  if (choice.files && choice.conversation) return "Restore files and conversation";
  if (choice.conversation) return "Restore conversation";
  return "Restore files";
}
