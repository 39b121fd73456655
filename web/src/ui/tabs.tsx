import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";

export interface Tab<T extends string> {
  id: T;
  words: ComponentChildren;
}

/** Tabs with the panel of the selected one. */
export function Tabs<T extends string>({
  tabs,
  chosen,
  choose,
  label,
  children,
}: {
  tabs: Tab<T>[];
  chosen: T;
  choose: (id: T) => void;
  label: string;
  children?: ComponentChildren;
}) {
  const id = useId();
  const bar = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = (at + step + tabs.length) % tabs.length;
    choose(tabs[next]!.id);
    bar.current?.querySelectorAll<HTMLElement>('[role="tab"]')[next]?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={bar} onKeyDown={onKeyDown}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            class="tab"
            role="tab"
            id={`${id}-${tab.id}`}
            aria-selected={tab.id === chosen}
            aria-controls={children ? `${id}-panel` : undefined}
            tabIndex={tab.id === chosen ? 0 : -1}
            onClick={() => choose(tab.id)}
          >
            {tab.words}
          </button>
        ))}
      </div>
      {children && (
        <div class="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`}>
          {children}
        </div>
      )}
    </>
  );
}
