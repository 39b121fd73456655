import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./icons";
import { Spinner } from "./small";

export type ButtonProps = {
  children?: ComponentChildren;
  /** Required without children: describes the icon. */
  label?: string;
  icon?: IconName;
  kind?: "usual" | "primary" | "danger" | "plain";
  compact?: boolean;
  /** In progress; disabled meanwhile. */
  busy?: boolean;
} & Omit<JSX.IntrinsicElements["button"], "icon" | "label" | "kind" | "class">;

export function Button({ children, label, icon, kind = "usual", compact, busy, disabled, ...rest }: ButtonProps) {
  const alone = children === undefined || children === null;
  const classes = ["button", kind, compact && "compact", alone && "square"].filter(Boolean).join(" ");
  return (
    <button
      type="button"
      {...rest}
      class={classes}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      aria-label={label}
      title={rest.title ?? label}
    >
      {busy ? <Spinner /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A link that looks like a button. */
export function LinkButton({
  children,
  label,
  icon,
  href,
  kind = "usual",
  compact,
}: {
  children?: ComponentChildren;
  label?: string;
  icon?: IconName;
  href: string;
  kind?: ButtonProps["kind"];
  compact?: boolean;
}) {
  const classes = ["button", kind, compact && "compact", children === undefined && "square"];
  return (
    <a class={classes.filter(Boolean).join(" ")} href={href} aria-label={label} title={label}>
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}
