/** The sessions that are selected, to act on them together. Null unless the user is selecting. */
import { signal } from "@preact/signals";

export const selected = signal<ReadonlySet<string> | null>(null);

export function selectNone(): void {
  selected.value = new Set();
}

export function stopSelecting(): void {
  selected.value = null;
}

export function toggleSelected(session_id: string): void {
  const next = new Set(selected.value ?? []);
  if (!next.delete(session_id)) next.add(session_id);
  selected.value = next;
}

export function selectAll(ids: readonly string[]): void {
  selected.value = new Set(ids);
}
