/** Small acts on worktrees that need no dialog of their own. */
import { request } from "../connection";
import type { Done } from "../protocol";
import { confirm, toast } from "../ui";

export function tellDone(done: Done, usual: string): void {
  toast(done.notes.join(" ") || usual, "good");
}

/** Whether it was merged; what goes wrong is raised. */
export async function mergeWorktree(worktreeId: string, branch: string, parent: string): Promise<boolean> {
  const into = parent || "the branch it was made from";
  const wanted = await confirm({
    title: `Merge ${branch}?`,
    words: `Its commits are merged into ${into} in the project. Nothing is done if ${into} is not checked out there or has uncommitted changes.`,
    yes: "Merge",
  });
  if (!wanted) return false;
  tellDone(await request("merge_worktree", { worktree_id: worktreeId }), `Merged ${branch} into ${into}.`);
  return true;
}
