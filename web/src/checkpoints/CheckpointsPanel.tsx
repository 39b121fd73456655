import { useEffect, useState } from "preact/hooks";

import { counted, moment } from "../format";
import type { CheckpointRow } from "../protocol";
import { useRequest } from "../requests";
import { sessionOf } from "../store";
import { Button, Empty, Notice } from "../ui";
import { visibleLine } from "../visible-text";
import { Loaded } from "../ui/PageFrame";
import { RestoreDialog } from "./RestoreDialog";
import "./checkpoints.css";

export default function CheckpointsPanel({ session_id }: { session_id: string }) {
  const row = sessionOf(session_id);
  const checkpoints = useRequest("list_checkpoints", { session_id });
  const [chosen, setChosen] = useState<CheckpointRow | null>(null);
  const revision = row?.changes.revision;
  const state = row?.state;
  useEffect(() => {
    if (checkpoints.answer) checkpoints.reload();
  }, [revision, state]);

  return (
    <div class="panel-scroll">
      {row?.flags.is_active && (
        <Notice icon="info">The agent is working. Stop it before you restore a checkpoint.</Notice>
      )}
      <Loaded of={checkpoints} waiting="Loading checkpoints…">
        {(moments) =>
          moments.length === 0 ? (
            <Empty icon="history">
              <p>No checkpoints yet. One is saved before each change.</p>
            </Empty>
          ) : (
            <ol class="moments" aria-label="Checkpoints, newest first">
              {[...moments]
                .sort((one, other) => other.seq - one.seq)
                .map((checkpoint) => (
                  <Moment key={checkpoint.seq} checkpoint={checkpoint} choose={() => setChosen(checkpoint)} />
                ))}
            </ol>
          )
        }
      </Loaded>
      {chosen && (
        <RestoreDialog
          sessionId={session_id}
          checkpoint={chosen}
          close={() => setChosen(null)}
          restored={() => {
            setChosen(null);
            checkpoints.reload();
          }}
        />
      )}
    </div>
  );
}

function Moment({ checkpoint, choose }: { checkpoint: CheckpointRow; choose: () => void }) {
  const { title, ts, paths } = checkpoint;
  return (
    <li class="moment">
      <div class="grow">
        <div class="moment-title">{visibleLine(title)}</div>
        <div class="quiet small">
          <time dateTime={new Date(ts).toISOString()}>{moment(ts)}</time>
          {paths.length > 0 && (
            <>
              {" · "}
              <span title={paths.map(visibleLine).join("\n")}>
                {paths.length === 1 ? visibleLine(paths[0]!) : counted(paths.length, "file")}
              </span>
            </>
          )}
        </div>
      </div>
      <Button compact icon="history" label={`Restore: ${visibleLine(title)}`} onClick={choose}>
        Restore…
      </Button>
    </li>
  );
}
