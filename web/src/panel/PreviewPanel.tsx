/** The program that the project's run script starts in the worktree: start, address, log. */
import { request } from "../connection";
import type { ScriptLog, ScriptRow, SessionRow } from "../protocol";
import { useAction, useRefresh, useRequest } from "../requests";
import { hrefOf } from "../routes";
import { Badge, Button, Empty, Icon, LinkButton, toastError } from "../ui";
import { Loaded } from "../ui/PageFrame";
import { visibleText, withoutAnsi } from "../visible-text";
import { toastDone } from "../worktrees/worktree-actions";

/** Milliseconds between looks at the log of a running script. */
const LOG_EVERY = 2_000;
const RUN_SCRIPT = "run-script";
const HERE = new Set(["localhost", "127.0.0.1", "[::1]"]);

export default function PreviewPanel({ row }: { row: SessionRow }) {
  if (!row.worktree_id) {
    return (
      <Empty icon="play">
        <p>A preview needs a worktree: it runs the project's run script there, with ports of its own.</p>
      </Empty>
    );
  }
  return <WorktreePreview worktreeId={row.worktree_id} />;
}

function WorktreePreview({ worktreeId }: { worktreeId: string }) {
  const log = useRequest("read_script_log", { worktree_id: worktreeId });
  const scripts = useRequest("list_scripts", {});
  useRefresh(log.reload, log.answer?.running ? LOG_EVERY : undefined);
  return (
    <div class="panel-scroll">
      <Loaded of={scripts} waiting="Loading scripts…">
        {(rows) => (
          <Loaded of={log} waiting="Loading the log…">
            {(shown) => (
              <Preview
                worktreeId={worktreeId}
                script={rows.find((each) => each.name === RUN_SCRIPT)}
                log={shown}
                changed={log.reload}
              />
            )}
          </Loaded>
        )}
      </Loaded>
    </div>
  );
}

function Preview({
  worktreeId,
  script,
  log,
  changed,
}: {
  worktreeId: string;
  script: ScriptRow | undefined;
  log: ScriptLog;
  changed: () => void;
}) {
  const action = useAction(toastError);
  const about = { worktree_id: worktreeId };
  const act = (work: () => Promise<void>) =>
    action.run(async () => {
      await work();
      changed();
    });
  const start = () => act(async () => toastDone(await request("run_script", about), "Run script started."));
  const stop = () => act(async () => toastDone(await request("stop_script", about), "Run script stopped."));
  if (!script && !log.running && !log.text) {
    return (
      <Empty icon="play">
        <p>
          The project has no <code>.rookery/run-script</code>. Add one that starts your program on{" "}
          <code>$WORKTREE_PORT</code>.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <div class="line-of">
        <Badge tone={log.running ? "good" : "usual"} icon={log.running ? "play" : "stop"}>
          {log.running ? "Running" : "Not running"}
        </Badge>
        <span class="grow" />
        {log.running ? (
          <Button icon="stop" busy={action.busy} onClick={stop}>
            Stop
          </Button>
        ) : script?.agreed ? (
          <Button kind="primary" icon="play" busy={action.busy} onClick={start}>
            Run
          </Button>
        ) : (
          <LinkButton icon="eye" href={hrefOf({ page: "worktrees" })}>
            Review run script…
          </LinkButton>
        )}
      </div>
      {log.running && log.first_port > 0 && <Address port={log.first_port} />}
      <pre class="preview-log" tabIndex={0} aria-label="Output of the run script">
        {visibleText(withoutAnsi(log.text)) || "No output yet."}
      </pre>
    </>
  );
}

/** A link, not a frame: the program is of another origin and may be anything. */
function Address({ port }: { port: number }) {
  const address = `http://localhost:${port}/`;
  if (!HERE.has(location.hostname)) {
    return <p class="quiet small">It listens on port {port} of the computer that runs the manager.</p>;
  }
  return (
    <a class="button preview-link" href={address} target="_blank" rel="noopener noreferrer">
      <Icon name="expand" /> Open {address}
    </a>
  );
}
