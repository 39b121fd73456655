/** Commits everything in a worktree to its branch. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import { Field, Notice } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { toastDone } from "./worktree-actions";

export function FinishDialog({
  worktreeId,
  branch,
  close,
  finished,
}: {
  worktreeId: string;
  branch: string;
  close: () => void;
  finished: () => void;
}) {
  const [message, setMessage] = useState("");
  const finish = async () => {
    const done = await request("finish_worktree", { worktree_id: worktreeId, message: message.trim() });
    toastDone(done, `Committed all changes to ${branch}.`);
    finished();
  };

  return (
    <ActionDialog
      title={`Commit all changes to ${branch}`}
      close={close}
      words={message.trim() ? "Commit" : "Let the agent commit"}
      icon="check"
      act={finish}
      waiting={!message.trim() && <Notice icon="clock">Waiting for the agent to commit…</Notice>}
    >
      <Field
        label="Commit message"
        hint="Leave empty to let the agent write it. If it does not commit within a minute, a default message is used."
      >
        <textarea
          class="input"
          rows={3}
          value={message}
          onInput={(event) => setMessage(event.currentTarget.value)}
        />
      </Field>
    </ActionDialog>
  );
}
