import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { attempt } from "../attempt";
import { duration, money, moment, tokens } from "../format";
import { useKeys } from "../keys";
import { lazy } from "../lazy";
import { now } from "../now";
import type { SessionRow } from "../protocol";
import { PANEL_FULL, useMedia } from "../media";
import { changePanel, panelState } from "../panel/panel-state";
import { go, hrefOf, type PanelName } from "../routes";
import { versions } from "../store";
import { isWorktreeRemoved, appearanceOf, wordsOf } from "../states";
import { Badge, Button, Icon, type IconName, LinkButton, Menu, type MenuItem, Spinner } from "../ui";
import type { Parts } from "../view";
import { visibleLine } from "../visible-text";
import { archive, cancel, exportAs, fork, openInEditor, remove, resume, stopOrResume } from "./session-actions";
import { orderItems } from "../sessions/list-actions";
import { ResumeButtons } from "./ResumeButtons";

const SwitchDialog = lazy(() => import("./SwitchDialog"));

export function SessionHead({ row, parts }: { row: SessionRow; parts: Parts }) {
  const renaming = useSignal(false);
  const switching = useSignal(false);
  const full = useMedia(PANEL_FULL);
  const { session_id } = row;
  useKeys({
    e: () => (renaming.value = true),
    s: () => stopOrResume(row),
    y: () => void archive(row),
    d: () => go({ page: "review", session_id }),
    h: () => go({ page: "session", session_id, panel: "checkpoints" }),
  });
  return (
    <header class="session-head">
      <div class="session-head-line">
        <span class="phone-only">
          <LinkButton kind="plain" icon="left" label="All sessions" href={hrefOf({ page: "home" })} />
        </span>
        {renaming.value ? (
          <Rename row={row} done={() => (renaming.value = false)} />
        ) : (
          <h1 class="session-title cut">
            <button type="button" title="Rename (e)" onClick={() => (renaming.value = true)}>
              {visibleLine(wholeName(row)) || "Untitled"}
            </button>
          </h1>
        )}
        <span class="wide-only">
          <StateBadge row={row} />
        </span>
        {row.archived && <Badge icon="archive">Archived</Badge>}
        <span class="grow" />
        <MainActions row={row} />
        {(full || !panelState.value.open) && (
          <span class="wide-only">
            <LinkButton icon="diff" href={hrefOf({ page: "review", session_id })}>
              Review
            </LinkButton>
          </span>
        )}
        {!full && (
          <Button
            icon="panel"
            label={panelState.value.open ? "Close panel" : "Open panel"}
            aria-pressed={panelState.value.open}
            onClick={() => changePanel({ open: !panelState.value.open })}
          />
        )}
        <Menu label="More actions" items={moreItems(row, () => (renaming.value = true), () => (switching.value = true))} />
      </div>
      <Facts row={row} parts={parts} change={() => (switching.value = true)} />
      {switching.value && <SwitchDialog row={row} parts={parts} close={() => (switching.value = false)} />}
    </header>
  );
}

export function StateBadge({ row }: { row: SessionRow }) {
  const { tone, icon } = appearanceOf(row.state);
  return (
    <span class={`badge ${tone}`} role="status">
      {row.flags.show_spinner && !row.queued ? <Spinner /> : <Icon name={row.queued ? "clock" : icon} />}
      {wordsOf(row)}
    </span>
  );
}

function MainActions({ row }: { row: SessionRow }) {
  const { flags } = row;
  return (
    <>
      {!isWorktreeRemoved(row) && <ResumeButtons row={row} />}
      {flags.show_cancel_button && (
        <Button icon="stop" title="Stop (s)" onClick={() => cancel(row)}>
          Stop
        </Button>
      )}
    </>
  );
}

const PANEL_ITEMS: { words: string; icon: IconName; panel: PanelName; apart?: boolean }[] = [
  { words: "Changes", icon: "list", panel: "changes", apart: true },
  { words: "Plan", icon: "todo", panel: "plan" },
  { words: "Terminal", icon: "terminal", panel: "terminal" },
  { words: "Checkpoints", icon: "history", panel: "checkpoints" },
  { words: "Preview", icon: "play", panel: "preview" },
];

function moreItems(row: SessionRow, rename: () => void, change: () => void): MenuItem[] {
  const { session_id } = row;
  const items: (MenuItem | false)[] = [
    { words: "Review changes", icon: "diff", href: hrefOf({ page: "review", session_id }) },
    ...PANEL_ITEMS.map(({ panel, ...item }) => ({ ...item, href: hrefOf({ page: "session", session_id, panel }) })),
    { words: "Open in editor", icon: "pencil", act: () => openInEditor(session_id), apart: true },
    row.group_id !== "" && {
      words: "Compare versions",
      icon: "columns",
      href: hrefOf({ page: "versions", group_id: row.group_id }),
    },
    { words: "Session settings…", icon: "gear", act: change, apart: true },
    { words: "Rename", icon: "pencil", act: rename },
    ...orderItems(row),
    row.flags.show_resume_button && { words: "Resume", icon: "play", act: () => resume(row) },
    { words: "Fork", icon: "fork", act: () => void fork(session_id) },
    { words: "Export as Markdown", icon: "download", act: () => void exportAs(session_id, "markdown"), apart: true },
    { words: "Export as HTML", icon: "download", act: () => void exportAs(session_id, "html") },
    { words: "Export as JSON", icon: "download", act: () => void exportAs(session_id, "json") },
    { words: row.archived ? "Unarchive" : "Archive", icon: "archive", act: () => void archive(row), apart: true },
    { words: "Remove from list…", icon: "trash", act: () => void remove(row), danger: true },
  ];
  return items.filter((item) => item !== false);
}

/** The list shows a shortenReferences name; the title shows the whole first line of the prompt. */
function wholeName({ name, prompt }: SessionRow): string {
  const beginning = /^(.*\S)\s*(?:…|\.\.\.)$/.exec(name)?.[1];
  const [first = ""] = prompt.split("\n");
  return beginning && first.startsWith(beginning) ? first : name;
}

function Rename({ row, done }: { row: SessionRow; done: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    field.current!.value = row.name; // only once: updates of the session must not overwrite what the user types
    field.current!.select();
  }, []);
  const save = async () => {
    const label = field.current!.value.trim();
    done();
    if (label !== row.name) await attempt("rename_session", { session_id: row.session_id, label });
  };
  return (
    <input
      ref={field}
      class="input session-rename"
      aria-label="Session name; leave empty to take it from the prompt"
      onBlur={() => void save()}
      onKeyDown={(event) => {
        if (event.key === "Enter") event.currentTarget.blur();
        if (event.key === "Escape") {
          event.currentTarget.value = row.name;
          done();
        }
      }}
    />
  );
}

function Facts({ row, parts, change }: { row: SessionRow; parts: Parts; change: () => void }) {
  const automatic = parts.automatic ?? row.auto_approve;
  const usage = parts.usage;
  const model = parts.model || row.model;
  const version = versions.value.get(row.session_id);
  const cost = usage?.cost ?? row.cost;
  return (
    <ul class="session-head-facts" aria-label="About this session">
      <li class="phone-only">
        <StateBadge row={row} />
      </li>
      <li>
        <button type="button" class="fact-button" onClick={change} title="Session settings: model, mode, auto-approve">
          {model ? visibleLine(model) : "Default model"} · {visibleLine(parts.mode || row.mode || "default mode")}
        </button>
      </li>
      {row.todo_stats && row.todo_stats.total > 0 && (
        <li>
          <a class="fact-button" href={hrefOf({ page: "session", session_id: row.session_id, panel: "plan" })}>
            <Icon name="todo" /> Plan {row.todo_stats.done}/{row.todo_stats.total}
          </a>
        </li>
      )}
      {row.branch && (
        <li class="wide-only" title={row.workspace}>
          <Icon name="branch" /> <span class="cut">{visibleLine(row.branch)}</span>
          {isWorktreeRemoved(row) && <Badge tone="careful">Worktree removed</Badge>}
        </li>
      )}
      {row.group_id && (
        <li>
          <LinkButton compact icon="columns" href={hrefOf({ page: "versions", group_id: row.group_id })}>
            {version ? `Version ${version}: compare` : "Compare versions"}
          </LinkButton>
        </li>
      )}
      {parts.intent && (
        <li title={parts.intent.name}>
          <Icon name="flag" /> {visibleLine(parts.intent.intent_id)}
        </li>
      )}
      <li class="wide-only" title={usage ? `${usage.tokens_in.toLocaleString()} in, ${usage.tokens_out.toLocaleString()} out` : ""}>
        {tokens(usage ? usage.tokens_in + usage.tokens_out : row.tokens)} tokens
      </li>
      {cost > 0 && <li class="wide-only">{money(cost)}</li>}
      {usage && usage.context_tokens > 0 && (
        <li class="wide-only" title="Tokens in the context window">
          context {tokens(usage.context_tokens)}
        </li>
      )}
      {row.start_time > 0 && row.flags.is_active && (
        <li class="wide-only" title={`Started ${moment(row.start_time)}`}>started {duration(now.value - row.start_time)} ago</li>
      )}
      {automatic && (
        <li>
          <button
            type="button"
            class={`fact-button automatic ${row.flags.show_auto_mode_warning ? "warns" : ""}`}
            onClick={change}
            title="The agent acts without asking. Click to change."
          >
            <Badge tone="careful" icon="bolt">
              Auto-approve
            </Badge>
          </button>
        </li>
      )}
      {row.unresponsive && (
        <li>
          <Badge tone="bad" icon="alert">
            Not responding
          </Badge>
        </li>
      )}
    </ul>
  );
}
