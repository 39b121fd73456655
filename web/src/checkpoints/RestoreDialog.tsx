/** Restores a checkpoint, after showing which files would change. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import { counted, moment } from "../format";
import type { CheckpointRow, RestoreRehearsal } from "../protocol";
import { useRequest } from "../requests";
import { Notice, Problem } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { visibleLine } from "../visible-text";
import { PathList } from "../worktrees/PathList";
import { Loaded } from "../ui/PageFrame";
import { toastDone } from "../worktrees/worktree-actions";
import { type Choice, buttonWords, changesAnything, consequences, summary } from "./restore-words";

const WAYS: readonly { readonly words: string; readonly files: boolean; readonly conversation: boolean }[] = [
  { words: "Files only", files: true, conversation: false },
  { words: "Files and conversation", files: true, conversation: true },
  { words: "Conversation only", files: false, conversation: true },
];

export function RestoreDialog({
  sessionId,
  checkpoint,
  close,
  restored,
}: {
  sessionId: string;
  checkpoint: CheckpointRow;
  close: () => void;
  restored: () => void;
}) {
  const [choice, setChoice] = useState<Choice>({ files: true, conversation: false, overwrite: false });
  const { seq: to } = checkpoint;
  const rehearsal = useRequest("rehearse_restore", { session_id: sessionId, to, overwrite: choice.overwrite });
  const restore = async () => {
    const done = await request("restore_session", { session_id: sessionId, to, ...choice });
    toastDone(done, `Restored: ${visibleLine(checkpoint.title)}.`);
    restored();
  };
  const { answer } = rehearsal;
  const possible = answer && !(choice.files && answer.problem) && changesAnything(answer, choice);

  return (
    <ActionDialog
      title="Restore this checkpoint?"
      close={close}
      wide
      words={buttonWords(choice)}
      kind="danger"
      icon="history"
      disabled={rehearsal.loading || !possible}
      act={restore}
    >
      <p>
        <strong>{visibleLine(checkpoint.title)}</strong>
        <br />
        <span class="quiet small">{moment(checkpoint.ts)}</span>
      </p>
      <fieldset class="restore-ways">
        <legend class="spoken">What to restore</legend>
        {WAYS.map(({ words, files, conversation }) => (
          <label key={words} class="checked">
            <input
              type="radio"
              name="restore"
              checked={choice.files === files && choice.conversation === conversation}
              onChange={() => setChoice({ ...choice, files, conversation })}
            />
            <span>{words}</span>
          </label>
        ))}
      </fieldset>
      <Loaded of={rehearsal} waiting="Checking what would change…">
        {(plan) => <Consequences rehearsal={plan} choice={choice} change={setChoice} />}
      </Loaded>
      <p class="quiet small">The current state is saved as a checkpoint first.</p>
    </ActionDialog>
  );
}

function Consequences({
  rehearsal,
  choice,
  change,
}: {
  rehearsal: RestoreRehearsal;
  choice: Choice;
  change: (choice: Choice) => void;
}) {
  const offersOverwrite = choice.files && (rehearsal.kept.length > 0 || choice.overwrite);
  if (choice.files && rehearsal.problem) {
    return <Problem words={visibleLine(rehearsal.problem)} />;
  }
  return (
    <>
      <Notice icon="info">{summary(rehearsal, choice)}</Notice>
      {consequences(rehearsal, choice).map(({ heading, paths, tone }) => (
        <section key={heading} class="restore-part">
          <h3 class={tone === "careful" ? "careful" : undefined}>
            {heading} <span class="quiet">({counted(paths.length, "file")})</span>
          </h3>
          <PathList paths={paths} label={heading} />
        </section>
      ))}
      {offersOverwrite && (
        <label class="checked">
          <input
            type="checkbox"
            checked={choice.overwrite}
            onChange={(event) => change({ ...choice, overwrite: event.currentTarget.checked })}
          />
          <span>Also restore files that someone else changed since.</span>
        </label>
      )}
    </>
  );
}
