import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { counted } from "../format";
import { useKeys } from "../keys";
import type { FollowedTask } from "../store";
import { Button, complain, Spinner } from "../ui";
import { TranscriptRow } from "./TranscriptRow";
import "./transcript.css";
import { earlierFirst, isTooMuch, leftOut, staysAtEnd } from "./window";

const NEAR_THE_BEGINNING = 600;

/**
 * The rows of a task. It stays at the end unless somebody scrolls up; rows that come in above what
 * is being read do not move it.
 */
export function Transcript({
  task,
  session_id,
  fork,
  children,
}: {
  task: FollowedTask;
  session_id: string;
  fork: (ts: number) => void;
  /** What stands below the rows. */
  children?: ComponentChildren;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const column = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const top = useRef(0);
  const reading = useSignal(false);
  const first = useSignal<number | null>(null);
  const fetching = useSignal(false);

  const { view } = task;
  const rows = view.rows.value;
  const earlier = view.earlier.value;
  const hidden = leftOut(rows, first.value);
  const drawn = rows.slice(hidden);
  const anchor = stuck.current ? null : placeOfFirst(column.current);

  const toEnd = () => {
    const box = scroller.current;
    if (box) box.scrollTop = box.scrollHeight;
  };

  const more = async () => {
    if (fetching.value) return;
    if (hidden > 0) {
      first.value = earlierFirst(rows, first.value);
    } else if (earlier > 0) {
      fetching.value = true;
      first.value = 0;
      await task.widen().catch(complain);
      fetching.value = false;
    }
  };

  const look = () => {
    const box = scroller.current;
    if (!box) return; // scrolled while it went away
    stuck.current = staysAtEnd(box, { atEnd: stuck.current, top: top.current });
    top.current = box.scrollTop;
    reading.value = !stuck.current;
    if (!stuck.current && box.scrollTop < NEAR_THE_BEGINNING) void more();
  };

  useLayoutEffect(() => {
    if (stuck.current) {
      if (isTooMuch(rows, first.value)) first.value = null;
      toEnd();
    } else if (anchor) {
      const moved = topOf(column.current, anchor.ts) - anchor.top;
      if (moved) scroller.current!.scrollTop += moved;
    }
  }, [rows, hidden]);

  useEffect(() => {
    const follow = new ResizeObserver(() => stuck.current && toEnd());
    follow.observe(column.current!);
    follow.observe(scroller.current!);
    return () => follow.disconnect();
  }, []);

  useKeys({ End: toEnd });

  return (
    <div class="transcript">
      <div
        class="transcript-scroll"
        ref={scroller}
        onScroll={look}
        role="log"
        aria-label="Conversation"
        aria-live="off"
        tabIndex={0}
      >
        <div class="transcript-column" ref={column}>
          <Beginning earlier={earlier + hidden} fetching={fetching.value} more={() => void more()} />
          {drawn.map((shown, at) => (
            <TranscriptRow
              key={shown.ts}
              shown={shown}
              opening={earlier + hidden + at === 0}
              session_id={session_id}
              fork={fork}
            />
          ))}
          {children}
        </div>
      </div>
      {reading.value && (
        <div class="jump">
          <Button icon="arrowDown" onClick={toEnd}>
            Jump to newest
          </Button>
        </div>
      )}
    </div>
  );
}

function Beginning({ earlier, fetching, more }: { earlier: number; fetching: boolean; more: () => void }) {
  if (!earlier) return null;
  return (
    <div class="beginning">
      {fetching ? (
        <Spinner label="Fetching earlier rows" />
      ) : (
        <Button kind="plain" compact icon="up" onClick={more}>
          {counted(earlier, "earlier row")}
        </Button>
      )}
    </div>
  );
}

function placeOfFirst(column: HTMLElement | null): { ts: string; top: number } | null {
  const row = column?.querySelector<HTMLElement>("[data-ts]");
  return row ? { ts: row.dataset.ts!, top: row.getBoundingClientRect().top } : null;
}

function topOf(column: HTMLElement | null, ts: string): number {
  return column?.querySelector(`[data-ts="${ts}"]`)?.getBoundingClientRect().top ?? 0;
}
