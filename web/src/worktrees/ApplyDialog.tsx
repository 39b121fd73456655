/** Applies a worktree's changes to the project, after showing the plan. */
import { useEffect, useState } from "preact/hooks";

import { request } from "../connection";
import { counted } from "../format";
import type { Plan } from "../protocol";
import { useRequest } from "../requests";
import { Button, Notice } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { visibleText } from "../visible-text";
import { shortenReferences } from "../wording";
import { PathList } from "./PathList";
import { Loaded } from "../ui/PageFrame";
import { toastDone } from "./worktree-actions";
import { applyHeading, canApply, withoutConflicts } from "./worktree-words";

export function ApplyDialog({
  worktreeId,
  sessionId = "",
  name,
  paths,
  known = [],
  close,
  applied,
}: {
  worktreeId: string;
  /** A session in the worktree, if there is one. */
  sessionId?: string;
  name: string;
  /** Only these files; empty for all. */
  paths: readonly string[];
  /** All changed files, if known. */
  known?: readonly string[];
  close: () => void;
  applied: () => void;
}) {
  const [chosen, setChosen] = useState(paths);
  const plan = useRequest("plan_apply", { worktree_id: worktreeId, paths: [...chosen] });
  const apply = async () => {
    const done = await request("apply_worktree", {
      worktree_id: worktreeId,
      paths: [...chosen],
      token: plan.answer!.token,
    });
    toastDone(done, `Applied ${name} to the project.`);
    applied();
  };
  const all = useAllPaths(sessionId, known, plan.answer);
  const rest = plan.answer && withoutConflicts(plan.answer, chosen.length > 0 ? chosen : all);

  return (
    <ActionDialog
      title={`Apply ${name} to the project`}
      close={close}
      words="Apply"
      icon="check"
      disabled={plan.loading || !plan.answer || !canApply(plan.answer)}
      act={apply}
      checkAgain={plan.reload}
      again={(plan.answer?.conflicts.length ?? 0) > 0}
      others={rest && <Button onClick={() => setChosen(rest)}>Skip conflicts ({counted(rest.length, "file")})</Button>}
    >
      <Loaded of={plan} waiting="Checking what would change…">
        {(answer) => <ApplyPlan plan={answer} />}
      </Loaded>
    </ActionDialog>
  );
}

/** All files to apply. A plan with conflicts does not list them. */
function useAllPaths(sessionId: string, known: readonly string[], plan: Plan | null): readonly string[] {
  const [found, setFound] = useState<readonly string[]>([]);
  const needed = known.length === 0 && sessionId !== "" && (plan?.conflicts.length ?? 0) > 0;
  useEffect(() => {
    if (!needed) return;
    request("review_changes", { session_id: sessionId, scope: "branch" }).then(
      (review) => setFound(review.files.map((file) => file.path)),
      () => undefined, // then conflicts cannot be skipped
    );
  }, [needed]);
  return known.length > 0 ? known : found;
}

export function ApplyPlan({ plan }: { plan: Plan }) {
  const inConflict = plan.conflicts.length > 0;
  return (
    <>
      <Notice tone={inConflict ? "careful" : "accent"} icon={inConflict ? "alert" : "info"}>
        {applyHeading(plan)}
      </Notice>
      {plan.text && <p class="plan-text">{visibleText(shortenReferences(plan.text))}</p>}
      <PathList paths={plan.conflicts} label="Conflicts" />
      {inConflict && (
        <p class="quiet small">
          These files changed in the project after the agent started, or are not committed there. Commit, move or revert
          them, then check again. Or skip them.
        </p>
      )}
      {!inConflict && <PathList paths={plan.paths} label="Files to write" />}
    </>
  );
}
