/** Worktree actions without a dialog of their own. */
import { request } from "../connection";
import { counted } from "../format";
import type { Done } from "../protocol";
import { confirm, toast } from "../ui";

export function toastDone(done: Done, usual: string): void {
  toast(done.notes.join(" ") || usual, "good");
}

/** Whether it was merged. Throws if the merge fails. */
export async function mergeWorktree(worktreeId: string, branch: string): Promise<boolean> {
  const [worktrees, stats] = await Promise.all([
    request("list_worktrees", {}),
    request("read_stats", { worktree_id: worktreeId }),
  ]);
  const into = worktrees.find((row) => row.id === worktreeId)?.parent_branch || "its base branch";
  const confirmed = await confirm({
    title: `Merge ${branch} into ${into}?`,
    words: mergeWords(into, stats),
    yes: "Merge",
  });
  if (!confirmed) return false;
  toastDone(await request("merge_worktree", { worktree_id: worktreeId }), `Merged ${branch} into ${into}.`);
  return true;
}

export function mergeWords(into: string, stats: { ahead: number; uncommitted: number }): string {
  const { ahead, uncommitted } = stats;
  const commits = ahead > 0 ? `${counted(ahead, "commit")} will be merged` : "There are no commits to merge";
  const left =
    uncommitted > 0
      ? ` ${counted(uncommitted, "file")} with uncommitted changes ${uncommitted === 1 ? "is" : "are"} not included; use “Commit all changes” first to include them.`
      : "";
  const needs = ` ${into} must be checked out in the project, without uncommitted changes.`;
  return `${commits}${ahead > 0 ? ` into ${into} in the project` : ""}.${left}${needs}`;
}
