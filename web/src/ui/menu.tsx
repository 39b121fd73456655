import { useEffect, useRef, useState } from "preact/hooks";
import { Button, type ButtonProps } from "./button";
import { Icon, type IconName } from "./icons";

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

export function Menu({
  items,
  label,
  icon = "dots",
  kind = "plain",
  compact,
  words,
  side = "right",
  upwards,
}: {
  items: MenuItem[];
  label: string;
  icon?: IconName;
  kind?: ButtonProps["kind"];
  compact?: boolean;
  words?: string;
  side?: "left" | "right";
  upwards?: boolean;
}) {
  const [open, setOpen] = useState(false);
  const menu = useRef<HTMLDivElement>(null);
  const choices = () => [...menu.current!.querySelectorAll<HTMLElement>('[role="menuitem"]:not(:disabled)')];
  const close = (refocus: boolean) => {
    setOpen(false);
    if (refocus) menu.current?.querySelector("button")?.focus();
  };

  useEffect(() => {
    if (!open) return;
    choices()[0]?.focus();
    const away = (event: Event) => !menu.current?.contains(event.target as Node) && close(false);
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);

  const onKeyDown = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key === "Escape" || event.key === "Tab") close(event.key === "Escape");
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const all = choices();
    const at = all.indexOf(document.activeElement as HTMLElement);
    all[(at + step + all.length) % all.length]?.focus();
  };

  return (
    <div class="menu" ref={menu} onKeyDown={open ? onKeyDown : undefined}>
      <Button
        kind={kind}
        icon={icon}
        label={label}
        compact={compact}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {words}
      </Button>
      {open && (
        <div class={`menu-list from-${side} ${upwards ? "upwards" : ""}`} role="menu" aria-label={label}>
          {items.map((item) => (
            <MenuChoice key={item.words} item={item} chosen={() => close(!item.href)} />
          ))}
        </div>
      )}
    </div>
  );
}

function MenuChoice({ item, chosen }: { item: MenuItem; chosen: () => void }) {
  const inside = (
    <>
      {item.icon && <Icon name={item.icon} />}
      {item.words}
    </>
  );
  const classes = `menu-item ${item.danger ? "danger" : ""}`;
  const act = () => {
    chosen();
    item.act?.();
  };
  return (
    <>
      {item.apart && <div class="menu-rule" role="separator" />}
      {item.href ? (
        <a class={classes} role="menuitem" tabIndex={-1} href={item.href} onClick={chosen}>
          {inside}
        </a>
      ) : (
        <button type="button" class={classes} role="menuitem" tabIndex={-1} disabled={item.disabled} onClick={act}>
          {inside}
        </button>
      )}
    </>
  );
}
