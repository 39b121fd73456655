import { ago, money, moment, tokens } from "../format";
import { now } from "../now";
import type { SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { isWorktreeRemoved, appearanceOf, wordsOf } from "../states";
import { Icon, memo } from "../ui";
import { visibleLine } from "../visible-text";

/** A session in the list. */
export const SessionItem = memo(function SessionItem({
  row,
  here,
  place,
  version,
}: {
  row: SessionRow;
  here: boolean;
  /** Its position in the queue. */
  place: number | undefined;
  /** Its number, if it is one of several versions. */
  version: number | undefined;
}) {
  const classes = ["session-item", row.flags.needs_attention && "needs-you", row.unread && "unread"];
  return (
    <li>
      <a
        class={classes.filter(Boolean).join(" ")}
        href={hrefOf({ page: "session", session_id: row.session_id })}
        aria-current={here ? "page" : undefined}
        title={visibleLine(row.prompt)}
      >
        <StateIcon row={row} />
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
      </a>
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
  const then = row.end_time ?? row.start_time;
  return (
    <time class="session-when" dateTime={new Date(then).toISOString()} title={moment(then)}>
      {ago(then, now.value)}
    </time>
  );
}

function Facts({ row }: { row: SessionRow }) {
  const failed = row.mail.filter((mail) => mail.state === "failed").length;
  return (
    <>
      {failed > 0 && <span class="session-fact bad">{failed} not delivered</span>}
      {row.todo_stats && row.todo_stats.total > 0 && (
        <span class="session-fact" title="To-do items done">
          {row.todo_stats.done}/{row.todo_stats.total}
        </span>
      )}
      {row.cost > 0 ? (
        <span class="session-fact">{money(row.cost)}</span>
      ) : (
        row.tokens > 0 && <span class="session-fact">{tokens(row.tokens)}</span>
      )}
      {row.branch && !isWorktreeRemoved(row) && (
        <span class="session-fact cut" title={row.branch}>
          <Icon name="branch" />
          {visibleLine(row.branch)}
        </span>
      )}
    </>
  );
}
