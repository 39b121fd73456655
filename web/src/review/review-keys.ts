/** Keyboard navigation in a review. */
import { type Keys, useKeys } from "../keys";
import type { ChangedFile } from "../protocol";
import { toast } from "../ui";
import { neighbour } from "./changed-files";

/**
 * `n` and `p` go to the next and previous file. `c` comments on the focused line, or else on the
 * first changed one.
 */
export function useReviewKeys(
  body: { current: HTMLElement | null },
  files: readonly ChangedFile[],
  enabled: boolean,
): void {
  const step = (by: 1 | -1) => {
    const next = neighbour(files, currentPath(body.current!), by);
    if (next) goTo(body.current!, next.path);
  };
  const keys: Keys = {
    n: () => step(1),
    p: () => step(-1),
    c: () => {
      const focused = document.activeElement;
      const button = focused?.matches(".line-button") ? focused : firstChangedLine(body.current!);
      if (button instanceof HTMLElement) button.click();
      else toast("Open a file to comment on its lines.");
    },
  };
  useKeys(enabled ? keys : {});
}

function sectionsIn(body: HTMLElement): HTMLElement[] {
  return [...body.querySelectorAll<HTMLElement>(".file")];
}

/** The file with the focus, or else the one at the top of the viewport. */
function currentPath(body: HTMLElement): string | null {
  const focused = document.activeElement?.closest<HTMLElement>(".file")?.dataset.path;
  if (focused !== undefined) return focused;
  const top = body.getBoundingClientRect().top + 48;
  const above = sectionsIn(body).findLast((section) => section.getBoundingClientRect().top <= top);
  return above?.dataset.path ?? null;
}

export function goTo(body: HTMLElement, path: string): void {
  const section = sectionsIn(body).find((each) => each.dataset.path === path);
  section?.scrollIntoView({ block: "start" });
  section?.querySelector<HTMLElement>(".file-fold")?.focus({ preventScroll: true });
}

function firstChangedLine(body: HTMLElement): HTMLElement | null {
  const path = currentPath(body);
  const section = sectionsIn(body).find((each) => each.dataset.path === path) ?? sectionsIn(body)[0];
  const find = (selector: string) => section?.querySelector<HTMLElement>(selector) ?? null;
  return find(":is(.added, .removed) .line-button") ?? find(".line-button");
}
