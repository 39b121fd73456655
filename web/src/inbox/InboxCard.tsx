import { useEffect, useId, useRef } from "preact/hooks";
import { type Ask, askOfInbox, formOf } from "../asks/ask";
import { AskPanel } from "../asks/AskPanel";
import { sendReply } from "../asks/ask-actions";
import { attempt } from "../attempt";
import { ago, moment } from "../format";
import { now } from "../now";
import type { InboxRow, SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { archive } from "../session/session-actions";
import { ResumeButtons } from "../session/ResumeButtons";
import { WorktreeRemoved } from "../session/WorktreeRemoved";
import { isWorktreeRemoved, appearanceOf } from "../states";
import { list } from "../store";
import { Prose } from "../transcript/Prose";
import { Badge, Button, Icon, LinkButton, Notice } from "../ui";
import { visibleLine, visibleText } from "../visible-text";
import { ReplyField } from "./ReplyField";
import { summaryOf } from "./inbox-order";

export interface CardProps {
  row: InboxRow;
  open: boolean;
  /** Shortcuts answer this one. */
  keys: boolean;
  /** The user stepped here: it gets the focus. */
  focused: boolean;
  toggle: (row: InboxRow) => void;
}

/** A session that needs the user: one line, or unfolded with its question to answer in place. */
export function InboxCard({ row, open, keys, focused, toggle }: CardProps) {
  const id = useId();
  return (
    <li class={`inbox-card ${open ? "open" : ""} ${keys ? "chosen" : ""}`}>
      <CardHead row={row} open={open} id={id} focused={focused} toggle={() => toggle(row)} />
      {open && (
        <div class="inbox-body" id={id}>
          <CardBody row={row} keys={keys} />
        </div>
      )}
    </li>
  );
}

function CardHead(props: { row: InboxRow; open: boolean; id: string; focused: boolean; toggle: () => void }) {
  const { row, open, id, focused, toggle } = props;
  const { session_id, task_id, name, state, ts } = row;
  const appearance = appearanceOf(state);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (focused) button.current?.focus();
  }, [focused]);
  return (
    <div class="inbox-head">
      <button
        type="button"
        class="inbox-fold"
        ref={button}
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={toggle}
      >
        <span class={`state-sign ${appearance.tone}`}>
          <Icon name={appearance.icon} />
        </span>
        <span class="inbox-name cut">{visibleLine(name) || "Untitled"}</span>
        <span class="spoken">{appearance.words}: </span>
        <span class={`inbox-summary cut ${row.ask === "command" ? "mono" : ""}`}>
          {open ? wordsWithBranch(row) : visibleLine(summaryOf(row)) || appearance.words}
        </span>
      </button>
      {task_id !== "" && task_id !== session_id && <Badge icon="fork">Sub-task</Badge>}
      <time class="quiet small" title={moment(ts)}>
        {ago(ts, now.value)}
      </time>
      <LinkButton kind="plain" compact icon="right" label="Open session" href={hrefOf({ page: "session", session_id })} />
    </div>
  );
}

function wordsWithBranch({ session_id, state }: InboxRow): string {
  const branch = list.value.rows.get(session_id)?.branch;
  const { words } = appearanceOf(state);
  return branch ? `${words} · ${visibleLine(branch)}` : words;
}

function CardBody({ row, keys }: { row: InboxRow; keys: boolean }) {
  const session = list.value.rows.get(row.session_id);
  const ask = askOfInbox(row);
  const form = formOf(row.ask);
  if (form === "rest" && row.state === "error") return <FailedBody row={row} session={session} />;
  if (form === "rest") return <RestBody ask={ask} row={row} session={session} />;
  return (
    <>
      <AskPanel ask={ask} keys={keys} />
      {form === "question" && <ReplyField label="Your answer" send={(text) => sendReply(ask, text)} />}
    </>
  );
}

/** A session that is done or paused: its result and a field for the next message. */
function RestBody({ ask, row, session }: { ask: Ask; row: InboxRow; session: SessionRow | undefined }) {
  const { session_id } = row;
  const ended = session !== undefined && isWorktreeRemoved(session);
  const acts = (
    <>
      {row.state === "completed" && (
        <Button icon="check" onClick={() => void attempt("mark_read", { session_id })}>
          Mark as read
        </Button>
      )}
      <LinkButton icon="diff" href={hrefOf({ page: "review", session_id })}>
        Review
      </LinkButton>
    </>
  );
  return (
    <>
      {(row.html.length > 0 || row.text) && (
        <div class="inbox-result" tabIndex={0} role="group" aria-label="Result">
          <Prose row={{ text: row.html.length ? "" : row.text, html: row.html as string[] }} />
        </div>
      )}
      {ended ? (
        <>
          <WorktreeRemoved />
          <div class="ask-buttons">{acts}</div>
        </>
      ) : (
        <ReplyField label="What next?" send={(text) => sendReply(ask, text)}>
          {acts}
        </ReplyField>
      )}
    </>
  );
}

function FailedBody({ row, session }: { row: InboxRow; session: SessionRow | undefined }) {
  const { session_id } = row;
  const ended = session !== undefined && isWorktreeRemoved(session);
  return (
    <>
      {session && session.prompt !== session.name && <p class="inbox-prompt">{visibleText(session.prompt)}</p>}
      <Notice tone="bad" icon="alert">
        <div class="failure-words">{visibleText(row.text || session?.failure?.text || "The session failed.")}</div>
      </Notice>
      {ended && <WorktreeRemoved />}
      <div class="ask-buttons">
        {session && !ended && <ResumeButtons row={session} primary />}
        <LinkButton icon="right" href={hrefOf({ page: "session", session_id })}>
          Open
        </LinkButton>
        {session && (
          <Button icon="archive" onClick={() => void archive(session)}>
            Archive
          </Button>
        )}
      </div>
    </>
  );
}
