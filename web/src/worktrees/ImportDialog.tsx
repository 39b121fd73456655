/** Imports a branch, or a worktree that the user made. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import type { Importable } from "../protocol";
import { useRequest } from "../requests";
import { Field, toast } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { Select } from "../ui/select";
import { Loaded } from "../ui/PageFrame";
import { visibleLine } from "../visible-text";
import { nameOf } from "./worktree-words";

type What = "branch" | "folder" | "pull";

export function ImportDialog({ close, imported }: { close: () => void; imported: () => void }) {
  const importable = useRequest("list_importable", {});
  const [what, setWhat] = useState<What>("branch");
  const [chosen, setChosen] = useState("");
  const choose = (kind: What) => {
    setWhat(kind);
    setChosen("");
  };
  const importChosen = async () => {
    const row =
      what === "pull"
        ? await request("import_pull_request", { number: Number(chosen) })
        : await request("import_work", { [what]: chosen });
    toast(`Imported ${nameOf(row)}.`, "good");
    imported();
  };

  return (
    <ActionDialog
      title="Import a branch or worktree"
      close={close}
      words="Import"
      disabled={what === "pull" ? !(Number(chosen) > 0) : chosen === ""}
      act={importChosen}
    >
      <fieldset class="import-kinds">
        <legend class="spoken">What to import</legend>
        <label class="checked">
          <input type="radio" name="import" checked={what === "branch"} onChange={() => choose("branch")} />
          <span>A branch. It gets its own worktree.</span>
        </label>
        <label class="checked">
          <input type="radio" name="import" checked={what === "folder"} onChange={() => choose("folder")} />
          <span>A worktree that you made. Its folder is never deleted from here.</span>
        </label>
        <label class="checked">
          <input type="radio" name="import" checked={what === "pull"} onChange={() => choose("pull")} />
          <span>A pull request, through your gh or glab.</span>
        </label>
      </fieldset>
      {what === "pull" ? (
        <Field label="Number">
          <input
            class="input"
            inputMode="numeric"
            value={chosen}
            onInput={(event) => setChosen(event.currentTarget.value.replace(/\D/g, ""))}
          />
        </Field>
      ) : (
        <Loaded of={importable} waiting="Loading branches and worktrees…">
          {(answer) => <Choice what={what} from={answer} chosen={chosen} choose={setChosen} />}
        </Loaded>
      )}
    </ActionDialog>
  );
}

function Choice({
  what,
  from,
  chosen,
  choose,
}: {
  what: "branch" | "folder";
  from: Importable;
  chosen: string;
  choose: (name: string) => void;
}) {
  const names = what === "branch" ? from.branches : from.worktrees;
  if (names.length === 0) {
    return <p class="quiet">{what === "branch" ? "Every branch already has a worktree." : "There are no other worktrees."}</p>;
  }
  return (
    <Field label={what === "branch" ? "Branch" : "Folder"}>
      <Select
        value={chosen}
        change={choose}
        options={[{ value: "", label: "Choose…" }, ...names.map((name) => ({ value: name, label: visibleLine(name) }))]}
      />
    </Field>
  );
}
