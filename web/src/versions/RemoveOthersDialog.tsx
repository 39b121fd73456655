/** Offers to remove the other versions after one was kept. */
import { useEffect, useState } from "preact/hooks";

import { request } from "../connection";
import { counted } from "../format";
import type { Version } from "../protocol";
import { errorMessage, useRequest, useAction } from "../requests";
import { hrefOf } from "../routes";
import { Button, Dialog, Problem, toastError, toast } from "../ui";
import { visibleLine, visibleText } from "../visible-text";
import { shortenReferences } from "../wording";
import { PathList } from "../worktrees/PathList";
import { Loaded } from "../ui/PageFrame";

export function RemoveOthersDialog({
  versions,
  winner,
  close,
}: {
  versions: readonly Version[];
  winner: Version;
  close: () => void;
}) {
  // a copy from when the dialog opened: versions disappear one by one
  const [shown] = useState(versions);
  const [kept, setKept] = useState<ReadonlySet<string>>(new Set());
  const [tokens, setTokens] = useState<ReadonlyMap<string, string>>(new Map());
  const [problems, setProblems] = useState<readonly string[]>([]);
  const action = useAction(toastError);
  const selected = shown.filter(({ worktree_id }) => tokens.has(worktree_id) && !kept.has(worktree_id));

  const remove = () =>
    action.run(async () => {
      const failed: string[] = [];
      for (const version of selected) {
        try {
          await request("remove_worktree", {
            worktree_id: version.worktree_id,
            token: tokens.get(version.worktree_id) ?? "",
          });
        } catch (error) {
          failed.push(`${visibleLine(version.name)}: ${errorMessage(error)}`);
        }
      }
      const removed = selected.length - failed.length;
      const link = { words: "Saved work", href: hrefOf({ page: "worktrees" }) };
      if (removed > 0) toast(`Removed ${counted(removed, "version")}. Uncommitted work is under Saved work.`, "good", link);
      if (failed.length === 0) return close();
      setProblems(failed);
    });

  return (
    <Dialog
      title="Remove the other versions?"
      close={close}
      wide
      foot={
        <>
          <Button onClick={close}>Keep all</Button>
          <Button kind="danger" icon="trash" busy={action.busy} disabled={selected.length === 0} onClick={remove}>
            Remove {counted(selected.length, "version")}
          </Button>
        </>
      }
    >
      <p>
        {visibleLine(winner.name)} was applied to the project. Removing the others stops their sessions and deletes their folders.
        Nothing is lost: commits stay on their branches, and uncommitted work is kept under{" "}
        <a href={hrefOf({ page: "worktrees" })}>Worktrees, Saved work</a>.
      </p>
      {shown.map((version) => (
        <OtherVersion
          key={version.worktree_id}
          version={version}
          keep={kept.has(version.worktree_id)}
          change={(keep) => setKept((was) => changed(was, version.worktree_id, keep))}
          planned={(token) => setTokens((was) => new Map(was).set(version.worktree_id, token))}
        />
      ))}
      {problems.map((problem) => (
        <Problem key={problem} words={problem} />
      ))}
    </Dialog>
  );
}

function OtherVersion({
  version,
  keep,
  change,
  planned,
}: {
  version: Version;
  keep: boolean;
  change: (keep: boolean) => void;
  planned: (token: string) => void;
}) {
  const plan = useRequest("plan_removal", { worktree_id: version.worktree_id });
  useEffect(() => {
    if (plan.answer) planned(plan.answer.token);
  }, [plan.answer]);
  return (
    <div class="card">
      <label class="checked">
        <input
          type="checkbox"
          checked={!keep && plan.answer !== null}
          disabled={plan.answer === null}
          onChange={(event) => change(!event.currentTarget.checked)}
        />
        <strong>{visibleLine(version.name)}</strong>
      </label>
      <Loaded of={plan} waiting="Checking the worktree…">
        {(answer) => (
          <>
            <p class="plan-text">{visibleText(shortenReferences(answer.text))}</p>
            <PathList paths={answer.paths} label={`Files of ${visibleLine(version.name)}`} />
          </>
        )}
      </Loaded>
    </div>
  );
}

function changed(set: ReadonlySet<string>, id: string, inside: boolean): ReadonlySet<string> {
  const rest = [...set].filter((each) => each !== id);
  return new Set(inside ? [...rest, id] : rest);
}
