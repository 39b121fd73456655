import { hrefOf } from "../routes";
import { Notice } from "../ui";

/** Why a session cannot go on where it was. */
export function WorktreeRemoved() {
  return (
    <Notice tone="careful" icon="branch">
      Its worktree was removed, so it cannot go on there. What was committed is on its branch if that was kept; what was
      not is under <a href={hrefOf({ page: "worktrees" })}>Worktrees, Kept work</a>.
    </Notice>
  );
}
