/** The form of a schedule: to add one, or to change what can be changed. */
import { useState } from "preact/hooks";
import { request } from "../connection";
import { Choices } from "../new-agent/Choices";
import { ModelSelect } from "../new-agent/ModelSelect";
import type { ScheduleRow, ScheduleSecret } from "../protocol";
import { useRequest } from "../requests";
import { Field } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { visibleLine } from "../visible-text";
import { addRequest, EMPTY_FORM, formOf, formProblem, instantOf, type Kind, PRESETS } from "./schedule-words";

const KINDS: readonly { readonly id: Kind; readonly words: string }[] = [
  { id: "cron", words: "Repeatedly" },
  { id: "at", words: "Once" },
  { id: "webhook", words: "By a webhook" },
];
const APPROVALS = [
  { id: "settings", words: "As in the settings" },
  { id: "auto", words: "Auto-approve" },
  { id: "ask", words: "Ask" },
] as const;
const PLACES = [
  { id: "worktree", words: "New worktree" },
  { id: "local", words: "Project" },
] as const;

export function ScheduleDialog({ row, close, saved }: Props) {
  const [form, setForm] = useState(row ? formOf(row) : EMPTY_FORM);
  const change = (some: Partial<typeof form>) => setForm((was) => ({ ...was, ...some }));
  const missing = formProblem(form);
  const save = async () => {
    if (!row) return saved(await request("add_schedule", addRequest(form)));
    const { prompt, name, kind, cron, at } = form;
    const moved = kind === "cron" && cron !== row.cron ? { cron } : kind === "at" && at !== formOf(row).at ? { at: instantOf(at) } : {};
    await request("change_schedule", { id: row.id, prompt, name, budget: Number(form.budget || 0), ...moved });
    saved(null);
  };
  return (
    <ActionDialog
      title={row ? `Change ${visibleLine(row.name)}` : "New schedule"}
      close={close}
      words={row ? "Save" : "Add schedule"}
      disabled={missing !== null}
      hint={missing ?? undefined}
      act={save}
    >
      <div class="schedule-form">
        <Field label="Prompt">
          <textarea class="input" rows={4} value={form.prompt} onInput={(event) => change({ prompt: event.currentTarget.value })} />
        </Field>
        {!row && <Choices label="Start" choices={KINDS} chosen={form.kind} choose={(kind) => change({ kind })} />}
        {form.kind === "cron" && <CronField cron={form.cron} change={(cron) => change({ cron })} />}
        {form.kind === "at" && (
          <Field label="Time">
            <input class="input" type="datetime-local" value={form.at} onInput={(event) => change({ at: event.currentTarget.value })} />
          </Field>
        )}
        {!row && <Choices label="Where" choices={PLACES} chosen={form.where} choose={(where) => change({ where })} />}
        <div class="schedule-pair">
          <Field label="Name" hint="The name of its sessions. Leave empty to take it from the prompt.">
            <input class="input" maxLength={40} value={form.name} onInput={(event) => change({ name: event.currentTarget.value })} />
          </Field>
          <Field label="Budget per day in dollars" hint="For all its runs. A run that reaches it asks you. Leave empty for no limit.">
            <input
              class="input"
              type="number"
              min="0"
              step="any"
              inputMode="decimal"
              value={form.budget}
              onInput={(event) => change({ budget: event.currentTarget.value })}
            />
          </Field>
        </div>
        {!row && (
          <Choices
            label="Approvals"
            choices={APPROVALS}
            chosen={form.approvals}
            choose={(approvals) => change({ approvals })}
          />
        )}
        {!row && <Model model={form.model} choose={(model) => change({ model })} />}
      </div>
    </ActionDialog>
  );
}

interface Props {
  /** The schedule to change; without one, a new one. */
  row?: ScheduleRow;
  close: () => void;
  saved: (added: ScheduleSecret | null) => void;
}

function CronField({ cron, change }: { cron: string; change: (cron: string) => void }) {
  return (
    <>
      <div class="filters" role="group" aria-label="Usual times">
        {PRESETS.map((each) => (
          <button key={each.cron} type="button" class="filter" aria-pressed={cron === each.cron} onClick={() => change(each.cron)}>
            {each.words}
          </button>
        ))}
      </div>
      <Field label="Cron line" hint="Minute, hour, day of the month, month, day of the week, in the time of the manager’s computer.">
        <input class="input mono" spellcheck={false} value={cron} onInput={(event) => change(event.currentTarget.value)} />
      </Field>
    </>
  );
}

function Model({ model, choose }: { model: string; choose: (model: string) => void }) {
  const models = useRequest("list_models", {});
  return (
    <Field label="Model" problem={models.problem}>
      <ModelSelect none="Default" models={models.answer ?? []} chosen={model} choose={choose} />
    </Field>
  );
}
