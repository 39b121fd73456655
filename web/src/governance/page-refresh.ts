import { useEffect } from "preact/hooks";

import { useRefresh } from "../requests";

const REFRESH_EVERY = 30_000;

/** Refreshes periodically, when the page gets the focus, and whenever `round` changes. */
export function usePageRefresh(refresh: () => void, round: number): void {
  useRefresh(refresh, REFRESH_EVERY);
  useEffect(() => {
    if (round > 0) refresh();
  }, [round]);
}
