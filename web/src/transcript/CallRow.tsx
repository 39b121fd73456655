import type { JSX } from "preact";
import { counted } from "../format";
import type { Row } from "../protocol";
import { hrefOf } from "../routes";
import { Badge, Button, Icon, type IconName, Spinner } from "../ui";
import { breakable } from "../ui/breakable";
import { visibleLine, visibleText } from "../visible-text";
import { DiffText } from "./DiffText";
import { useFold } from "./folds";
import { isEdit, outcomeOf, type Payload, payloadOf, statsOf, text, titleOf, todosOf } from "./row-content";
import { TodoItems } from "./Todos";

const LINES_OF_COMMAND = 8;

/** A tool call: one line with a title, and details below. */
export function CallRow({ row, session_id }: { row: Row; session_id: string }) {
  if (row.ask === "command") return <CommandRow row={row} />;
  const payload = payloadOf(row);
  return (
    <div class={`call ${outcomeOf(row)}`}>
      <div class="call-head">
        <CallSign row={row} icon={iconOf(row, payload)} />
        <CallTitle row={row} payload={payload} />
        <Outcome row={row} />
        <CallFacts row={row} payload={payload} />
        {subTasksOf(row).map(({ task_id, name }) => (
          <a key={task_id} class="button compact" href={hrefOf({ page: "task", session_id, task_id })}>
            {name || "Open sub-task"} <Icon name="right" />
          </a>
        ))}
      </div>
      {!isOpen(row) && <CallBody row={row} payload={payload} />}
    </div>
  );
}

/** The sub-task that works for a call, or agents side by side. */
function subTasksOf(row: Row): { task_id: string; name: string }[] {
  if (row.agents?.length) return row.agents;
  return row.task_id ? [{ task_id: row.task_id, name: "" }] : [];
}

/** An open call: the question panel shows what it would do. */
function isOpen(row: Row): boolean {
  return Boolean(row.partial) || !row.answered;
}

function CallSign({ row, icon }: { row: Row; icon: IconName }) {
  return <span class="call-sign">{row.partial ? <Spinner /> : <Icon name={icon} />}</span>;
}

function CallTitle({ row, payload }: { row: Row; payload: Payload }) {
  const [verb, ...rest] = visibleLine(titleOf(row, payload)).split(" ");
  return (
    <span class="call-title">
      <b>{verb}</b> {rest.join(" ")}
    </span>
  );
}

function Outcome({ row }: { row: Row }) {
  switch (outcomeOf(row)) {
    case "denied":
      return (
        <Badge tone="bad" icon="cross">
          {row.ask_id ? "Rejected" : "Refused"}
        </Badge>
      );
    case "failed":
      return (
        <Badge tone="bad" icon="alert">
          Failed
        </Badge>
      );
    case "":
      return null;
  }
}

function CallFacts({ row, payload }: { row: Row; payload: Payload }) {
  const stats = outcomeOf(row) ? null : statsOf(payload);
  return (
    <span class="call-facts">
      {stats && (
        <span class="mono">
          <span class="added-count">+{stats.added}</span> <span class="removed-count">−{stats.removed}</span>
        </span>
      )}
      {payload.isOutsideWorkspace === true && <Badge tone="careful">Outside the workspace</Badge>}
      {payload.isProtected === true && <Badge tone="careful">Protected</Badge>}
    </span>
  );
}

function CallBody({ row, payload }: { row: Row; payload: Payload }) {
  if (isEdit(payload)) {
    // `diff` is the model's own text, which may not be a diff; `content` always is one
    const diff = row.diff || text(payload.content) || text(payload.diff);
    if (!diff) return null;
    const notDone = outcomeOf(row) !== "";
    // the key resets the fold, because the outcome arrives after the proposal
    return (
      <Foldable
        key={String(notDone)}
        words={notDone ? "Proposed changes" : "Changes"}
        body={() => <DiffText diff={diff} />}
        open={!notDone}
      />
    );
  }
  if (payload.tool === "updateTodoList") return <TodoItems todos={todosOf(payload)} />;
  const details = argumentsOf(row, payload);
  if (!details) return null;
  return <Foldable words="Details" body={() => <pre class="call-text">{breakable(visibleText(details))}</pre>} />;
}

function argumentsOf(row: Row, payload: Payload): string {
  if (row.diff) return row.diff;
  const { tool: _, content, isOutsideWorkspace: __, isProtected: ___, ...rest } = payload;
  const json = Object.keys(rest).length > 1 ? JSON.stringify(rest, null, 2) : "";
  return [text(content), json].filter(Boolean).join("\n\n");
}

function Foldable({ words, body, open = false }: { words: string; body: () => JSX.Element; open?: boolean }) {
  const unfolded = useFold(words, open);
  return (
    <div class="folded">
      <button
        type="button"
        class="fold"
        aria-expanded={unfolded.value}
        onClick={() => (unfolded.value = !unfolded.value)}
      >
        <Icon name={unfolded.value ? "down" : "right"} />
        {words}
      </button>
      {unfolded.value && body()}
    </div>
  );
}

function CommandRow({ row }: { row: Row }) {
  const whole = useFold("whole");
  const lines = visibleText(row.text ?? "").trim().split("\n");
  const shown = whole.value ? lines : lines.slice(0, LINES_OF_COMMAND);
  const hidden = lines.length - shown.length;
  return (
    <div class={`call ${outcomeOf(row)}`}>
      <div class="call-head">
        <CallSign row={row} icon="terminal" />
        <code class="command">{shown.join("\n")}</code>
        <Outcome row={row} />
      </div>
      {hidden > 0 && (
        <Button kind="plain" compact onClick={() => (whole.value = true)}>
          Show {counted(hidden, "more line")}
        </Button>
      )}
    </div>
  );
}

const ICONS: Record<string, IconName> = {
  readFile: "file",
  newFileCreated: "file",
  editedExistingFile: "pencil",
  appliedDiff: "pencil",
  searchFiles: "search",
  codebaseSearch: "search",
  listFilesTopLevel: "folder",
  listFilesRecursive: "folder",
  listCodeDefinitionNames: "list",
  updateTodoList: "todo",
  newTask: "fork",
  switchMode: "retry",
  readCommandOutput: "terminal",
  browserAction: "eye",
  selectActiveIntent: "flag",
  requestScopeExpansion: "flag",
};

function iconOf(row: Row, payload: Payload): IconName {
  if (row.ask === "use_mcp_server") return "link";
  if (row.ask === "browser_action_launch") return "eye";
  return ICONS[payload.tool ?? ""] ?? "tool";
}
