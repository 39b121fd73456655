import { useEffect, useState } from "preact/hooks";

export const PHONE = "(max-width: 640px)";
export const NARROW = "(max-width: 900px)";

/** Whether a media query matches; updates when that changes. */
export function useMedia(query: string): boolean {
  const [watched] = useState(() => matchMedia(query));
  const [fits, setFits] = useState(watched.matches);
  useEffect(() => {
    const look = () => setFits(watched.matches);
    watched.addEventListener("change", look);
    return () => watched.removeEventListener("change", look);
  }, []);
  return fits;
}
