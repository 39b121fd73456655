import type { ComponentType } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { Button, type ButtonProps } from "./button";
import type { IconName } from "./icons";
import type { MenuListProps } from "./menu-list";
import { toastError } from "./toast";

export interface MenuItem {
  words: string;
  icon?: IconName;
  /** Give `href` or `act`. */
  href?: string;
  act?: () => void;
  danger?: boolean;
  disabled?: boolean;
  /** Draws a line above it. */
  apart?: boolean;
}

let fetched: ComponentType<MenuListProps> | null = null;

/** The list, whose code loads when the pointer or the focus comes near. */
async function fetchList(): Promise<ComponentType<MenuListProps>> {
  return (fetched ??= (await import("./menu-list")).MenuList);
}

export function Menu({
  items,
  label,
  icon = "dots",
  kind = "plain",
  compact,
  words,
}: {
  items: MenuItem[];
  label: string;
  icon?: IconName;
  kind?: ButtonProps["kind"];
  compact?: boolean;
  words?: string;
}) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const [List, setList] = useState<{ of: ComponentType<MenuListProps> } | null>(null);
  useEffect(() => {
    if (open && !List) fetchList().then((of) => setList({ of }), toastError);
  }, [open, List]);
  const prepare = () => void fetchList().catch(() => undefined);
  const close = () => setOpen(false);
  return (
    <div class="menu">
      <Button
        id={id}
        kind={kind}
        icon={icon}
        label={label}
        compact={compact}
        aria-haspopup="menu"
        aria-expanded={open}
        onPointerEnter={prepare}
        onFocus={prepare}
        onClick={() => setOpen(!open)}
      >
        {words}
      </Button>
      {open && List && <List.of trigger={id} items={items} label={label} close={close} />}
    </div>
  );
}
