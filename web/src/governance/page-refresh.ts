import { useEffect } from "preact/hooks";

import { useRefresh } from "../requests";

const LOOK_EVERY = 30_000;

/** Refreshes periodically, when the page gets the focus, and whenever `round` changes. */
export function useLooking(again: () => void, round: number): void {
  useRefresh(again, LOOK_EVERY);
  useEffect(() => {
    if (round > 0) again();
  }, [round]);
}
