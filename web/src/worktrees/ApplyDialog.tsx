/** Applies a worktree's changes to the project, after it was shown what that would do. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import { counted } from "../format";
import type { Plan } from "../protocol";
import { useAnswer, useDoing } from "../review/answers";
import { Button, Dialog, Notice } from "../ui";
import { harmless } from "../visible";
import { PathList } from "./PathList";
import { Answer } from "./Sheet";
import { tellDone } from "./acts";
import { applyHeading, canApply, withoutConflicts } from "./worktree-words";

export function ApplyDialog({
  worktreeId,
  name,
  paths,
  known = [],
  close,
  applied,
}: {
  worktreeId: string;
  name: string;
  /** Only these; none for all. */
  paths: readonly string[];
  /** All there are, where that is known. */
  known?: readonly string[];
  close: () => void;
  applied: () => void;
}) {
  const [chosen, setChosen] = useState(paths);
  const plan = useAnswer("plan_apply", { worktree_id: worktreeId, paths: [...chosen] });
  const [problem, setProblem] = useState("");
  const doing = useDoing(setProblem);

  const apply = (token: string) =>
    doing.run(async () => {
      setProblem("");
      const done = await request("apply_worktree", {
        worktree_id: worktreeId,
        paths: [...chosen],
        token,
      });
      tellDone(done, `Applied the changes of ${name} to the project.`);
      applied();
    });
  const lookAgain = () => {
    setProblem("");
    plan.again();
  };
  const rest = plan.answer && withoutConflicts(plan.answer, chosen.length > 0 ? chosen : known);

  return (
    <Dialog
      title={`Apply ${name} to the project`}
      close={close}
      foot={
        <>
          <Button onClick={close}>Cancel</Button>
          {problem && <Button onClick={lookAgain}>Look again</Button>}
          {rest && (
            <Button onClick={() => setChosen(rest)}>Leave conflicts out ({counted(rest.length, "file")})</Button>
          )}
          <Button
            kind="primary"
            icon="check"
            busy={doing.busy}
            disabled={plan.loading || !plan.answer || !canApply(plan.answer)}
            onClick={() => plan.answer && apply(plan.answer.token)}
          >
            Apply
          </Button>
        </>
      }
    >
      <Answer of={plan} waiting="Trying it out, without changing anything…">
        {(answer) => <ApplyPlan plan={answer} />}
      </Answer>
      {problem && (
        <Notice tone="bad" icon="alert">
          {problem}
        </Notice>
      )}
    </Dialog>
  );
}

export function ApplyPlan({ plan }: { plan: Plan }) {
  const inConflict = plan.conflicts.length > 0;
  return (
    <>
      <Notice tone={inConflict ? "careful" : "accent"} icon={inConflict ? "alert" : "info"}>
        {applyHeading(plan)}
      </Notice>
      {plan.text && <p class="plan-text">{harmless(plan.text)}</p>}
      <PathList paths={plan.conflicts} label="Conflicts" />
      {!inConflict && <PathList paths={plan.paths} label="Files that would be written" />}
    </>
  );
}
