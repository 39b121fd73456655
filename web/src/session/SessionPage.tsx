import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { askOfInbox, askOfRow, formOf, wordsOf } from "../asks/ask";
import { AskPanel } from "../asks/AskPanel";
import { request } from "../connection";
import type { SessionRow } from "../protocol";
import { PANEL_FULL, useMedia } from "../media";
import { changePanel, panelState } from "../panel/panel-state";
import { SidePanel } from "../panel/SidePanel";
import { hrefOf, type PanelName } from "../routes";
import { isWorktreeRemoved } from "../states";
import { type FollowedTask, followTask, inbox, list, listLoaded } from "../store";
import { Transcript } from "../transcript/Transcript";
import { requestOf } from "../transcript/row-content";
import { Empty, Icon, LinkButton, Notice, Problem, Spinner } from "../ui";
import type { TaskView } from "../view";
import { visibleLine, visibleText, withoutAnsi } from "../visible-text";
import { fork } from "./session-actions";
import { Composer } from "./Composer";
import { ResumeButtons } from "./ResumeButtons";
import { SessionHead } from "./SessionHead";
import { QueuedMessages } from "./QueuedMessages";
import { WorktreeRemoved } from "./WorktreeRemoved";
import { progressText } from "./progress";
import "./session.css";

const LINES_OF_SET_UP = 12;

/** A session, or one of its sub-tasks. */
export function SessionPage({
  session_id,
  task_id,
  panel,
}: {
  session_id: string;
  task_id?: string;
  /** The panel that the address names. */
  panel?: PanelName | undefined;
}) {
  const row = list.value.rows.get(session_id);
  const task = useTask(session_id, task_id);
  const full = useMedia(PANEL_FULL);
  useMarkRead(row);
  useNamedPanel(session_id, panel, full);
  if (!row) return <NoSession />;
  const { open, tab } = panelState.value;
  const shown = task_id ? undefined : full ? panel : open ? tab : undefined;
  return (
    <div class="session-split">
      <div class="session-column" hidden={full && shown !== undefined}>
        <Conversation row={row} task={task} task_id={task_id} />
      </div>
      {shown && <SidePanel row={row} todos={task.view.parts.value.todos ?? []} tab={shown} full={full} />}
    </div>
  );
}

/** Opens the panel that the address names. Beside the conversation it then stands without the address. */
function useNamedPanel(session_id: string, panel: PanelName | undefined, full: boolean): void {
  useEffect(() => {
    if (!panel || full) return;
    changePanel({ open: true, tab: panel });
    location.replace(hrefOf({ page: "session", session_id }));
  }, [panel, full]);
}

function Conversation({ row, task, task_id }: { row: SessionRow; task: FollowedTask; task_id: string | undefined }) {
  const { session_id } = row;
  return (
    <>
      {task_id ? <SubTaskHead row={row} /> : <SessionHead row={row} parts={task.view.parts.value} />}
      <Transcript task={task} session_id={session_id} fork={(ts) => void fork(session_id, ts)}>
        <End row={row} view={task.view} />
      </Transcript>
      <div class="session-foot">
        <Asks row={row} view={task.view} task_id={task_id ?? session_id} />
        {!task_id && (
          <>
            <QueuedMessages row={row} queue={task.view.parts.value.queue ?? []} />
            {!isWorktreeRemoved(row) && <Composer row={row} ask_ts={task.view.parts.value.open_ask ?? null} />}
          </>
        )}
      </div>
    </>
  );
}

function useTask(session_id: string, task_id: string | undefined): FollowedTask {
  const task = useMemo(() => followTask(session_id, task_id), [session_id, task_id]);
  useEffect(() => task.stop, [task]);
  return task;
}

/** Marks a session as read while its page is visible. */
function useMarkRead(row: SessionRow | undefined): void {
  const hidden = useSignal(document.hidden);
  useEffect(() => {
    const update = () => (hidden.value = document.hidden);
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);
  const unseen = row?.unread && !hidden.value;
  useEffect(() => {
    // if this fails, the session just stays unread
    if (unseen) request("mark_read", { session_id: row.session_id }).catch(() => undefined);
  }, [unseen]);
}

function NoSession() {
  if (!listLoaded.value) {
    return (
      <Empty icon="list">
        <Spinner label="Loading session" />
      </Empty>
    );
  }
  return (
    <Empty icon="question">
      <p>This session is no longer in the list.</p>
      <LinkButton href={hrefOf({ page: "home" })}>All sessions</LinkButton>
    </Empty>
  );
}

function SubTaskHead({ row }: { row: SessionRow }) {
  return (
    <header class="session-head">
      <div class="session-head-line">
        <LinkButton
          kind="plain"
          icon="left"
          label="Back to session"
          href={hrefOf({ page: "session", session_id: row.session_id })}
        />
        <h1 class="session-title cut">Sub-task of {visibleLine(row.name)}</h1>
      </div>
    </header>
  );
}

/** Below the rows: progress, or why there is none. */
function End({ row, view }: { row: SessionRow; view: TaskView }) {
  const ended = view.ended.value;
  const rows = view.rows.value;
  const last = rows.at(-1)?.row.value ?? null;
  return (
    <>
      {!view.loaded.value && ended === null && (
        <div class="working">
          <Spinner label="Loading conversation" /> Loading
        </div>
      )}
      <Problem words={ended} />
      {row.flags.show_spinner && (
        <div class="working">
          <Spinner /> {progressText(last, view.parts.value, row, isOpen(view))}
        </div>
      )}
      {row.state === "creating" && row.logs.length > 0 && (
        <pre class="set-up-log">{visibleText(withoutAnsi(row.logs.slice(-LINES_OF_SET_UP).join("\n")))}</pre>
      )}
      {row.state === "paused" && view.loaded.value && !isOpen(view) && (
        <Notice icon="pause">
          The agent is not running, for example because the computer was restarted. Finished work is kept. Resume the
          session, or say how to continue.
        </Notice>
      )}
      {row.failure && !isShownInPanel(row, view) && <FailureNotice row={row} began={rows.length > 0} />}
      {isWorktreeRemoved(row) && <WorktreeRemoved />}
    </>
  );
}

/** Whether a question is waiting for an answer. */
function isOpen(view: TaskView): boolean {
  const open = view.row(view.parts.value.open_ask);
  return open !== null && !open.answered;
}

/** Whether the question panel shows the failure. */
function isShownInPanel(row: SessionRow, view: TaskView): boolean {
  const open = view.row(view.parts.value.open_ask);
  return isOpen(view) && isAnswerable(row, open?.ask ?? "");
}

/** A process that was killed leaves its question open, but only a retry can ask it again. */
function isAnswerable(row: SessionRow, ask: string): boolean {
  const form = formOf(ask);
  return form !== "rest" && (row.state !== "error" || form === "failure" || form === "stuck");
}

/** If the session never started, also shows its prompt, and opens its log. */
function FailureNotice({ row, began }: { row: SessionRow; began: boolean }) {
  return (
    <div class="failure-notice">
      {!began && row.prompt && (
        <div class="row user">
          <div class="said">
            <span class="spoken">You said: </span>
            <div class="said-words">{visibleText(row.prompt)}</div>
          </div>
        </div>
      )}
      <Notice tone="bad" icon="alert">
        <div class="failure-words">{visibleText(row.failure!.text)}</div>
        {!isWorktreeRemoved(row) && (
          <div class="failure-acts">
            <ResumeButtons row={row} />
          </div>
        )}
      </Notice>
      {row.logs.length > 0 && (
        <details class="logs" open={!began && !row.logs.some((each) => each.includes(row.failure!.text))}>
          <summary>
            <Icon name="terminal" /> Last lines of the log
          </summary>
          <pre>{visibleText(withoutAnsi(row.logs.join("\n")))}</pre>
        </details>
      )}
    </div>
  );
}

/** Whether the last rows of the conversation have these words of a failure. */
function isAbove(view: TaskView, words: string): boolean {
  const last = view.rows.value.slice(-3).map(({ row }) => row.value);
  return last.some((row) => row.say === "api_req_started" && requestOf(row.text).failure.trim() === words.trim());
}

/**
 * The open questions of this task and its sub-tasks. While the agent works there are none: the
 * question is answered, and the process that asked may be gone.
 */
function Asks({ row, view, task_id }: { row: SessionRow; view: TaskView; task_id: string }) {
  const { session_id } = row;
  const open = view.row(view.parts.value.open_ask);
  const own = open && !open.answered && !row.flags.show_spinner ? askOfRow(session_id, task_id, open) : null;
  const others = inbox.value.filter((each) => each.session_id === session_id && each.task_id !== task_id);
  const asks = [...(own ? [own] : []), ...others.map(askOfInbox)].filter((ask) => isAnswerable(row, ask.ask));
  return (
    <>
      {asks.map((ask, at) => (
        <AskPanel
          key={`${ask.task_id}/${ask.ts}`}
          ask={ask}
          keys={at === 0}
          brief={ask === own && isAbove(view, wordsOf(ask))}
        />
      ))}
    </>
  );
}
