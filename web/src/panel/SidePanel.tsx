/** What stands beside the conversation: changes, plan, terminal, checkpoints, preview. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { lazy } from "../lazy";
import type { SessionRow, Todo } from "../protocol";
import { hrefOf, PANELS, type PanelName } from "../routes";
import { Button, LinkButton, Tabs } from "../ui";
import { visibleLine } from "../visible-text";
import { PlanPanel } from "./PlanPanel";
import { changePanel, fittingWidth, MIN_REST, MIN_WIDTH, panelState } from "./panel-state";
import "./panel.css";

const Changes = lazy(() => import("../review/ReviewPage"));
const Terminal = lazy(() => import("./TerminalPanel"));
const Preview = lazy(() => import("./PreviewPanel"));
const Checkpoints = lazy(() => import("../checkpoints/CheckpointsPanel"));

export const PANEL_WORDS: Readonly<Record<PanelName, string>> = {
  changes: "Changes",
  plan: "Plan",
  terminal: "Terminal",
  checkpoints: "Checkpoints",
  preview: "Preview",
};
const STEP = 24;

export function SidePanel({
  row,
  todos,
  tab,
  full,
}: {
  row: SessionRow;
  todos: readonly Todo[];
  tab: PanelName;
  /** The panel covers the conversation, as on a phone. */
  full: boolean;
}) {
  const { session_id } = row;
  const choose = (next: PanelName) => {
    changePanel({ tab: next });
    // without an entry in the history for each tab
    if (full) location.replace(hrefOf({ page: "session", session_id, panel: next }));
  };
  return (
    <aside class={full ? "side-panel full" : "side-panel"} aria-label="Side panel">
      {full ? (
        <header class="page-head side-panel-title">
          <LinkButton kind="plain" icon="left" label="Back to conversation" href={hrefOf({ page: "session", session_id })} />
          <h1 class="grow cut">{visibleLine(row.name)}</h1>
        </header>
      ) : (
        <ResizeHandle />
      )}
      <div class="side-panel-head">
        <Tabs
          label="Side panel"
          tabs={PANELS.map((id) => ({ id, words: PANEL_WORDS[id] }))}
          chosen={tab}
          choose={choose}
        />
        <span class="grow" />
        {!full && (
          <Button kind="plain" compact icon="cross" label="Close panel" onClick={() => changePanel({ open: false })} />
        )}
      </div>
      <section class="side-panel-body" aria-label={PANEL_WORDS[tab]}>
        <PanelBody row={row} todos={todos} tab={tab} />
      </section>
    </aside>
  );
}

function PanelBody({ row, todos, tab }: { row: SessionRow; todos: readonly Todo[]; tab: PanelName }) {
  const { session_id } = row;
  switch (tab) {
    case "plan":
      return <PlanPanel todos={todos} />;
    case "terminal":
      return <Terminal row={row} />;
    case "preview":
      return <Preview row={row} />;
    case "checkpoints":
      return <Checkpoints session_id={session_id} />;
    case "changes":
      return <Changes session_id={session_id} embedded />;
  }
}

/** The border between conversation and panel: dragged, or moved with the arrow keys. */
function ResizeHandle() {
  const handle = useRef<HTMLDivElement>(null);
  const room = () => handle.current?.parentElement?.parentElement?.clientWidth ?? innerWidth;
  const { width } = panelState.value;
  useLayoutEffect(() => {
    const panel = handle.current!.parentElement!;
    const fit = () => panel.style.setProperty("width", `${fittingWidth(panelState.value.width, room())}px`);
    fit();
    addEventListener("resize", fit);
    return () => removeEventListener("resize", fit);
  }, [width]);
  const resize = (next: number) => changePanel({ width: fittingWidth(next, room()) });
  const onPointerMove = (event: PointerEvent) => {
    if (!handle.current?.hasPointerCapture(event.pointerId)) return;
    resize(handle.current.parentElement!.getBoundingClientRect().right - event.clientX);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (!step) return;
    event.preventDefault();
    resize(fittingWidth(width, room()) + step);
  };
  return (
    <div
      ref={handle}
      class="side-panel-handle"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the panel"
      aria-valuenow={width}
      aria-valuemin={MIN_WIDTH}
      aria-valuemax={Math.max(MIN_WIDTH, room() - MIN_REST)}
      tabIndex={0}
      onPointerDown={(event) => handle.current!.setPointerCapture(event.pointerId)}
      onPointerMove={onPointerMove}
      onKeyDown={onKeyDown}
    />
  );
}
