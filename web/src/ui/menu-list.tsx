/** The list of an open menu. */
import * as zag from "@zag-js/menu";
import { normalizeProps, useMachine } from "@zag-js/preact";
import { useId } from "preact/hooks";
import { Icon } from "./icons";
import type { MenuItem } from "./menu";

export interface MenuListProps {
  /** The id of the button. */
  trigger: string;
  items: MenuItem[];
  label: string;
  close: () => void;
}

export function MenuList({ trigger, items, label, close }: MenuListProps) {
  const service = useMachine(zag.machine, {
    id: useId(),
    ids: { trigger },
    defaultOpen: true,
    defaultHighlightedValue: items.find((item) => !item.disabled)?.words ?? null,
    onOpenChange: ({ open }) => !open && close(),
    onSelect: ({ value }) => {
      // before a dialog opens: it returns the focus to where it was
      document.getElementById(trigger)?.focus({ preventScroll: true });
      items.find(({ words }) => words === value)?.act?.();
    },
    positioning: { strategy: "fixed", placement: "bottom-end", gutter: 4 },
    loopFocus: true,
    "aria-label": label,
  });
  const api = zag.connect(service, normalizeProps);
  return (
    <div {...api.getPositionerProps()}>
      <div {...api.getContentProps()} class="menu-list" aria-labelledby={undefined}>
        {items.map(({ words, icon, href, danger, disabled, apart }) => {
          const Tag = href ? "a" : "div";
          return (
            <>
              {apart && <div class="menu-rule" role="separator" />}
              <Tag
                {...api.getItemProps({ value: words, disabled: disabled === true })}
                href={href}
                tabIndex={-1}
                class={danger ? "menu-item danger" : "menu-item"}
              >
                {icon && <Icon name={icon} />}
                {words}
              </Tag>
            </>
          );
        })}
      </div>
    </div>
  );
}
