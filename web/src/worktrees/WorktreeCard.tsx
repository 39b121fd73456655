/** One worktree with its state and actions. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import type { ScriptRow, WorktreeRow } from "../protocol";
import { useRequest, useAction, useRefresh } from "../requests";
import { hrefOf } from "../routes";
import { sessionOf } from "../store";
import { Badge, Button, LinkButton, Menu, type MenuItem, Notice, toastError } from "../ui";
import { visibleLine } from "../visible-text";
import { ApplyDialog } from "./ApplyDialog";
import { FinishDialog } from "./FinishDialog";
import { PullRequestDialog, PullRequestLine } from "./PullRequest";
import { RemovalDialog } from "./RemovalDialog";
import { SCRIPTS } from "./ScriptList";
import { mergeWorktree, toastDone } from "./worktree-actions";
import { STATE_WORDS, nameOf, removalVerb, statsWords } from "./worktree-words";

const STATS_EVERY = 15_000;

type Shown = "apply" | "finish" | "remove" | "pull" | null;

export function WorktreeCard({
  worktree,
  runScript,
  changed,
}: {
  worktree: WorktreeRow;
  /** The project's run script, if it has one. */
  runScript: ScriptRow | undefined;
  changed: () => void;
}) {
  const [shown, setShown] = useState<Shown>(null);
  const [round, setRound] = useState(0);
  const action = useAction(toastError);
  const name = visibleLine(nameOf(worktree));
  const words = STATE_WORDS[worktree.state];
  const close = () => setShown(null);
  const closeAndReload = () => {
    setShown(null);
    changed();
  };
  const act = (work: () => Promise<unknown>) =>
    action.run(async () => {
      await work();
      changed();
    });
  const recreate = () =>
    act(async () => toastDone(await request("recreate_worktree", { worktree_id: worktree.id }), `Recreated ${name}.`));

  return (
    <li class="card worktree" aria-label={name}>
      <div class="line-of">
        <h2 class="cut">{name}</h2>
        {worktree.state !== "ready" && (
          <Badge tone={worktree.state === "unfinished" ? "careful" : "bad"} icon="alert">
            {words.word}
          </Badge>
        )}
        {worktree.imported && <Badge>Imported</Badge>}
        {worktree.running && (
          <Badge tone="good" icon="play">
            Script running
          </Badge>
        )}
      </div>
      <div class="quiet small worktree-place">
        <span class="mono">{visibleLine(worktree.branch)}</span>
        {worktree.parent_branch && <span>from {visibleLine(worktree.parent_branch)}</span>}
        <span class="mono cut" title={visibleLine(worktree.path)}>
          {visibleLine(worktree.path)}
        </span>
        {runScript && worktree.first_port > 0 && (
          <span title="First port for scripts in this worktree (WORKTREE_PORT)">
            ports from {worktree.first_port}
          </span>
        )}
      </div>

      {worktree.state === "ready" ? (
        <>
          <Stats worktreeId={worktree.id} />
          <PullRequestLine key={round} worktreeId={worktree.id} talks={worktree.sessions.length > 0} />
        </>
      ) : (
        <Notice tone={worktree.state === "unfinished" ? "careful" : "bad"} icon="alert">
          {words.sentence}
        </Notice>
      )}
      <SessionsOf worktree={worktree} />

      <div class="line-of">
        {words.offers.includes("recreate") && (
          <Button kind="primary" icon="retry" busy={action.busy} onClick={recreate}>
            Recreate
          </Button>
        )}
        {words.offers.includes("remove") && (
          <Button kind="danger" icon="trash" onClick={() => setShown("remove")}>
            {removalVerb(worktree)}…
          </Button>
        )}
        {worktree.state === "ready" && (
          <>
            {worktree.sessions[0] && (
              <LinkButton icon="diff" href={hrefOf({ page: "review", session_id: worktree.sessions[0] })}>
                Review
              </LinkButton>
            )}
            <Button icon="check" onClick={() => setShown("apply")}>
              Apply…
            </Button>
            <RunButton worktree={worktree} script={runScript} busy={action.busy} act={act} />
            <Menu label={`More actions for ${name}`} items={more(worktree, setShown, act)} />
          </>
        )}
      </div>

      {shown === "apply" && (
        <ApplyDialog
          worktreeId={worktree.id}
          sessionId={worktree.sessions[0]}
          name={name}
          paths={[]}
          close={close}
          applied={closeAndReload}
        />
      )}
      {shown === "finish" && (
        <FinishDialog worktreeId={worktree.id} branch={worktree.branch} close={close} finished={closeAndReload} />
      )}
      {shown === "pull" && (
        <PullRequestDialog
          worktreeId={worktree.id}
          name={name}
          close={close}
          created={() => {
            setRound(round + 1);
            close();
          }}
        />
      )}
      {shown === "remove" && <RemovalDialog worktree={worktree} close={close} removed={closeAndReload} />}
    </li>
  );
}

function more(
  worktree: WorktreeRow,
  show: (shown: Shown) => void,
  act: (work: () => Promise<unknown>) => void,
): MenuItem[] {
  const parent = worktree.parent_branch || "its parent";
  const merge = () => act(() => mergeWorktree(worktree.id, worktree.branch));
  const update = (rebase: boolean) =>
    act(async () => toastDone(await request("update_worktree", { worktree_id: worktree.id, rebase }), "Updated."));
  return [
    { words: "Commit all changes…", icon: "flag", act: () => show("finish") },
    { words: `Merge into ${parent}…`, icon: "branch", act: merge },
    { words: `Update from ${parent} (merge)`, icon: "arrowDown", act: () => update(false), apart: true },
    { words: `Update from ${parent} (rebase)`, icon: "arrowDown", act: () => update(true) },
    { words: "Create pull request…", icon: "fork", act: () => show("pull") },
    { words: `${removalVerb(worktree)}…`, icon: "trash", danger: true, apart: true, act: () => show("remove") },
  ];
}

/** Hidden without a run script. If the script is not allowed yet, leads to its review. */
function RunButton({
  worktree,
  script,
  busy,
  act,
}: {
  worktree: WorktreeRow;
  script: ScriptRow | undefined;
  busy: boolean;
  act: (work: () => Promise<unknown>) => void;
}) {
  const about = { worktree_id: worktree.id };
  const start = async () => toastDone(await request("run_script", about), "Run script started.");
  const stop = async () => toastDone(await request("stop_script", about), "Run script stopped.");
  if (worktree.running) {
    return (
      <Button icon="stop" busy={busy} onClick={() => act(stop)}>
        Stop script
      </Button>
    );
  }
  if (!script) return null;
  if (!script.agreed) {
    return (
      <Button icon="eye" onClick={showScripts}>
        Review run script…
      </Button>
    );
  }
  return (
    <Button icon="play" busy={busy} onClick={() => act(start)}>
      Run script
    </Button>
  );
}

function showScripts(): void {
  const heading = document.getElementById(SCRIPTS);
  heading?.scrollIntoView({ block: "start" });
  heading?.focus({ preventScroll: true });
}

function Stats({ worktreeId }: { worktreeId: string }) {
  const stats = useRequest("read_stats", { worktree_id: worktreeId });
  useRefresh(stats.reload, STATS_EVERY);
  if (stats.problem) return <div class="field-problem">{stats.problem}</div>;
  if (!stats.answer) return <div class="quiet small">Counting…</div>;
  const { added, removed } = stats.answer;
  return (
    <div class="line-of small">
      <span>{statsWords(stats.answer)}</span>
      {added > 0 && <span class="added-count mono">+{added}</span>}
      {removed > 0 && <span class="removed-count mono">−{removed}</span>}
    </div>
  );
}

function SessionsOf({ worktree }: { worktree: WorktreeRow }) {
  if (worktree.sessions.length === 0) return <div class="quiet small">No sessions.</div>;
  return (
    <ul class="line-of small" aria-label="Sessions in this worktree">
      <li class="quiet" aria-hidden="true">
        {worktree.sessions.length === 1 ? "Session" : "Sessions"}
      </li>
      {worktree.sessions.map((id) => (
        <li key={id}>
          <a href={hrefOf({ page: "session", session_id: id })}>{visibleLine(sessionOf(id)?.name ?? id)}</a>
        </li>
      ))}
    </ul>
  );
}
