/** The ledger: what was done for which intent, in which files, and who approved it. */
import { useEffect, useState } from "preact/hooks";

import { moment } from "../format";
import type { TraceRow } from "../protocol";
import { useRequest } from "../requests";
import { hrefOf } from "../routes";
import { sessionOf, sessions } from "../store";
import { Badge, Button, Empty, Field } from "../ui";
import { Select } from "../ui/select";
import { visibleLine } from "../visible-text";
import { Loaded } from "../ui/PageFrame";
import { usePageRefresh } from "./page-refresh";
import {
  EVERYTHING,
  MAX_RECORDS,
  RECORDS_AT_ONCE,
  type TraceFilter,
  isEverything,
  mayBeMore,
  traceRequest,
} from "./trace-filter";

/** Milliseconds without typing before the path filter applies. */
const DEBOUNCE = 300;

export function TraceList({
  round,
  filter,
  change,
  blame,
}: {
  round: number;
  filter: TraceFilter;
  change: (filter: TraceFilter) => void;
  blame: (path: string) => void;
}) {
  const [most, setMost] = useState(RECORDS_AT_ONCE);
  const trace = useRequest("read_trace", traceRequest(filter, most));
  usePageRefresh(trace.reload, round);
  // keeps the last rows visible while more are loading
  const [last, setLast] = useState<{ filter: TraceFilter; rows: readonly TraceRow[] } | null>(null);
  useEffect(() => {
    if (trace.answer) setLast({ filter, rows: trace.answer });
  }, [trace.answer]);
  useEffect(() => setMost(RECORDS_AT_ONCE), [filter]);
  const rows = trace.answer ?? (last?.filter === filter ? last.rows : null);

  return (
    <>
      <Filters filter={filter} change={change} />
      <Loaded of={{ ...trace, answer: rows }} waiting="Loading the ledger…">
        {(records) =>
          records.length === 0 ? (
            <Empty icon="list">
              <p>{isEverything(filter) ? "Nothing recorded yet." : "No records match the filter."}</p>
              {isEverything(filter) && <p>What an agent changes under an intent is recorded here: files, lines and hashes.</p>}
            </Empty>
          ) : (
            <>
              <ol class="trace" aria-label="Records, newest first">
                {records.map((record) => (
                  <TraceRecord key={record.id} record={record} blame={blame} />
                ))}
              </ol>
              {records.length >= MAX_RECORDS && (
                <p class="quiet small">
                  Showing the newest {MAX_RECORDS} records. For older ones, filter or run <code>rookery trace log</code>.
                </p>
              )}
              {mayBeMore(records.length, most) && (
                <div class="trace-more">
                  <Button busy={trace.loading} onClick={() => setMost(most + RECORDS_AT_ONCE)}>
                    Show more
                  </Button>
                </div>
              )}
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Filters({ filter, change }: { filter: TraceFilter; change: (filter: TraceFilter) => void }) {
  const intents = useRequest("list_intents", {});
  const [path, setPath] = useState(filter.path);
  useEffect(() => {
    if (path === filter.path) return;
    const timer = setTimeout(() => change({ ...filter, path }), DEBOUNCE);
    return () => clearTimeout(timer);
  }, [path]);
  return (
    <div class="filters">
      <Field label="Intent">
        <Select
          value={filter.intent}
          change={(intent) => change({ ...filter, intent })}
          options={[
            { value: "", label: "Any" },
            ...(intents.answer ?? []).map(({ id, name }) => ({ value: id, label: visibleLine(`${id} ${name}`) })),
          ]}
        />
      </Field>
      <Field label="File">
        <input
          class="input"
          type="search"
          placeholder="Any"
          spellcheck={false}
          value={path}
          onInput={(event) => setPath(event.currentTarget.value)}
        />
      </Field>
      <Field label="Session">
        <Select
          value={filter.sessionId}
          change={(sessionId) => change({ ...filter, sessionId })}
          options={[
            { value: "", label: "Any" },
            ...sessions.value.map((row) => ({ value: row.session_id, label: visibleLine(row.name) || "Untitled" })),
          ]}
        />
      </Field>
      {!isEverything(filter) && (
        <Button
          kind="plain"
          icon="cross"
          onClick={() => {
            setPath("");
            change(EVERYTHING);
          }}
        >
          Clear filters
        </Button>
      )}
    </div>
  );
}

function TraceRecord({ record, blame }: { record: TraceRow; blame: (path: string) => void }) {
  const session = record.session_id ? sessionOf(record.session_id) : undefined;
  return (
    <li class="record">
      <div class="line-of">
        <Badge tone="accent">{visibleLine(record.kind.replaceAll("_", " "))}</Badge>
        {record.tool && <span class="mono small">{visibleLine(record.tool)}</span>}
        {record.intent && <Badge icon="shield">{visibleLine(record.intent)}</Badge>}
        {record.approved_by && (
          <Badge tone="good" icon="check">
            {visibleLine(record.approved_by)}
          </Badge>
        )}
        <span class="grow" />
        {record.ts > 0 && (
          <time class="quiet small" dateTime={new Date(record.ts).toISOString()}>
            {moment(record.ts)}
          </time>
        )}
      </div>
      {record.summary && <p>{visibleLine(record.summary)}</p>}
      {record.paths.length > 0 && (
        <ul class="record-paths">
          {record.paths.map((path) => (
            <li key={path}>
              <button type="button" class="path-button" title="Blame this file" onClick={() => blame(path)}>
                {visibleLine(path)}
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="quiet small line-of">
        <span class="mono cut">{visibleLine(record.id)}</span>
        {session && <a href={hrefOf({ page: "session", session_id: session.session_id })}>{visibleLine(session.name)}</a>}
      </div>
    </li>
  );
}
