import { useEffect, useState } from "preact/hooks";

export const PHONE = "(max-width: 640px)";
/** Too narrow for a panel beside the conversation. */
export const PANEL_FULL = "(max-width: 1000px)";
export const NARROW = "(max-width: 900px)";

/** Whether a media query matches; updates when that changes. */
export function useMedia(query: string): boolean {
  const [watched] = useState(() => matchMedia(query));
  const [fits, setFits] = useState(watched.matches);
  useEffect(() => {
    const update = () => setFits(watched.matches);
    watched.addEventListener("change", update);
    return () => watched.removeEventListener("change", update);
  }, []);
  return fits;
}
