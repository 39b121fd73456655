/** Actions for the whole worktree of a session. */
import { counted } from "../format";
import type { SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { Button, Menu, type MenuItem, toastError } from "../ui";
import { mergeWorktree } from "../worktrees/worktree-actions";
import { useAction } from "../requests";

/** The open dialog. */
export type Shown = "apply" | "finish" | null;

export function WorktreeActions({
  row,
  marked,
  show,
  changed,
}: {
  row: SessionRow;
  marked: number;
  show: (shown: Shown) => void;
  changed: () => void;
}) {
  const action = useAction(toastError);
  const merge = () =>
    action.run(async () => {
      if (await mergeWorktree(row.worktree_id!, row.branch)) changed();
    });
  const items: MenuItem[] = [
    { words: "Commit all changes…", icon: "flag", act: () => show("finish"), disabled: !row.flags.can_finish_to_branch },
    { words: "Merge branch…", icon: "branch", act: merge, disabled: action.busy },
    { words: "All worktrees", icon: "folder", href: hrefOf({ page: "worktrees" }), apart: true },
  ];
  return (
    <>
      <Button kind="primary" icon="check" onClick={() => show("apply")}>
        {marked > 0 ? `Apply ${counted(marked, "file")}…` : "Apply…"}
      </Button>
      <Menu label="More actions" items={items} />
    </>
  );
}
