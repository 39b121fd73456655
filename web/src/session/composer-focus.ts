/** Keeps the focus in the composer, so that typed words do not trigger shortcuts. */
import { useEffect } from "preact/hooks";
import { isEditing } from "../keys";

const COMPOSER = "textarea.composer-words";
let last: Element | null = null;

addEventListener("focusin", (event) => (last = event.target as Element));
// a click on the page, or selecting text, moves the focus away on purpose
addEventListener("pointerdown", () => (last = null), true);

/** Not on touch screens, where it would open the keyboard. */
export function focusComposer(): void {
  if (matchMedia("(pointer: coarse)").matches) return;
  const place = document.querySelector<HTMLElement>(`${COMPOSER}:enabled`) ?? document.querySelector<HTMLElement>("main");
  place?.focus({ preventScroll: true });
}

/** Takes over the focus from a button that was removed or disabled. */
export function useReclaimFocus(): void {
  useEffect(() => {
    const focusLost = document.activeElement === document.body && last !== null && !canHaveFocus(last);
    if (!focusLost || isEditing()) return;
    last = null;
    focusComposer();
  });
}

function canHaveFocus(element: Element): boolean {
  return element.isConnected && !element.matches(":disabled");
}
