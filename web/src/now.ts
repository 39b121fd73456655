import { signal } from "@preact/signals";

const TICK = 15_000;

/** The current time, for elapsed times on the page. */
export const now = signal(Date.now());

export function watchClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, TICK);
  document.addEventListener("visibilitychange", () => {
    now.value = Date.now();
  });
}
