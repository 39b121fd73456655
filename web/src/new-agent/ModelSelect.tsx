import { useLayoutEffect, useRef, useState } from "preact/hooks";

import type { KnownModel } from "../protocol";
import { Button } from "../ui";
import { visibleLine } from "../visible-text";
import { modelName } from "./form";
import { ownModels } from "./own-models";
import "./model-select.css";

const CUSTOM = "\0";

/** A list of known models, with a text field for any other. */
export function ModelSelect({
  none,
  models,
  chosen,
  choose,
  ...field
}: {
  none: string;
  models: readonly KnownModel[];
  chosen: string;
  choose: (model: string) => void;
}) {
  const [own] = useState(ownModels);
  const [custom, setCustom] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), [custom]);
  const providers = [...new Set(models.map((model) => model.provider))];
  if (custom) {
    const leave = () => {
      setCustom(false);
      choose("");
    };
    return (
      <div class="own-model">
        <input
          {...field}
          class="input"
          placeholder="provider/model"
          spellcheck={false}
          autocapitalize="off"
          ref={input}
          value={chosen}
          onInput={(event) => choose(event.currentTarget.value.trim())}
        />
        <Button icon="list" label="Choose from list" onClick={leave} />
      </div>
    );
  }
  const take = (value: string) => {
    setCustom(value === CUSTOM);
    choose(value === CUSTOM ? "" : value);
  };
  return (
    <select {...field} class="input" value={chosen} onChange={(event) => take(event.currentTarget.value)}>
      <option value="">{none}</option>
      {own.length > 0 && (
        <optgroup label="Recently used">
          {own.map((name) => (
            <option key={name} value={name}>
              {visibleLine(name)}
            </option>
          ))}
        </optgroup>
      )}
      {providers.map((provider) => (
        <optgroup key={provider} label={visibleLine(provider)}>
          {models
            .filter((model) => model.provider === provider)
            .map((model) => (
              <option key={model.model} value={modelName(model)}>
                {visibleLine(model.model)}
              </option>
            ))}
        </optgroup>
      ))}
      <option value={CUSTOM}>Other model…</option>
    </select>
  );
}
