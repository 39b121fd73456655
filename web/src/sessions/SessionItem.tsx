import { ago, counted, money, moment } from "../format";
import { now } from "../now";
import type { SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { isWorktreeRemoved, appearanceOf, wordsOf } from "../states";
import { Icon, Menu, memo } from "../ui";
import { visibleLine } from "../visible-text";
import { listItems } from "./list-actions";
import { shownTime } from "./session-groups";
import { checksWords } from "../worktrees/worktree-words";

/** A session in the list. */
export const SessionItem = memo(function SessionItem({
  row,
  here,
  place,
  version,
  selected,
  select,
}: {
  row: SessionRow;
  here: boolean;
  /** Its position in the queue. */
  place: number | undefined;
  /** Its number, if it is one of several versions. */
  version: number | undefined;
  /** Undefined unless sessions are being selected. */
  selected: boolean | undefined;
  select: (session_id: string) => void;
}) {
  const classes = ["session-item", row.flags.needs_attention && "needs-you", row.unread && "unread"];
  const { session_id } = row;
  const about = { class: classes.filter(Boolean).join(" "), title: visibleLine(row.prompt) };
  const inside = (
    <>
        <span class="session-name cut">
          {version && <span class="session-version">{version}</span>}
          {visibleLine(row.name) || "Untitled"}
        </span>
        <When row={row} />
        <span class={`session-state ${appearanceOf(row.state).tone}`}>
          {wordsOf(row)}
          {place && ` (${place})`}
          {isWorktreeRemoved(row) && ", worktree removed"}
          {row.flags.needs_attention && <span class="spoken">, needs you</span>}
        </span>
        <span class="session-facts cut">
          <Facts row={row} />
        </span>
    </>
  );
  if (selected !== undefined) {
    return (
      <li>
        <label {...about}>
          <input type="checkbox" checked={selected} onChange={() => select(session_id)} />
          {inside}
        </label>
      </li>
    );
  }
  return (
    <li class="session-line">
      <a {...about} href={hrefOf({ page: "session", session_id })} aria-current={here ? "page" : undefined}>
        <StateIcon row={row} />
        {inside}
      </a>
      <Menu compact label={`Actions for ${visibleLine(row.name) || "session"}`} items={listItems(row)} />
    </li>
  );
});

export function StateIcon({ row }: { row: SessionRow }) {
  const appearance = appearanceOf(row.state);
  if (row.queued) {
    return (
      <span class="state-sign usual">
        <Icon name="clock" />
      </span>
    );
  }
  return (
    <span class={`state-sign ${appearance.tone}`}>
      {row.flags.show_spinner ? <span class="spinner" /> : <Icon name={appearance.icon} />}
    </span>
  );
}

function When({ row }: { row: SessionRow }) {
  const then = shownTime(row);
  return (
    <time class="session-when" dateTime={new Date(then).toISOString()} title={moment(then)}>
      {ago(then, now.value)}
    </time>
  );
}

function Facts({ row }: { row: SessionRow }) {
  const failed = row.undelivered.filter((message) => message.state === "failed").length;
  return (
    <>
      {failed > 0 && <span class="session-fact bad">{failed} not delivered</span>}
      {row.todo_stats && row.todo_stats.total > 0 && (
        <span class="session-fact" title="To-do items done">
          {row.todo_stats.done}/{row.todo_stats.total}
        </span>
      )}
      {row.changes.files > 0 && (
        <span class="session-fact mono" title={`${counted(row.changes.files, "file")} changed`}>
          <span class="added-count">+{row.changes.added}</span> <span class="removed-count">−{row.changes.removed}</span>
        </span>
      )}
      {row.pull_request && (
        <span class="session-fact" title={`Pull request ${row.pull_request.state}. ${checksWords(row.pull_request.checks)}`}>
          <Icon name={row.pull_request.checks.failed ? "cross" : "fork"} />#{row.pull_request.number}
        </span>
      )}
      {row.cost > 0 && <span class="session-fact">{money(row.cost)}</span>}
      {row.tags.map((tag) => (
        <span key={tag} class="session-fact tag">
          {visibleLine(tag)}
        </span>
      ))}
    </>
  );
}
