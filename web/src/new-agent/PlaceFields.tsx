/** Fields for where a new session runs: in the project or in a worktree. */
import type { WorktreeRow } from "../protocol";
import { useRequest } from "../requests";
import { Field, Notice } from "../ui";
import { Select } from "../ui/select";
import { visibleLine } from "../visible-text";
import { nameOf } from "../worktrees/worktree-words";
import { Choices } from "./Choices";
import { type Form, type Origin, originOf, whereItRuns } from "./form";

const ORIGINS: readonly { readonly id: Origin; readonly words: string }[] = [
  { id: "new-branch", words: "New branch" },
  { id: "existing-branch", words: "Existing branch" },
  { id: "existing-worktree", words: "Existing worktree" },
];

export function PlaceFields({ form, change }: { form: Form; change: (some: Partial<Form>) => void }) {
  const where = whereItRuns(form);
  return (
    <>
      <Choices
        label="Run in"
        choices={[
          { id: "local", words: "Project", disabled: form.versions > 1 },
          { id: "worktree", words: "Worktree" },
        ]}
        chosen={where}
        choose={(id) => change({ where: id })}
        hint={
          where === "local"
            ? "Changes files in your checkout."
            : form.versions > 1
              ? "Each version gets its own worktree and branch."
              : "The agent gets its own checkout. Yours does not change until you apply the changes."
        }
      />
      {where === "worktree" && <WorktreeFields form={form} change={change} />}
    </>
  );
}

function WorktreeFields({ form, change }: { form: Form; change: (some: Partial<Form>) => void }) {
  const branches = useRequest("list_branches", {});
  const origin = originOf(form);
  return (
    <div class="new-place">
      {form.versions === 1 && (
        <Choices label="Start from" choices={ORIGINS} chosen={origin} choose={(id) => change({ origin: id })} />
      )}
      {branches.problem && (
        <Notice tone="careful" icon="alert">
          {branches.problem}
        </Notice>
      )}
      {origin === "new-branch" && (
        <div class="field-pair">
          <Field label="Base branch">
            <BranchSelect
              none="Main branch of the project"
              branches={branches.answer ?? []}
              chosen={form.base}
              choose={(base) => change({ base })}
            />
          </Field>
          <Field label="Branch name" hint="Leave empty to make one from the prompt.">
            <input
              class="input"
              value={form.branch}
              spellcheck={false}
              autocapitalize="off"
              onInput={(event) => change({ branch: event.currentTarget.value })}
            />
          </Field>
        </div>
      )}
      {origin === "existing-branch" && (
        <Field label="Branch">
          <BranchSelect
            none="Choose…"
            branches={branches.answer ?? []}
            chosen={form.existingBranch}
            choose={(existingBranch) => change({ existingBranch })}
          />
        </Field>
      )}
      {origin === "existing-worktree" && <WorktreeField form={form} change={change} />}
    </div>
  );
}

function BranchSelect({
  none,
  branches,
  chosen,
  choose,
  ...field
}: {
  none: string;
  branches: readonly string[];
  chosen: string;
  choose: (branch: string) => void;
}) {
  // a remembered branch may no longer exist; show it until the user chooses another
  const gone = chosen !== "" && !branches.includes(chosen) ? [chosen] : [];
  return (
    <Select
      {...field}
      value={chosen}
      change={choose}
      options={[
        { value: "", label: none },
        ...[...gone, ...branches].map((branch) => ({ value: branch, label: visibleLine(branch) })),
      ]}
    />
  );
}

function WorktreeField({ form, change }: { form: Form; change: (some: Partial<Form>) => void }) {
  const worktrees = useRequest("list_worktrees", {});
  const ready = (worktrees.answer ?? []).filter((row) => row.state === "ready");
  return (
    <Field
      label="Worktree"
      hint="Sessions in the same worktree share its files and branch."
      problem={worktrees.problem || (worktrees.answer && ready.length === 0 ? "No worktrees yet." : "")}
    >
      <Select
        value={form.worktreeId}
        change={(worktreeId) => change({ worktreeId })}
        options={[
          { value: "", label: "Choose…" },
          ...ready.map((row) => ({ value: row.id, label: worktreeWords(row) })),
        ]}
      />
    </Field>
  );
}

function worktreeWords(row: WorktreeRow): string {
  const name = visibleLine(nameOf(row));
  return row.label ? `${name} (${visibleLine(row.branch)})` : name;
}
