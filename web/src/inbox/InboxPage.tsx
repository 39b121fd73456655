import { type Ask, askOfInbox, formOf } from "../asking/ask";
import { AskPanel } from "../asking/AskPanel";
import { say } from "../asking/answering";
import { attempt } from "../attempt";
import { ago, counted, moment } from "../format";
import { now } from "../now";
import type { InboxRow, SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { resume, retry } from "../session/acts";
import { lookOf } from "../states";
import { inbox, list, listTold, sessions } from "../store";
import { Prose } from "../transcript/Prose";
import { Badge, Button, Empty, Icon, LinkButton, Notice, Spinner } from "../ui";
import { harmless, line } from "../visible";
import { ReplyField } from "./ReplyField";
import "./inbox.css";

/** All that waits for somebody, whoever has waited longest first; answered in place. */
export function InboxPage() {
  const rows = inbox.value;
  const asking = new Set(rows.map((row) => row.session_id));
  const others = sessions.value.filter(
    (row) => row.flags.needs_attention && !row.archived && !asking.has(row.session_id),
  );
  const count = rows.length + others.length;
  return (
    <>
      <header class="page-head">
        <h1>Inbox</h1>
        <span class="quiet">{listTold.value && (count ? `${counted(count, "session")} waiting for you` : "")}</span>
      </header>
      <div class="page-body">
        <div class="page-column inbox">
          {!listTold.value && <Spinner label="Loading" />}
          {listTold.value && !count && <Quiet />}
          <ul class="inbox-list">
            {rows.map((row, at) => (
              <InboxCard key={`${row.session_id}/${row.task_id}/${row.ts}`} row={row} first={at === 0} />
            ))}
            {others.map((row) => (
              <FailedCard key={row.session_id} row={row} />
            ))}
          </ul>
        </div>
      </div>
    </>
  );
}

function Quiet() {
  const active = sessions.value.filter((row) => row.flags.is_active).length;
  return (
    <Empty icon="checkCircle">
      <p>
        <b>Nobody waits for you.</b>
      </p>
      <p>{active ? `${counted(active, "session")} at work.` : "No session is at work."}</p>
      <LinkButton kind="primary" icon="plus" href={hrefOf({ page: "new" })}>
        New agent
      </LinkButton>
    </Empty>
  );
}

type Headed = Pick<InboxRow, "session_id" | "name" | "state" | "ts"> & { task_id?: string };

function CardHead({ session_id, task_id, name, state, ts }: Headed) {
  const look = lookOf(state);
  return (
    <div class="inbox-head">
      <a class="inbox-name cut" href={hrefOf({ page: "session", session_id })}>
        {line(name) || "Untitled"}
      </a>
      <Badge tone={look.tone} icon={look.icon}>
        {look.words}
      </Badge>
      {task_id !== undefined && task_id !== session_id && <Badge icon="fork">sub-task</Badge>}
      <Branch session_id={session_id} />
      <span class="grow" />
      <time class="quiet small" title={moment(ts)}>
        {ago(ts, now.value)}
      </time>
      <LinkButton kind="plain" compact icon="right" label="Open the session" href={hrefOf({ page: "session", session_id })} />
    </div>
  );
}

function Branch({ session_id }: { session_id: string }) {
  const branch = list.value.rows.get(session_id)?.branch;
  if (!branch) return null;
  return (
    <span class="quiet small cut inbox-branch">
      <Icon name="branch" /> {line(branch)}
    </span>
  );
}

function InboxCard({ row, first }: { row: InboxRow; first: boolean }) {
  const ask = askOfInbox(row);
  return (
    <li class="inbox-card">
      <CardHead {...row} />
      {formOf(ask.ask) === "rest" ? <RestBody ask={ask} row={row} /> : <AskPanel ask={ask} keys={first} />}
      {formOf(ask.ask) === "question" && <ReplyField label="Your answer" send={(text) => say(ask, text)} />}
    </li>
  );
}

/** Done, or paused: what it came to, and what next. */
function RestBody({ ask, row }: { ask: Ask; row: InboxRow }) {
  const { session_id } = row;
  return (
    <>
      {(row.html.length > 0 || row.text) && (
        <div class="inbox-result">
          <Prose row={{ text: row.html.length ? "" : row.text, html: row.html as string[] }} />
        </div>
      )}
      <ReplyField label="Say what else is to be done" send={(text) => say(ask, text)}>
        {row.state === "completed" && (
          <Button icon="check" onClick={() => void attempt("mark_read", { session_id })}>
            Seen
          </Button>
        )}
        <LinkButton icon="diff" href={hrefOf({ page: "review", session_id })}>
          Review
        </LinkButton>
      </ReplyField>
    </>
  );
}

function FailedCard({ row }: { row: SessionRow }) {
  const { session_id } = row;
  return (
    <li class="inbox-card">
      <CardHead session_id={session_id} name={row.name} state={row.state} ts={row.end_time ?? row.start_time} />
      {row.failure && (
        <Notice tone="bad" icon="alert">
          {harmless(row.failure.text)}
        </Notice>
      )}
      <div class="ask-buttons">
        {row.flags.show_retry_button && (
          <Button kind="primary" icon="retry" onClick={() => retry(row)}>
            Retry
          </Button>
        )}
        {row.flags.show_resume_button && (
          <Button icon="play" onClick={() => resume(row)}>
            Resume
          </Button>
        )}
        {row.unread && <Button onClick={() => void attempt("mark_read", { session_id })}>Seen</Button>}
      </div>
    </li>
  );
}
