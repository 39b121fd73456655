/** Whether an element is near the viewport; others need not be loaded or drawn. */
import { useEffect, useState } from "preact/hooks";

type Watched = { readonly current: HTMLElement | null };

const AHEAD = "900px";

export function useNearViewport(element: Watched): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const watched = element.current!;
    const observer = new IntersectionObserver((entries) => setNear(entries.at(-1)!.isIntersecting), {
      // the margin applies only around the scrolling element
      root: scrollerOf(watched),
      rootMargin: AHEAD,
    });
    observer.observe(watched);
    return () => observer.disconnect();
  }, []);
  return near;
}

export function scrollerOf(element: HTMLElement): HTMLElement | null {
  for (let parent = element.parentElement; parent; parent = parent.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(parent).overflowY)) return parent;
  }
  return null;
}

/** True from the first time the element was near. */
export function useOnceNearViewport(element: Watched): boolean {
  const near = useNearViewport(element);
  const [once, setOnce] = useState(false);
  if (near && !once) setOnce(true);
  return near || once;
}
