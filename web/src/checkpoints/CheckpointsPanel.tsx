/** The moments of a session that one can go back to. */
import { useEffect, useState } from "preact/hooks";

import { counted, moment } from "../format";
import type { CheckpointRow } from "../protocol";
import { useAnswer } from "../review/answers";
import { hrefOf } from "../routes";
import { sessionOf } from "../store";
import { Button, Empty, LinkButton, Notice } from "../ui";
import { line } from "../visible";
import { Answer, Sheet } from "../worktrees/Sheet";
import { RestoreDialog } from "./RestoreDialog";
import "./checkpoints.css";

export default function CheckpointsPanel({ session_id }: { session_id: string }) {
  const row = sessionOf(session_id);
  const checkpoints = useAnswer("list_checkpoints", { session_id });
  const [chosen, setChosen] = useState<CheckpointRow | null>(null);
  const state = row?.state;
  useEffect(() => {
    if (checkpoints.answer) checkpoints.again();
  }, [state]);

  return (
    <Sheet
      title={`Checkpoints${row ? `: ${line(row.name)}` : ""}`}
      before={
        <LinkButton kind="plain" icon="left" label="Back to the session" href={hrefOf({ page: "session", session_id })} />
      }
      tools={<Button kind="plain" icon="retry" label="Look again" onClick={checkpoints.again} />}
    >
      {row?.flags.is_active && (
        <Notice icon="info">The agent is at work. Stop it before you go back to an earlier moment.</Notice>
      )}
      <Answer of={checkpoints} waiting="Looking for moments to go back to…">
        {(moments) =>
          moments.length === 0 ? (
            <Empty icon="history">
              <p>There is no moment to go back to yet. One is kept before each change.</p>
            </Empty>
          ) : (
            <ol class="moments" aria-label="Moments, the newest first">
              {[...moments]
                .sort((one, other) => other.seq - one.seq)
                .map((checkpoint) => (
                  <Moment key={checkpoint.seq} checkpoint={checkpoint} choose={() => setChosen(checkpoint)} />
                ))}
            </ol>
          )
        }
      </Answer>
      {chosen && (
        <RestoreDialog
          sessionId={session_id}
          checkpoint={chosen}
          close={() => setChosen(null)}
          restored={() => {
            setChosen(null);
            checkpoints.again();
          }}
        />
      )}
    </Sheet>
  );
}

function Moment({ checkpoint, choose }: { checkpoint: CheckpointRow; choose: () => void }) {
  const { title, ts, paths } = checkpoint;
  return (
    <li class="moment">
      <div class="grow">
        <div class="moment-title">{line(title)}</div>
        <div class="quiet small">
          <time dateTime={new Date(ts).toISOString()}>{moment(ts)}</time>
          {paths.length > 0 && (
            <>
              {" · "}
              <span title={paths.map(line).join("\n")}>
                {paths.length === 1 ? line(paths[0]!) : counted(paths.length, "file")}
              </span>
            </>
          )}
        </div>
      </div>
      <Button compact icon="history" label={`Go back to: ${line(title)}`} onClick={choose}>
        Go back…
      </Button>
    </li>
  );
}
