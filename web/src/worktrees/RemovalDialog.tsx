/** Removes a worktree, after showing what is deleted and what is kept. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import type { WorktreeRow } from "../protocol";
import { useRequest } from "../requests";
import { confirm } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { visibleText } from "../visible-text";
import { shortenReferences } from "../wording";
import { PathList } from "./PathList";
import { Loaded } from "../ui/PageFrame";
import { toastDone } from "./worktree-actions";
import { nameOf, removalVerb } from "./worktree-words";

export function RemovalDialog({
  worktree,
  close,
  removed,
}: {
  worktree: WorktreeRow;
  close: () => void;
  removed: () => void;
}) {
  const plan = useRequest("plan_removal", { worktree_id: worktree.id });
  const [deleteBranch, setDeleteBranch] = useState(false);
  const name = nameOf(worktree);

  const remove = async () => {
    if (deleteBranch && !(await confirmDelete(worktree.branch))) return;
    const done = await request("remove_worktree", {
      worktree_id: worktree.id,
      token: plan.answer!.token,
      delete_branch: deleteBranch,
    });
    toastDone(done, worktree.imported ? `Removed ${name} from the list. Its folder is kept.` : `Removed ${name}.`);
    removed();
  };

  return (
    <ActionDialog
      title={`Remove ${name}${worktree.imported ? " from the list" : ""}`}
      close={close}
      words={removalVerb(worktree)}
      kind="danger"
      icon="trash"
      disabled={plan.loading || !plan.answer}
      act={remove}
      checkAgain={plan.reload}
    >
      <Loaded of={plan} waiting="Checking the worktree…">
        {(answer) => (
          <>
            <p class="plan-text">{visibleText(shortenReferences(answer.text))}</p>
            <PathList paths={answer.paths} label="Affected files" />
          </>
        )}
      </Loaded>
      {!worktree.imported && (
        <p class="quiet small">Uncommitted work is kept below under Saved work.</p>
      )}
      {!worktree.imported && worktree.branch && (
        <label class="checked">
          <input
            type="checkbox"
            checked={deleteBranch}
            onChange={(event) => setDeleteBranch(event.currentTarget.checked)}
          />
          <span>
            Also delete the branch <code>{worktree.branch}</code>.
          </span>
        </label>
      )}
    </ActionDialog>
  );
}

function confirmDelete(branch: string): Promise<boolean> {
  return confirm({
    title: "Delete the branch?",
    words: `Commits that are only on ${branch} will no longer be on any branch.`,
    yes: "Delete branch",
    danger: true,
  });
}
