/** Unsent messages, one per session. */
import { keep, kept } from "../storage";

export function draftOf(session_id: string): string {
  return kept(`draft.${session_id}`, "");
}

export function keepDraft(session_id: string, words: string): void {
  keep(`draft.${session_id}`, words || undefined);
}
