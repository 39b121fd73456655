/** The options of a new session as a row of chips. A chip shows its value and opens its fields. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import { Icon, type IconName } from "../ui";
import { visibleLine } from "../visible-text";
import type { Form } from "./form";
import { chipWords, type ChipId } from "./chips";

const ICONS: Record<ChipId, IconName> = { place: "folder", versions: "columns", model: "brain", mode: "tool", more: "gear" };

export function Chips(props: {
  form: Form;
  change: (some: Partial<Form>) => void;
  open: ChipId | null;
  toggle: (id: ChipId) => void;
  modes: readonly { readonly slug: string; readonly name: string }[];
  children: ComponentChildren;
}) {
  const { form, change, open, toggle, modes, children } = props;
  const id = useId();
  const words = chipWords(form, modes);
  return (
    <>
      <div class="chips" role="group" aria-label="Options">
        {(Object.keys(ICONS) as ChipId[]).map((each) => (
          <button
            key={each}
            type="button"
            class="chip"
            aria-expanded={open === each}
            aria-controls={open === each ? id : undefined}
            onClick={() => toggle(each)}
          >
            <Icon name={each === "place" && words.place !== "Project" ? "branch" : ICONS[each]} />
            <span class="cut">{visibleLine(words[each])}</span>
            <Icon name="down" />
          </button>
        ))}
        <button
          type="button"
          class={`chip ${form.autoApprove ? "on" : ""}`}
          role="switch"
          aria-checked={form.autoApprove === true}
          disabled={form.autoApprove === null}
          onClick={() => change({ autoApprove: !form.autoApprove })}
        >
          <Icon name={form.autoApprove ? "bolt" : "hand"} />
          Auto-approve
          <span class="chip-state">{form.autoApprove ? "on" : "off"}</span>
        </button>
      </div>
      {open && (
        <div class="chip-panel" id={id}>
          {children}
        </div>
      )}
    </>
  );
}
