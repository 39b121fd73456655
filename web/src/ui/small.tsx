import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icons";

export type Tone = "usual" | "accent" | "good" | "careful" | "bad" | "rest";

export function Spinner({ label }: { label?: string }) {
  return <span class="spinner" role={label ? "status" : undefined} aria-label={label} aria-hidden={!label} />;
}

export function Badge({ tone = "usual", icon, children }: { tone?: Tone; icon?: IconName; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone}`}>
      {icon && <Icon name={icon} />}
      {children}
    </span>
  );
}

/** A badge with a number; hidden at zero. */
export function Count({ of, label }: { of: number; label: string }) {
  if (!of) return null;
  return (
    <span class="badge count">
      {of > 99 ? "99+" : of}
      <span class="spoken"> {label}</span>
    </span>
  );
}

export function Key({ children }: { children: string }) {
  return <kbd class="key">{children}</kbd>;
}

/** A highlighted message. */
export function Notice({
  tone = "accent",
  icon = "info",
  children,
}: {
  tone?: "accent" | "careful" | "bad" | "good";
  icon?: IconName;
  children: ComponentChildren;
}) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : undefined}>
      <Icon name={icon} />
      <div class="grow">{children}</div>
    </div>
  );
}

/** Why something failed, if it did. */
export function Problem({ words }: { words: ComponentChildren }) {
  if (!words) return null;
  return (
    <Notice tone="bad" icon="alert">
      {words}
    </Notice>
  );
}

/** A placeholder for an empty list: why it is empty, and what to do. */
export function Empty({ icon, children }: { icon: IconName; children: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={icon} />
      {children}
    </div>
  );
}
