/** A text field with a list that narrows while the user types. Not in the main bundle, as `select.tsx`. */
import * as zag from "@zag-js/combobox";
import { normalizeProps, useMachine } from "@zag-js/preact";
import { useId, useMemo, useState } from "preact/hooks";
import { Icon } from "./icons";
import { Options } from "./option-list";
import { matching, type Option } from "./options";
import "./select.css";

/** Of very long lists only the beginning is drawn; typing narrows it. */
const DRAWN = 100;

export function Combobox({
  id,
  options,
  value,
  change,
  label,
  placeholder,
  ...about
}: {
  /** From the field around it, whose label names the list. */
  id?: string;
  options: readonly Option[];
  /** May be one that is not in the list. */
  value: string;
  change: (value: string) => void;
  /** Without a field. */
  label?: string;
  placeholder?: string;
  "aria-describedby"?: string | undefined;
  "aria-invalid"?: boolean | undefined;
}) {
  const own = useId();
  const input = id ?? own;
  const [typed, setTyped] = useState("");
  const shown = useMemo(() => matching(options, typed).slice(0, DRAWN), [options, typed]);
  const collection = useMemo(
    () => zag.collection({ items: [...shown], isItemDisabled: (item) => item.disabled === true, itemToString: ({ value }) => value }),
    [shown],
  );
  const service = useMachine(zag.machine as zag.Machine<Option>, {
    id: own,
    ids: { input },
    collection,
    inputValue: value,
    allowCustomValue: true,
    openOnClick: true,
    placeholder,
    onInputValueChange: ({ inputValue, reason }) => {
      if (reason === "input-change") setTyped(inputValue);
      change(inputValue.trim());
    },
    onOpenChange: ({ open }) => !open && setTyped(""),
    positioning: { sameWidth: true, strategy: "fixed", gutter: 4 },
    loopFocus: true,
  });
  const api = zag.connect(service, normalizeProps);
  // the library handles this key only a frame after the list has opened
  const closeOnEscape = (event: KeyboardEvent) => event.key === "Escape" && api.setOpen(false);
  return (
    <div class="select" onKeyDown={closeOnEscape}>
      <div {...api.getControlProps()}>
        <input {...api.getInputProps()} {...about} role="combobox" type="text" class="input" aria-label={label} />
        <button {...api.getTriggerProps()} class="select-open" aria-label={`${label ?? "Value"}: show list`}>
          <Icon name="down" />
        </button>
      </div>
      {api.open && shown.length > 0 && (
        <div {...api.getPositionerProps()}>
          <div {...api.getContentProps()} class="choices-list" aria-labelledby={label ? undefined : input} aria-label={label}>
            <Options options={shown} about={(item) => api.getItemProps({ item })} chosen={(item) => item.value === value} />
          </div>
        </div>
      )}
    </div>
  );
}
