/** Sessions that start at a time, on a cron line, or by a webhook. */
import { useState } from "preact/hooks";
import { attempt } from "../attempt";
import { counted, moment } from "../format";
import type { ScheduleRow, ScheduleSecret } from "../protocol";
import { useRefresh, useRequest } from "../requests";
import { hrefOf } from "../routes";
import { sessionOf } from "../store";
import { Badge, Button, confirm, Dialog, Empty, Notice, toast } from "../ui";
import { Loaded, PageFrame } from "../ui/PageFrame";
import { visibleLine } from "../visible-text";
import { budgetOf, curlOf } from "./schedule-words";
import { ScheduleDialog } from "./ScheduleDialog";
import "./schedules.css";

const REFRESH_EVERY = 10_000;
const RUNS_SHOWN = 5;

export default function SchedulesPage() {
  const schedules = useRequest("list_schedules", {});
  const [edited, setEdited] = useState<ScheduleRow | "new" | null>(null);
  const [secret, setSecret] = useState<ScheduleSecret | null>(null);
  useRefresh(schedules.reload, REFRESH_EVERY);
  const saved = (added: ScheduleSecret | null) => {
    setEdited(null);
    if (added?.token) setSecret(added);
    for (const note of added?.notes ?? []) toast(note);
    schedules.reload();
  };
  return (
    <PageFrame
      title="Schedules"
      tools={
        <Button kind="primary" icon="plus" onClick={() => setEdited("new")}>
          New schedule
        </Button>
      }
    >
      <Loaded of={schedules} waiting="Loading schedules…">
        {(rows) =>
          rows.length === 0 ? (
            <Empty icon="clock">
              <p>No schedules yet.</p>
              <p class="quiet">
                A schedule starts a session at a time, again and again, or when another program calls its webhook. It runs
                while the manager runs.
              </p>
            </Empty>
          ) : (
            <ul class="cards">
              {rows.map((row) => (
                <ScheduleCard key={row.id} row={row} changed={schedules.reload} edit={() => setEdited(row)} show={setSecret} />
              ))}
            </ul>
          )
        }
      </Loaded>
      {edited && (
        <ScheduleDialog row={edited === "new" ? undefined : edited} close={() => setEdited(null)} saved={saved} />
      )}
      {secret && <SecretDialog secret={secret} close={() => setSecret(null)} />}
    </PageFrame>
  );
}

interface CardProps {
  row: ScheduleRow;
  changed: () => void;
  edit: () => void;
  show: (secret: ScheduleSecret) => void;
}

function ScheduleCard({ row, changed, edit, show }: CardProps) {
  const name = visibleLine(row.name);
  const run = async () => {
    if (await attempt("run_schedule", { id: row.id })) toast(`Started ${name}.`, "good");
    changed();
  };
  const pause = async () => {
    await attempt("change_schedule", { id: row.id, paused: !row.paused });
    changed();
  };
  const renew = async () => {
    const sure = await confirm({
      title: `New token for ${name}?`,
      words: "The old token is no longer valid.",
      yes: "Make a new token",
    });
    const renewed = sure && (await attempt("renew_webhook", { id: row.id }));
    if (renewed) show(renewed);
  };
  const remove = async () => {
    const sure = await confirm({ title: `Remove ${name}?`, words: "Its sessions stay.", yes: "Remove", danger: true });
    if (sure && (await attempt("remove_schedule", { id: row.id }))) changed();
  };
  return (
    <li class="card" aria-label={name}>
      <div class="line-of">
        <h2 class="cut">{name}</h2>
        {row.paused && <Badge icon="pause">Paused</Badge>}
      </div>
      <div class="quiet small schedule-facts">
        <span class={row.cron ? "mono" : undefined}>{whenOf(row)}</span>
        {row.next && !row.at && <span>Next: {moment(row.next)}</span>}
        {budgetOf(row) && <span>{budgetOf(row)}</span>}
        <span>{row.auto_approve ? "Auto-approve" : "Asks before changes"}</span>
        <span>{row.where === "local" ? "In the project" : "In a new worktree"}</span>
      </div>
      <Missed row={row} changed={changed} />
      <Runs row={row} />
      <div class="line-of">
        <Button icon="play" onClick={run}>
          Run now
        </Button>
        <Button icon={row.paused ? "play" : "pause"} onClick={pause}>
          {row.paused ? "Resume" : "Pause"}
        </Button>
        <Button icon="pencil" onClick={edit}>
          Change…
        </Button>
        {row.webhook && (
          <Button icon="retry" onClick={renew}>
            New token…
          </Button>
        )}
        <Button kind="danger" icon="trash" onClick={remove}>
          Remove…
        </Button>
      </div>
    </li>
  );
}

function whenOf(row: ScheduleRow): string {
  if (row.webhook) return "By a webhook";
  if (row.at) return `${row.next ? "Once, at" : "Was at"} ${moment(row.at)}`;
  return row.cron ?? "";
}

function Missed({ row, changed }: { row: ScheduleRow; changed: () => void }) {
  const { missed = [], missed_count = 0 } = row;
  if (!missed_count) return null;
  const dismiss = async () => {
    await attempt("dismiss_missed", { id: row.id });
    changed();
  };
  return (
    <Notice tone="careful" icon="alert">
      <div class="notice-row">
        <div class="grow">
          {counted(missed_count, "run")} did not start.
          <ul class="schedule-missed small">
            {missed.slice(0, RUNS_SHOWN).map((each) => (
              <li key={each.ts}>
                {moment(each.ts)}: {visibleLine(each.reason)}
              </li>
            ))}
          </ul>
        </div>
        <Button compact onClick={dismiss}>
          Dismiss
        </Button>
      </div>
    </Notice>
  );
}

function Runs({ row }: { row: ScheduleRow }) {
  const runs = (row.runs ?? []).slice(0, RUNS_SHOWN);
  if (!runs.length) return null;
  return (
    <ul class="small schedule-runs" aria-label="Last runs">
      {runs.map((run) => {
        const session = sessionOf(run.session_id ?? "");
        return (
          <li key={run.session_id}>
            {session ? (
              <a href={hrefOf({ page: "session", session_id: session.session_id })}>{moment(run.ts)}</a>
            ) : (
              moment(run.ts)
            )}
          </li>
        );
      })}
    </ul>
  );
}

function SecretDialog({ secret, close }: { secret: ScheduleSecret; close: () => void }) {
  const words = curlOf(`${location.origin}${secret.path}`, secret.token ?? "");
  const copy = async () => {
    await navigator.clipboard.writeText(words);
    toast("Copied.", "good");
  };
  return (
    <Dialog
      title={`Webhook of ${visibleLine(secret.schedule.name)}`}
      close={close}
      foot={
        <>
          <Button icon="copy" onClick={copy}>
            Copy
          </Button>
          <Button kind="primary" onClick={close}>
            Done
          </Button>
        </>
      }
    >
      <p>The token is shown only now. It can start this schedule, and nothing else.</p>
      <pre class="schedule-curl">{words}</pre>
      <p class="quiet small">
        The request's text is added to the prompt as quoted text. A repeated id starts no second
        session.
      </p>
    </Dialog>
  );
}
