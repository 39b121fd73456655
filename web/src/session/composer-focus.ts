/** Keeps the focus in the composer, so that typed words do not act as shortcuts of the page. */
import { useEffect } from "preact/hooks";
import { isEditing } from "../keys";

const COMPOSER = "textarea.composer-words";
let last: Element | null = null;

addEventListener("focusin", (event) => (last = event.target as Element));
// whoever clicks beside everything, or selects text, has left it
addEventListener("pointerdown", () => (last = null), true);

/** On a touch screen this would open the keyboard. */
export function focusComposer(): void {
  if (matchMedia("(pointer: coarse)").matches) return;
  const place = document.querySelector<HTMLElement>(`${COMPOSER}:enabled`) ?? document.querySelector<HTMLElement>("main");
  place?.focus({ preventScroll: true });
}

/** Takes the focus over from a button that is gone, or that can no longer be pressed. */
export function useFocusOfGoneButtons(): void {
  useEffect(() => {
    const fell = document.activeElement === document.body && last !== null && !canHaveFocus(last);
    if (!fell || isEditing()) return;
    last = null;
    focusComposer();
  });
}

function canHaveFocus(element: Element): boolean {
  return element.isConnected && !element.matches(":disabled");
}
