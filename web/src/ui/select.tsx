/** A list to choose from, behind a button. Not in the main bundle: screens that need it import it themselves. */
import { normalizeProps, useMachine } from "@zag-js/preact";
import * as zag from "@zag-js/select";
import { useId, useMemo } from "preact/hooks";
import { Icon } from "./icons";
import { type Option, groupsIn } from "./options";
import { Options } from "./option-list";
import "./select.css";

export function Select({
  id,
  options,
  value,
  change,
  label,
  ...about
}: {
  /** From the field around it, whose label names the list. */
  id?: string;
  options: readonly Option[];
  value: string;
  change: (value: string) => void;
  /** Without a field. */
  label?: string;
  "aria-describedby"?: string | undefined;
  "aria-invalid"?: boolean | undefined;
}) {
  const own = useId();
  const trigger = id ?? own;
  const items = useMemo(() => groupsIn(options).flatMap((group) => group.options), [options]);
  const collection = useMemo(() => zag.collection({ items, isItemDisabled: (item) => item.disabled === true }), [items]);
  const service = useMachine(zag.machine as zag.Machine<Option>, {
    id: own,
    ids: { trigger },
    collection,
    value: [value],
    onValueChange: ({ value: [chosen] }) => chosen !== undefined && change(chosen),
    positioning: { sameWidth: true, strategy: "fixed", gutter: 4 },
    loopFocus: true,
  });
  const api = zag.connect(service, normalizeProps);
  const shown = items.find((item) => item.value === value);
  return (
    <div class="select" data-editing={api.open || undefined}>
      <button {...api.getTriggerProps()} {...about} class="input select-button" aria-labelledby={undefined} aria-label={label}>
        <span class="cut">{shown?.label ?? value}</span>
        <Icon name="down" />
      </button>
      {api.open && (
        <div {...api.getPositionerProps()}>
          <div {...api.getContentProps()} class="choices-list" aria-labelledby={label ? undefined : trigger} aria-label={label}>
            <Options
              options={options}
              about={(item) => api.getItemProps({ item })}
              chosen={(item) => item.value === value}
            />
          </div>
        </div>
      )}
    </div>
  );
}
