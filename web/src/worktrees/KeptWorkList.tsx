/** Work that was saved when a worktree was removed or a file reverted, and how to restore it. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import type { KeptWork } from "../protocol";
import { useRequest } from "../requests";
import { Button, Field, Notice, toast } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { visibleLine } from "../visible-text";
import { Loaded } from "../ui/PageFrame";
import { keptName, nameOf } from "./worktree-words";

export function KeptWorkList({ restored }: { restored: () => void }) {
  const kept = useRequest("list_kept", {});
  const [wanted, setWanted] = useState<KeptWork | null>(null);
  const done = () => {
    setWanted(null);
    kept.reload();
    restored();
  };
  return (
    <section class="cards" aria-labelledby="kept-work">
      <h2 id="kept-work">Saved work</h2>
      <p class="quiet small">
        Uncommitted work is saved in the repository when a worktree is removed or a file is reverted.
      </p>
      <Loaded of={kept} waiting="Loading saved work…">
        {(all) =>
          all.length === 0 ? (
            <p class="quiet">No saved work.</p>
          ) : (
            <ul class="kept-list">
              {all.map((work) => (
                <li key={work.ref} class="kept-work">
                  <div class="grow">
                    <div>{visibleLine(work.about || keptName(work.ref))}</div>
                    <div class="quiet small mono cut" title={work.ref}>
                      {work.commit.slice(0, 10)} {visibleLine(keptName(work.ref))}
                    </div>
                  </div>
                  <Button compact icon="history" onClick={() => setWanted(work)}>
                    Restore…
                  </Button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {wanted && <RestoreWorkDialog work={wanted} close={() => setWanted(null)} done={done} />}
    </section>
  );
}

function RestoreWorkDialog({ work, close, done }: { work: KeptWork; close: () => void; done: () => void }) {
  const [branch, setBranch] = useState("");
  const restore = async () => {
    const row = await request("bring_back", { ref: work.ref, branch: branch.trim() });
    toast(`Restored into the worktree ${nameOf(row)}.`, "good");
    done();
  };
  return (
    <ActionDialog
      title="Restore saved work"
      close={close}
      words="Restore"
      disabled={branch.trim() === ""}
      act={restore}
      waiting={<Notice icon="clock">Creating the worktree…</Notice>}
    >
      {(run) => (
        <>
          <p>{visibleLine(work.about || keptName(work.ref))}</p>
          <Field label="New branch" hint="The work is restored into a new worktree. The saved copy is kept.">
            <input
              class="input"
              value={branch}
              spellcheck={false}
              autocapitalize="off"
              onInput={(event) => setBranch(event.currentTarget.value)}
              onKeyDown={(event) => event.key === "Enter" && branch.trim() && run()}
            />
          </Field>
        </>
      )}
    </ActionDialog>
  );
}
