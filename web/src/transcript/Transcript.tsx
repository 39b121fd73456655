import { useComputed, useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { counted } from "../format";
import { useKeys } from "../keys";
import type { FollowedTask } from "../store";
import { Button, toastError, Spinner } from "../ui";
import { Folds, FoldsContext } from "./folds";
import { groupsOf } from "./row-groups";
import { TranscriptRow } from "./TranscriptRow";
import "./transcript.css";
import { VirtualList } from "./virtual-list";

const NEAR_THE_BEGINNING = 600;

/**
 * The rows of a task. Only rows near the viewport are in the document. The view stays at the end
 * unless the user scrolls up; rows added above the viewport do not move it.
 */
export function Transcript({
  task,
  session_id,
  fork,
  children,
}: {
  task: FollowedTask;
  session_id: string;
  /** Absent where a session cannot be forked. */
  fork?: (ts: number) => void;
  /** Content below the rows. */
  children?: ComponentChildren;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const virtualList = useMemo(() => new VirtualList(), [task]);
  const folds = useMemo(() => new Folds(), [task]);
  const fetching = useSignal(false);

  const { view } = task;
  const rows = view.rows.value;
  const earlier = view.earlier.value;
  const count = useComputed(() => view.earlier.value + view.rows.value.length);
  void virtualList.turn.value;
  const runs = virtualList.draw(rows);

  const more = async () => {
    if (fetching.value || !view.earlier.value) return;
    fetching.value = true;
    await task.widen().catch(toastError);
    fetching.value = false;
  };

  const onScroll = () => {
    virtualList.scrolled();
    const { scrollTop = 0 } = scroller.current ?? {};
    if (virtualList.reading.value && scrollTop < NEAR_THE_BEGINNING) void more();
  };

  useLayoutEffect(() => virtualList.follow(scroller.current!, list.current!), [virtualList]);
  useLayoutEffect(() => virtualList.settle());
  useKeys({ End: () => virtualList.toEnd() });

  const groups = useMemo(() => groupsOf(rows), [rows]);
  const drawn: JSX.Element[] = [];
  let end = 0;
  for (const [number, { from, to }] of runs.entries()) {
    if (from > end) drawn.push(<Spacer key={`before ${number}`} from={end} to={from} />);
    for (let at = from; at < to; at++) {
      const shown = rows[at]!;
      drawn.push(
        <TranscriptRow
          key={shown.ts}
          shown={shown}
          place={earlier + at}
          count={count}
          group={groups.get(shown.ts)?.head}
          groupWords={groups.get(shown.ts)?.words}
          session_id={session_id}
          fork={fork}
        />,
      );
    }
    end = to;
  }
  if (end < rows.length) drawn.push(<Spacer key="last" from={end} to={rows.length} />);

  return (
    <div class="transcript">
      <div
        class="transcript-scroll"
        ref={scroller}
        onScroll={onScroll}
        role="log"
        aria-label="Conversation"
        aria-live="off"
        tabIndex={0}
      >
        <div class="transcript-column">
          <Beginning earlier={earlier} fetching={fetching.value} more={() => void more()} />
          <div class="transcript-rows" role="list" aria-label="Messages" aria-busy={fetching.value} ref={list}>
            <FoldsContext.Provider value={folds}>{drawn}</FoldsContext.Provider>
          </div>
          {children}
        </div>
      </div>
      {virtualList.reading.value && (
        <div class="jump">
          <Button icon="arrowDown" onClick={() => virtualList.toEnd()}>
            Jump to latest
          </Button>
        </div>
      )}
    </div>
  );
}

/** Replaces rows that are not drawn. `VirtualList` sets its height. */
function Spacer({ from, to }: { from: number; to: number }) {
  return <div class="row-spacer" aria-hidden="true" data-from={from} data-to={to} />;
}

function Beginning({ earlier, fetching, more }: { earlier: number; fetching: boolean; more: () => void }) {
  if (!earlier) return null;
  return (
    <div class="beginning">
      {fetching ? (
        <Spinner label="Loading earlier messages" />
      ) : (
        <Button kind="plain" compact icon="up" onClick={more}>
          {counted(earlier, "earlier message")}
        </Button>
      )}
    </div>
  );
}
