import { hrefOf } from "../routes";
import { Notice } from "../ui";

export function WorktreeRemoved() {
  return (
    <Notice tone="careful" icon="branch">
      The worktree was removed, so this session cannot continue. Commits are on its branch, unless that was deleted.
      Uncommitted work is under <a href={hrefOf({ page: "worktrees" })}>Worktrees, Saved work</a>.
    </Notice>
  );
}
