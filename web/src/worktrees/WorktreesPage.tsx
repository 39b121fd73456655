/** All worktrees of the project, its scripts, and saved work. */
import { useState } from "preact/hooks";

import { useRequest, useRefresh } from "../requests";
import { Button, Empty, LinkButton } from "../ui";
import { ImportDialog } from "./ImportDialog";
import { KeptWorkList } from "./KeptWorkList";
import { ScriptList } from "./ScriptList";
import { Loaded, PageFrame } from "../ui/PageFrame";
import { WorktreeCard } from "./WorktreeCard";
import "./worktrees.css";

const RUN_SCRIPT = "run-script";
const REFRESH_EVERY = 10_000;

export default function WorktreesPage() {
  const worktrees = useRequest("list_worktrees", {});
  const scripts = useRequest("list_scripts", {});
  const [importing, setImporting] = useState(false);
  const [round, setRound] = useState(0);
  useRefresh(worktrees.reload, REFRESH_EVERY);
  useRefresh(scripts.reload, REFRESH_EVERY);
  const runScript = scripts.answer?.find((row) => row.name === RUN_SCRIPT);
  const changed = () => {
    worktrees.reload();
    setRound((was) => was + 1);
  };

  return (
    <PageFrame
      title="Worktrees"
      tools={
        <Button icon="download" onClick={() => setImporting(true)}>
          Import…
        </Button>
      }
    >
      <Loaded of={worktrees} waiting="Loading worktrees…">
        {(rows) =>
          rows.length === 0 ? (
            <Empty icon="branch">
              <p>No worktrees. A session in a worktree does not change your checkout.</p>
              <LinkButton href="#/new" icon="plus">
                New session
              </LinkButton>
            </Empty>
          ) : (
            <ul class="cards">
              {rows.map((row) => (
                <WorktreeCard key={row.id} worktree={row} runScript={runScript} changed={changed} />
              ))}
            </ul>
          )
        }
      </Loaded>
      <ScriptList scripts={scripts} />
      <KeptWorkList key={round} restored={worktrees.reload} />
      {importing && (
        <ImportDialog
          close={() => setImporting(false)}
          imported={() => {
            setImporting(false);
            changed();
          }}
        />
      )}
    </PageFrame>
  );
}
