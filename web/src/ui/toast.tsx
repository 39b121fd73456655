import { signal } from "@preact/signals";
import { shortenReferences } from "../wording";
import { Button, LinkButton } from "./button";

const SHOWN_FOR = 6_000;
const PROBLEM_SHOWN_FOR = 12_000;

interface Toast {
  id: number;
  words: string;
  tone: "usual" | "good" | "bad";
  act: ToastAction | undefined;
}

/** A button in the toast, for example Undo, or a link to a view. */
export type ToastAction = { words: string; act: () => void } | { words: string; href: string };

const toasts = signal<Toast[]>([]);
let number = 0;

/** Shows a short message. */
export function toast(words: string, tone: Toast["tone"] = "usual", act?: ToastAction): void {
  const id = ++number;
  const shown: Toast = { id, words: shortenReferences(words), tone, act };
  toasts.value = [...toasts.value.filter((each) => each.words !== shown.words).slice(-3), shown];
  setTimeout(() => dismiss(id), tone === "bad" ? PROBLEM_SHOWN_FOR : SHOWN_FOR);
}

/** Shows an error as a toast. */
export function toastError(error: unknown): void {
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
          {each.act && <Action of={each.act} done={() => dismiss(each.id)} />}
          <Button kind="plain" compact icon="cross" label="Dismiss" onClick={() => dismiss(each.id)} />
        </div>
      ))}
    </div>
  );
}

function Action({ of, done }: { of: ToastAction; done: () => void }) {
  if ("href" in of) {
    return (
      <LinkButton compact href={of.href}>
        {of.words}
      </LinkButton>
    );
  }
  const act = () => {
    done();
    of.act();
  };
  return (
    <Button compact onClick={act}>
      {of.words}
    </Button>
  );
}
