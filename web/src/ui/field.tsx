import { cloneElement, type ComponentChildren, type VNode } from "preact";
import { useId } from "preact/hooks";

/** A control with label, hint and error message. */
export function Field({
  label,
  hint,
  problem,
  children,
}: {
  label: string;
  hint?: ComponentChildren;
  problem?: string;
  children: VNode<any>;
}) {
  const id = useId();
  const about = hint || problem ? `${id}-about` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {cloneElement(children, { id, "aria-describedby": about, "aria-invalid": problem ? true : undefined })}
      {(hint || problem) && (
        <div id={about}>
          {problem && <div class="field-problem">{problem}</div>}
          {hint && <div class="field-hint">{hint}</div>}
        </div>
      )}
    </div>
  );
}

export function Switch({
  on,
  change,
  children,
  disabled,
}: {
  on: boolean;
  change: (on: boolean) => void;
  children: ComponentChildren;
  disabled?: boolean;
}) {
  return (
    <label class="switch">
      <input
        type="checkbox"
        role="switch"
        checked={on}
        disabled={disabled}
        onChange={(event) => change(event.currentTarget.checked)}
      />
      <span>{children}</span>
    </label>
  );
}
