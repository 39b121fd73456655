import { signal } from "@preact/signals";
import { Button } from "./button";

const SHOWN_FOR = 6_000;
const PROBLEM_SHOWN_FOR = 12_000;

interface Toast {
  id: number;
  words: string;
  tone: "usual" | "good" | "bad";
}

const toasts = signal<Toast[]>([]);
let number = 0;

/** Say something in passing. */
export function toast(words: string, tone: Toast["tone"] = "usual"): void {
  const id = ++number;
  toasts.value = [...toasts.value.filter((each) => each.words !== words).slice(-3), { id, words, tone }];
  setTimeout(() => dismiss(id), tone === "bad" ? PROBLEM_SHOWN_FOR : SHOWN_FOR);
}

/** Say why something did not work. */
export function complain(error: unknown): void {
  toast(error instanceof Error ? error.message : String(error), "bad");
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((each) => (
        <div key={each.id} class={`toast ${each.tone}`}>
          <span class="grow">{each.words}</span>
          <Button kind="plain" compact icon="cross" label="Dismiss" onClick={() => dismiss(each.id)} />
        </div>
      ))}
    </div>
  );
}
