import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { request } from "../connection";
import { ModelSelect } from "../new-agent/ModelSelect";
import type { IntentRow, KnownMode, KnownModel, SessionRow } from "../protocol";
import { toastError, Field, Switch } from "../ui";
import { ActionDialog } from "../ui/action-dialog";
import { Select } from "../ui/select";
import type { Parts } from "../view";
import { visibleLine } from "../visible-text";

/** Changes the model, mode, intent or approval of a session from its next step on. */
export default function SwitchDialog({ row, parts, close }: { row: SessionRow; parts: Parts; close: () => void }) {
  const models = useSignal<readonly KnownModel[]>([]);
  const modes = useSignal<readonly KnownMode[]>([]);
  const intents = useSignal<readonly IntentRow[]>([]);
  const before = {
    model: "",
    mode: parts.mode || row.mode || "",
    intent: parts.intent?.intent_id || row.intent,
    auto_approve: parts.automatic ?? row.auto_approve,
  };
  const chosen = useSignal(before);

  useEffect(() => {
    request("list_models", {}).then((found) => (models.value = found), toastError);
    request("list_modes", {}).then((found) => (modes.value = found), toastError);
    request("list_intents", {}).then((found) => (intents.value = found), () => undefined);
  }, []);

  const save = async () => {
    const changes = Object.fromEntries(
      Object.entries(chosen.value).filter(([name, value]) => value !== before[name as keyof typeof before]),
    );
    if (Object.keys(changes).length) await request("switch_session", { session_id: row.session_id, ...changes });
    close();
  };
  const set = (changes: Partial<typeof before>) => (chosen.value = { ...chosen.value, ...changes });

  return (
    <ActionDialog title="Session settings" close={close} words="Save" act={save}>
      <Field label="Model">
        <ModelSelect
          none={`${visibleLine(parts.model || row.model || "current model")} (now)`}
          models={models.value}
          chosen={chosen.value.model}
          choose={(model) => set({ model })}
        />
      </Field>
      <Field label="Mode" hint={modes.value.find((mode) => mode.slug === chosen.value.mode)?.when_to_use}>
        <Select
          value={chosen.value.mode}
          change={(mode) => set({ mode })}
          options={modes.value.map(({ slug, name }) => ({ value: slug, label: visibleLine(name) }))}
        />
      </Field>
      {intents.value.length > 0 && (
        <Field label="Intent">
          <Select
            value={chosen.value.intent}
            change={(intent) => set({ intent })}
            options={[
              ...(before.intent ? [] : [{ value: "", label: "None" }]),
              ...intents.value.map(({ id, name, problem }) => ({
                value: id,
                label: visibleLine(`${id} ${name}`),
                disabled: problem !== "",
              })),
            ]}
          />
        </Field>
      )}
      <Switch on={chosen.value.auto_approve} change={(on) => set({ auto_approve: on })}>
        Auto-approve. Limits, protected files and denied commands still apply.
      </Switch>
    </ActionDialog>
  );
}
