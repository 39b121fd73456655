/** Commits everything in a worktree to its branch. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import { useAction } from "../requests";
import { Button, Dialog, Field, Notice } from "../ui";
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
  const [problem, setProblem] = useState("");
  const action = useAction(setProblem);
  const finish = () =>
    action.run(async () => {
      setProblem("");
      const done = await request("finish_worktree", { worktree_id: worktreeId, message: message.trim() });
      toastDone(done, `Committed all changes to ${branch}.`);
      finished();
    });

  return (
    <Dialog
      title={`Commit all changes to ${branch}`}
      close={close}
      foot={
        <>
          <Button onClick={close}>{action.busy ? "Close" : "Cancel"}</Button>
          <Button kind="primary" icon="check" busy={action.busy} onClick={finish}>
            {message.trim() ? "Commit" : "Let the agent commit"}
          </Button>
        </>
      }
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
      {action.busy && !message.trim() && <Notice icon="clock">Waiting for the agent to commit…</Notice>}
      {problem && (
        <Notice tone="bad" icon="alert">
          {problem}
        </Notice>
      )}
    </Dialog>
  );
}
