import { useEffect } from "preact/hooks";

import { useRefresh } from "../review/answers";

const LOOK_EVERY = 30_000;

/** Looks again now and then, when somebody comes back to the page, and whenever `round` is another. */
export function useLooking(again: () => void, round: number): void {
  useRefresh(again, LOOK_EVERY);
  useEffect(() => {
    if (round > 0) again();
  }, [round]);
}
