import { type Ask, askOfInbox, formOf } from "../asks/ask";
import { AskPanel } from "../asks/AskPanel";
import { sendReply } from "../asks/ask-actions";
import { attempt } from "../attempt";
import { ago, counted, moment } from "../format";
import { now } from "../now";
import type { InboxRow, SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { archive } from "../session/session-actions";
import { ResumeButtons } from "../session/ResumeButtons";
import { WorktreeRemoved } from "../session/WorktreeRemoved";
import { isWorktreeRemoved, appearanceOf } from "../states";
import { inbox, list, listLoaded, sessions } from "../store";
import { Prose } from "../transcript/Prose";
import { Badge, Button, Empty, Icon, LinkButton, Notice, Spinner } from "../ui";
import { visibleLine, visibleText } from "../visible-text";
import { ReplyField } from "./ReplyField";
import { sortInbox } from "./inbox-order";
import "./inbox.css";

/** All sessions that need the user, oldest first, with their questions to answer in place. */
export function InboxPage() {
  const rows = sortInbox(inbox.value);
  return (
    <>
      <header class="page-head">
        <h1>Inbox</h1>
        <span class="quiet">{rows.length > 0 && `${rows.length} waiting for you`}</span>
      </header>
      <div class="page-body">
        <div class="page-column inbox">
          {!listLoaded.value && <Spinner label="Loading" />}
          {listLoaded.value && !rows.length && <EmptyInbox />}
          <ul class="inbox-list">
            {rows.map((row, at) => (
              <InboxCard key={`${row.session_id}/${row.task_id}/${row.ts}`} row={row} first={at === 0} />
            ))}
          </ul>
        </div>
      </div>
    </>
  );
}

function EmptyInbox() {
  const active = sessions.value.filter((row) => row.flags.is_active).length;
  return (
    <Empty icon="checkCircle">
      <p>
        <b>Nothing needs your attention.</b>
      </p>
      <p>{active ? `${counted(active, "session")} running.` : "No sessions are running."}</p>
      <LinkButton kind="primary" icon="plus" href={hrefOf({ page: "new" })}>
        New session
      </LinkButton>
    </Empty>
  );
}

function CardHead({ session_id, task_id, name, state, ts }: InboxRow) {
  const appearance = appearanceOf(state);
  return (
    <div class="inbox-head">
      <a class="inbox-name cut" href={hrefOf({ page: "session", session_id })}>
        {visibleLine(name) || "Untitled"}
      </a>
      <Badge tone={appearance.tone} icon={appearance.icon}>
        {appearance.words}
      </Badge>
      {task_id !== "" && task_id !== session_id && <Badge icon="fork">Sub-task</Badge>}
      <Branch session_id={session_id} />
      <span class="grow" />
      <time class="quiet small" title={moment(ts)}>
        {ago(ts, now.value)}
      </time>
      <LinkButton kind="plain" compact icon="right" label="Open session" href={hrefOf({ page: "session", session_id })} />
    </div>
  );
}

function Branch({ session_id }: { session_id: string }) {
  const branch = list.value.rows.get(session_id)?.branch;
  if (!branch) return null;
  return (
    <span class="quiet small cut inbox-branch">
      <Icon name="branch" /> {visibleLine(branch)}
    </span>
  );
}

function InboxCard({ row, first }: { row: InboxRow; first: boolean }) {
  return (
    <li class="inbox-card">
      <CardHead {...row} />
      <CardBody row={row} first={first} />
    </li>
  );
}

function CardBody({ row, first }: { row: InboxRow; first: boolean }) {
  const session = list.value.rows.get(row.session_id);
  const ask = askOfInbox(row);
  const form = formOf(row.ask);
  if (form === "rest" && row.state === "error") return <FailedBody row={row} session={session} />;
  if (form === "rest") return <RestBody ask={ask} row={row} session={session} />;
  return (
    <>
      <AskPanel ask={ask} keys={first} />
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
        {session?.unread && <Button onClick={() => void attempt("mark_read", { session_id })}>Mark as read</Button>}
        {ended && (
          <Button icon="archive" onClick={() => void archive(session)}>
            Archive
          </Button>
        )}
      </div>
    </>
  );
}
