/** Fields for the model and the mode; each version can have its own model. */
import type { KnownMode, KnownModel } from "../protocol";
import type { RequestState } from "../requests";
import { Field } from "../ui";
import { Select } from "../ui/select";
import { visibleLine } from "../visible-text";
import { type Form, modelName, modelNote, withModel } from "./form";
import { ModelSelect } from "./ModelSelect";

/** The defaults from the settings, where known. */
export interface Defaults {
  readonly model: string;
  readonly mode: string;
}

export function ModelFields({
  form,
  change,
  models,
  modes,
  defaults,
}: {
  form: Form;
  change: (some: Partial<Form>) => void;
  models: RequestState<readonly KnownModel[]>;
  modes: RequestState<readonly KnownMode[]>;
  defaults: Defaults;
}) {
  const known = models.answer ?? [];
  const chosen = known.find((model) => modelName(model) === form.model);
  const mode = modes.answer?.find((each) => each.slug === form.mode);
  return (
    <>
      <div class="field-pair">
        <Field
          label={form.versions > 1 ? "Model for all versions" : "Model"}
          hint={chosen && modelNote(chosen)}
          problem={models.problem}
        >
          <ModelSelect
            none={withName("Default", defaults.model)}
            models={known}
            chosen={form.model}
            choose={(model) => change({ model })}
          />
        </Field>
        <Field label="Mode" hint={mode && visibleLine(mode.when_to_use)} problem={modes.problem}>
          <Select
            value={form.mode}
            change={(slug) => change({ mode: slug })}
            options={[
              { value: "", label: withName("Default", defaults.mode) },
              ...(modes.answer ?? []).map((each) => ({ value: each.slug, label: visibleLine(each.name) })),
            ]}
          />
        </Field>
      </div>
      {form.versions > 1 && (
        <div class="version-models">
          {form.models.slice(0, form.versions).map((model, at) => (
            <Field key={at} label={`Version ${at + 1}`}>
              <ModelSelect
                none="Same as above"
                models={known}
                chosen={model}
                choose={(name) => change(withModel(form, at, name))}
              />
            </Field>
          ))}
        </div>
      )}
    </>
  );
}

function withName(words: string, name: string): string {
  return name ? `${words} (${visibleLine(name)})` : words;
}
