/** Unsent messages, one per session. */
import { loadValue, saveValue } from "../storage";

export function draftOf(session_id: string): string {
  return loadValue(`draft.${session_id}`, "");
}

export function saveDraft(session_id: string, words: string): void {
  saveValue(`draft.${session_id}`, words || undefined);
}
