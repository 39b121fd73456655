/** Radio buttons shown as a row of choices. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import "./choices.css";

export function Choices<T extends string>({
  label,
  choices,
  chosen,
  choose,
  hint,
}: {
  label: string;
  choices: readonly { readonly id: T; readonly words: string; readonly disabled?: boolean }[];
  chosen: T;
  choose: (id: T) => void;
  hint?: ComponentChildren;
}) {
  const name = useId();
  return (
    <fieldset class="field" aria-describedby={hint ? `${name}-hint` : undefined}>
      <legend class="choices-label">{label}</legend>
      <div class="choices">
        {choices.map(({ id, words, disabled }) => (
          <label key={id} class="choices-one">
            <input
              type="radio"
              name={name}
              checked={chosen === id}
              disabled={disabled}
              onChange={() => choose(id)}
            />
            <span>{words}</span>
          </label>
        ))}
      </div>
      {hint && (
        <div id={`${name}-hint`} class="field-hint">
          {hint}
        </div>
      )}
    </fieldset>
  );
}
