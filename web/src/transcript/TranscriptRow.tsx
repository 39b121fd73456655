import type { ReadonlySignal } from "@preact/signals";
import type { JSX } from "preact";
import { clock, counted, money, tokens } from "../format";
import type { Row } from "../protocol";
import { hrefOf } from "../routes";
import { Button, Icon, memo, Spinner, toast } from "../ui";
import { breakable } from "../ui/breakable";
import type { ShownRow } from "../view";
import { visibleText, withoutAnsi } from "../visible-text";
import { shortenReferences } from "../wording";
import { CallRow } from "./CallRow";
import { RowContext, useFold } from "./folds";
import { Pictures } from "./Pictures";
import { Prose } from "./Prose";
import { delayOf, rowKindOf, followupOf, requestOf } from "./row-content";

export interface RowProps {
  row: Row;
  session_id: string;
  /** Absent where a session cannot be forked. */
  fork?: ((ts: number) => void) | undefined;
}

/** One row. It re-renders only when its own signal changes. */
export const TranscriptRow = memo(function TranscriptRow({
  shown,
  place,
  count,
  group,
  groupWords,
  ...about
}: {
  shown: ShownRow;
  /** The index of the row in its task. Row 0 is the prompt. */
  place: number;
  /** The number of rows in the task. */
  count: ReadonlySignal<number>;
  /** The first row of the group that the row is in, and the words for the group. */
  group?: number | undefined;
  groupWords?: string | undefined;
  session_id: string;
  /** Absent where a session cannot be forked. */
  fork?: ((ts: number) => void) | undefined;
}) {
  const row = shown.row.value;
  const kind = rowKindOf(row, place === 0);
  const Content = ROW_COMPONENTS[kind];
  const unfolded = useFold("group", false, group);
  if (!Content) return null;
  const folded = group !== undefined && !unfolded.value;
  if (folded && group !== row.ts) return <div hidden data-ts={row.ts} />;
  return (
    <div class={`row ${kind}`} role="listitem" aria-posinset={place + 1} aria-setsize={count} data-ts={row.ts}>
      {group === row.ts && (
        <button
          type="button"
          class="fold row-group"
          aria-expanded={unfolded.value}
          onClick={() => (unfolded.value = !unfolded.value)}
        >
          <Icon name={unfolded.value ? "down" : "right"} />
          {groupWords}
        </button>
      )}
      {!folded && (
        <RowContext.Provider value={row.ts}>
          <Content row={row} {...about} />
        </RowContext.Provider>
      )}
    </div>
  );
});

const ROW_COMPONENTS: Partial<Record<ReturnType<typeof rowKindOf>, (props: RowProps) => JSX.Element | null>> = {
  user: UserRow,
  answer: AnswerRow,
  thought: ThoughtRow,
  call: CallRow,
  output: OutputRow,
  request: RequestRow,
  trouble: TroubleRow,
  result: ResultRow,
  question: QuestionRow,
  summary: SummaryRow,
  checkpoint: CheckpointRow,
  note: NoteRow,
};

const LONG_WORDS = 3_000;

function UserRow({ row, fork }: RowProps) {
  const whole = useFold("whole");
  const words = visibleText(row.text ?? "").trim();
  const cut = !whole.value && words.length > LONG_WORDS;
  return (
    <>
      <div class="said">
        <span class="spoken">You said: </span>
        <div class="said-words">{cut ? `${words.slice(0, LONG_WORDS)}…` : words}</div>
        {cut && (
          <Button kind="plain" compact onClick={() => (whole.value = true)}>
            Show all
          </Button>
        )}
        <Pictures images={row.images} />
      </div>
      <RowActions row={row} fork={fork} />
    </>
  );
}

function AnswerRow({ row, fork }: RowProps) {
  return (
    <>
      <Prose row={row} />
      {!row.partial && <RowActions row={row} fork={fork} />}
    </>
  );
}

function RowActions({ row, fork }: Pick<RowProps, "fork"> & { row: Row }) {
  return (
    <div class="row-actions">
      <time class="small quiet">{clock(row.ts)}</time>
      <Button kind="plain" compact icon="copy" label="Copy text" onClick={() => void copy(row.text ?? "")} />
      {fork && <Button kind="plain" compact icon="fork" label="Fork from here" onClick={() => fork(row.ts)} />}
    </div>
  );
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser did not allow copying.", "bad");
  }
}

const LINES_WHILE_THINKING = 3;

function ThoughtRow({ row }: RowProps) {
  const open = useFold("open");
  const words = visibleText(row.text ?? "").trim();
  const newest = words.slice(-1000).split("\n").slice(-LINES_WHILE_THINKING).join("\n");
  return (
    <div class="thought-box">
      <button type="button" class="fold" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        <Icon name={open.value ? "down" : "right"} />
        {row.partial ? "Thinking…" : "Thought"}
        {!open.value && !row.partial && <span class="thought-line cut">{words.slice(0, 200)}</span>}
      </button>
      {open.value ? <Prose row={row} /> : row.partial && <div class="thought-newest">{newest}</div>}
    </div>
  );
}

const LINES_OF_OUTPUT = 10;

function OutputRow({ row }: RowProps) {
  const open = useFold("open");
  const text = row.text ?? "";
  const shown = open.value ? text : lastLines(text, LINES_OF_OUTPUT);
  const hidden = open.value ? 0 : linesIn(text.slice(0, text.length - shown.length));
  if (!text.trim()) return null;
  return (
    <div class="output-box">
      {hidden > 0 && (
        <Button kind="plain" compact onClick={() => (open.value = true)}>
          Show {counted(hidden, "line")} above
        </Button>
      )}
      <pre class={open.value ? "open" : ""} tabIndex={open.value ? 0 : undefined}>
        {breakable(visibleText(withoutAnsi(shown).replace(/\n+$/, "")))}
      </pre>
      {open.value && (
        <Button kind="plain" compact onClick={() => (open.value = false)}>
          Show less
        </Button>
      )}
    </div>
  );
}

/** The last lines of a text, where commands report their result. Does not scan long texts. */
export function lastLines(text: string, most: number): string {
  let at = text.length;
  if (text.endsWith("\n")) at--;
  for (let found = 0; found < most; found++) {
    const before = text.lastIndexOf("\n", at - 1);
    if (before < 0) return text;
    at = before;
  }
  return text.slice(at + 1);
}

function linesIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
}

function RequestRow({ row }: RowProps) {
  const { ended, cancelled, tokensIn, tokensOut, cached, cost, model } = requestOf(row.text);
  if (!ended) return null;
  if (!tokensIn && !tokensOut && !cancelled) return null;
  const facts = [
    `↑ ${tokens(tokensIn)}`,
    `↓ ${tokens(tokensOut)}`,
    cached > 0 && `${tokens(cached)} cached`,
    cost !== null && cost > 0 && money(cost),
    cancelled && "interrupted",
  ];
  if (!tokensIn && !tokensOut) return <div class="slim">Interrupted before the answer</div>;
  return (
    <div class={cancelled ? "slim" : "slim figures"} title={`Request to ${model}`}>
      {facts.filter(Boolean).join(" · ")}
    </div>
  );
}

function TroubleRow({ row }: RowProps) {
  const text = row.say === "api_req_started" ? requestOf(row.text).failure : row.text;
  return (
    <div class="trouble-box" role="note">
      <Icon name="alert" />
      <div class="trouble-words">{visibleText(text || "Unknown error.").trim()}</div>
    </div>
  );
}

function ResultRow({ row, fork }: RowProps) {
  return (
    <>
      <div class="result-box">
        <div class="result-head">
          <Icon name="checkCircle" /> Result
        </div>
        <Prose row={row} />
        <Pictures images={row.images} />
      </div>
      {!row.partial && <RowActions row={row} fork={fork} />}
    </>
  );
}

/** Hidden while open, because the question panel shows it. */
function QuestionRow({ row }: RowProps) {
  if (!row.answered && !row.partial) return null;
  const { question } = followupOf(row.text);
  return (
    <div class="question-box">
      <Icon name="question" />
      <Prose row={row.html?.length ? { ...row, text: "" } : { text: question }} />
    </div>
  );
}

function SummaryRow({ row }: RowProps) {
  const open = useFold("open");
  const summary = row.text ?? "";
  const words = summary ? "Earlier messages were condensed" : "Earlier messages were left out";
  return (
    <>
      <div class="divider">
        <span>{words}</span>
        {summary && (
          <Button kind="plain" compact aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
            {open.value ? "Hide" : "Show"} summary
          </Button>
        )}
      </div>
      {open.value && <Prose row={row} />}
    </>
  );
}

function CheckpointRow({ session_id, fork }: RowProps) {
  if (!fork) return null;
  return (
    <div class="slim checkpoint">
      <a href={hrefOf({ page: "session", session_id, panel: "checkpoints" })} title="Checkpoint: restore files to this point">
        <Icon name="history" />
        <span>Checkpoint</span>
      </a>
    </div>
  );
}

function NoteRow({ row }: RowProps) {
  if (row.say === "api_req_retry_delayed") {
    const { reason, seconds } = delayOf(row.text);
    return (
      <div class="note-box">
        {row.partial ? <Spinner /> : <Icon name="clock" />}
        <span>
          {visibleText(reason)} {seconds && row.partial && <b>Retrying in {seconds} s.</b>}
        </span>
      </div>
    );
  }
  const text = (row.text ?? "").trim() || (row.ask === "resume_task" ? "Stopped." : "");
  if (!text) return null;
  return (
    <div class="note-box">
      <Icon name="info" />
      <span class="note-words">{visibleText(shortenReferences(text))}</span>
    </div>
  );
}
