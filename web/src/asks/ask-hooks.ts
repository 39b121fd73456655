/** Hooks of the question panel: minimum viewing time, shortcuts, one answer at a time. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Keys, useKeys } from "../keys";
import { focusComposer } from "../session/composer-focus";

/** A question must be visible this many milliseconds before it can be answered. */
const SEEN_AFTER = 500;

export function useSeenLongEnough(partial: boolean): boolean {
  const seen = useSignal(false);
  useEffect(() => {
    seen.value = false;
    if (partial) return;
    const timer = setTimeout(() => (seen.value = true), SEEN_AFTER);
    return () => clearTimeout(timer);
  }, [partial]);
  return seen.value;
}

/** Shortcuts that answer a question. They work only after the minimum viewing time. */
export function useAnswerKeys(has: boolean, keys: Keys): void {
  const since = useRef(Infinity);
  useEffect(() => {
    since.current = has ? performance.now() + SEEN_AFTER : Infinity;
  }, [has]);
  useKeys(has ? keys : {}, since);
}

/** Whether the user has scrolled to the end of the requested action. */
export function useReadToEnd() {
  const box = useRef<HTMLDivElement>(null);
  const whole = useSignal(false);
  const onScroll = () => {
    if (!box.current) return;
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    if (scrollTop + clientHeight >= scrollHeight - 4) whole.value = true;
  };
  useEffect(() => {
    const resized = new ResizeObserver(onScroll);
    resized.observe(box.current!);
    return () => resized.disconnect();
  }, []);
  const toEnd = () => box.current?.scrollTo({ top: box.current.scrollHeight, behavior: "smooth" });
  return { box, onScroll, toEnd, whole: whole.value };
}

/** Sends one answer at a time and moves the focus to the composer. */
export function useSendAnswer() {
  const busy = useSignal(false);
  const answer = (send: () => Promise<unknown>) => {
    if (busy.value) return;
    busy.value = true;
    focusComposer();
    void send().finally(() => (busy.value = false));
  };
  return { busy: busy.value, answer };
}
