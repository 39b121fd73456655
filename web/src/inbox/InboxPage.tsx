import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { attempt } from "../attempt";
import { counted } from "../format";
import { useKeys } from "../keys";
import type { InboxRow, Requests } from "../protocol";
import { hrefOf } from "../routes";
import { WaitingElsewhere } from "../shell/Projects";
import { inbox, listLoaded, sessions } from "../store";
import { Button, Empty, Key, LinkButton, Spinner } from "../ui";
import { InboxCard } from "./InboxCard";
import { GROUPS, groupOf, type InboxGroup, keyOf, sortInbox, steppedRow } from "./inbox-order";
import "./inbox.css";

/** Rows drawn at first, and added whenever the end comes into view. */
const DRAWN = 60;

/** What needs the user, in groups. One row is unfolded; shortcuts answer only a row that the user chose. */
export function InboxPage() {
  const all = sortInbox(inbox.value);
  const filter = useSignal<InboxGroup | null>(null);
  const rows = all.filter((row) => !filter.value || groupOf(row) === filter.value);
  const folds = useFolds(rows);
  const drawn = useSignal(DRAWN);
  return (
    <>
      <header class="page-head">
        <h1>Inbox</h1>
        <span class="quiet">{all.length > 0 && `${all.length} waiting for you`}</span>
        <span class="grow" />
        {all.length > 1 && <Filter rows={all} chosen={filter.value} choose={(id) => (filter.value = id)} />}
      </header>
      <div class="page-body">
        <div class="page-column inbox">
          {!listLoaded.value && <Spinner label="Loading" />}
          {listLoaded.value && !all.length && <EmptyInbox />}
          {all.length > 0 && !rows.length && <Empty icon="checkCircle">Nothing in this group.</Empty>}
          {GROUPS.map(({ id, words }) => (
            <Group
              key={id}
              id={id}
              words={words}
              all={rows.filter((row) => groupOf(row) === id)}
              drawn={rows.slice(0, drawn.value).filter((row) => groupOf(row) === id)}
              folds={folds}
            />
          ))}
          {all.length > 0 && <StepKeys step={folds.step} />}
          {drawn.value < rows.length && <End reached={() => (drawn.value += DRAWN)} />}
          <WaitingElsewhere />
        </div>
      </div>
    </>
  );
}

interface Folds {
  isOpen(row: InboxRow): boolean;
  hasKeys(row: InboxRow): boolean;
  isFocused(row: InboxRow): boolean;
  toggle(row: InboxRow): void;
  step(by: number): void;
}

/**
 * Which rows are unfolded. When the row that the user was at is answered, the next one unfolds, but
 * shortcuts answer it only after the user has stepped to it or clicked it: pressing one key again
 * never answers two questions.
 */
function useFolds(rows: readonly InboxRow[]): Folds {
  const open = useSignal<ReadonlySet<string>>(new Set());
  const current = useSignal("");
  const holder = useSignal("");
  const focused = useSignal("");
  const begun = useRef(false);
  const first = rows[0];
  const gone = !rows.some((row) => keyOf(row) === current.value);
  useEffect(() => {
    if (!first || !gone) return;
    current.value = keyOf(first);
    open.value = new Set([...open.value, keyOf(first)]);
    if (!begun.current) holder.value = keyOf(first);
    begun.current = true;
  }, [first && keyOf(first), gone]);
  const choose = (row: InboxRow, unfolded: boolean) => {
    const key = keyOf(row);
    const others = [...open.value].filter((each) => each !== key);
    open.value = new Set(unfolded ? [...others, key] : others);
    current.value = key;
    holder.value = unfolded ? key : "";
  };
  return {
    isOpen: (row) => open.value.has(keyOf(row)),
    hasKeys: (row) => holder.value === keyOf(row),
    isFocused: (row) => focused.value === keyOf(row),
    toggle: (row) => choose(row, !open.value.has(keyOf(row))),
    step: (by) => {
      const from = holder.value || (by > 0 ? "" : current.value);
      const next = steppedRow(rows, from, by);
      if (!next) return;
      choose(next, true);
      focused.value = keyOf(next);
    },
  };
}

function FirstSteps() {
  return (
    <Empty icon="rook">
      <p>
        <b>Start your first session</b>
      </p>
      <ol class="first-steps">
        {STEPS.map(([what, about]) => (
          <li key={what}>
            <b>{what}</b>
            <span>{about}</span>
          </li>
        ))}
      </ol>
      <LinkButton kind="primary" icon="plus" href={hrefOf({ page: "new" })}>
        New session
      </LinkButton>
      <p class="small">
        <Key>c</Key> starts a session anywhere, <Key>?</Key> shows all shortcuts.
      </p>
    </Empty>
  );
}

/** Mounted after the shell, whose keys of the same names would otherwise take precedence. */
function StepKeys({ step }: { step: (by: number) => void }) {
  useKeys({ j: () => step(1), k: () => step(-1) });
  return null;
}

function Filter(props: { rows: InboxRow[]; chosen: InboxGroup | null; choose: (id: InboxGroup | null) => void }) {
  const { rows, chosen, choose } = props;
  const counts = GROUPS.map(({ id, words }) => ({ id, words, count: rows.filter((row) => groupOf(row) === id).length }));
  return (
    <div class="filters" role="group" aria-label="Filter">
      <button type="button" class="filter" aria-pressed={!chosen} onClick={() => choose(null)}>
        All
      </button>
      {counts.map(({ id, words, count }) => (
        <button
          key={id}
          type="button"
          class="filter"
          aria-pressed={chosen === id}
          disabled={!count && chosen !== id}
          onClick={() => choose(id)}
        >
          {words} <span class="quiet">{count}</span>
        </button>
      ))}
    </div>
  );
}

function Group(props: { id: InboxGroup; words: string; all: InboxRow[]; drawn: InboxRow[]; folds: Folds }) {
  const { id, words, all, drawn, folds } = props;
  if (!drawn.length) return null;
  return (
    <section class="inbox-group" aria-label={words}>
      <div class="inbox-group-head">
        <h2>
          {words} <span class="quiet">{all.length}</span>
        </h2>
        <span class="grow" />
        {id === "done" && (
          <Button kind="plain" compact icon="check" onClick={() => void changeAll("mark_read", all)}>
            Mark all as read
          </Button>
        )}
        {id === "failed" && all.length > 1 && (
          <Button kind="plain" compact icon="archive" onClick={() => void changeAll("archive", all)}>
            Archive all
          </Button>
        )}
      </div>
      <ul class="inbox-list">
        {drawn.map((row) => (
          <InboxCard
            key={keyOf(row)}
            row={row}
            open={folds.isOpen(row)}
            keys={folds.hasKeys(row)}
            focused={folds.isFocused(row)}
            toggle={folds.toggle}
          />
        ))}
      </ul>
    </section>
  );
}

function changeAll(action: Requests["change_sessions"]["action"], rows: InboxRow[]): Promise<unknown> {
  return attempt("change_sessions", { action, session_ids: [...new Set(rows.map((row) => row.session_id))] });
}

/** Calls `reached` when the end of the drawn rows comes near the viewport. */
function End({ reached }: { reached: () => void }) {
  const mark = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && reached(), { rootMargin: "600px" });
    observer.observe(mark.current!);
    return () => observer.disconnect();
  });
  return <div ref={mark} class="inbox-end" />;
}

/** The first steps, shown before the first session. */
const STEPS = [
  ["Describe the work", "The agent starts in your checkout, or in a worktree of its own."],
  ["Answer here", "Questions, approvals, failures and results of all sessions come to this inbox."],
  ["Review and apply", "Read the changes, comment on lines, and apply, merge or open a pull request."],
] as const;

function EmptyInbox() {
  if (!sessions.value.length) return <FirstSteps />;
  const active = sessions.value.filter((row) => row.flags.is_active).length;
  return (
    <Empty icon="checkCircle">
      <p>
        <b>Nothing needs you</b>
      </p>
      <p>
        {active ? `${counted(active, "session")} running. ` : "No sessions are running. "}
        Questions, failures and results appear here, the most urgent first.
      </p>
      <LinkButton kind="primary" icon="plus" href={hrefOf({ page: "new" })}>
        New session
      </LinkButton>
    </Empty>
  );
}
