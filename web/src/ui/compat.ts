/** The one function of preact/compat that the headless components need. */
import { options } from "preact";

/** Renders what the callback changes before it returns. */
export function flushSync<T>(callback: () => T): T {
  const before = options.debounceRendering;
  let flush: (() => void) | undefined;
  options.debounceRendering = (render: () => void) => (flush = render);
  try {
    const answer = callback();
    flush?.();
    return answer;
  } finally {
    options.debounceRendering = before;
  }
}

// other components of the library name these; none of ours uses them
export { useLayoutEffect, useReducer } from "preact/hooks";
export const Children = undefined;
export const createPortal = undefined;
export const useSyncExternalStore = undefined;
