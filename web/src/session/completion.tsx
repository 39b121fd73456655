import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId } from "preact/hooks";
import "./completion.css";

interface Completion<T> {
  field: { current: HTMLTextAreaElement | null };
  write: (text: string) => void;
  /** The name of the list. */
  label: string;
  options: readonly T[];
  nameOf: (option: T) => string;
  draw: (option: T) => ComponentChildren;
  /** The text with the option in it, and where the caret is then. */
  completed: (text: string, option: T) => { text: string; caret: number };
  stop: () => void;
}

/** Completes what is typed in a field, with a list above it for the keys and the pointer. */
export function useCompletion<T>({ field, write, label, options, nameOf, draw, completed, stop }: Completion<T>) {
  const at = useSignal(0);
  const id = useId();
  const names = options.map(nameOf).join("\n");
  useEffect(() => {
    at.value = 0;
  }, [names]);
  const choose = (option: T) => {
    const area = field.current!;
    const { text, caret } = completed(area.value, option);
    // at once: a key that is pressed before the page is drawn again comes after it
    area.value = text;
    area.setSelectionRange(caret, caret);
    write(text);
    stop();
  };
  /** Whether the key was for the list. */
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (!options.length) return false;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[event.key];
    if (step) at.value = (at.value + step + options.length) % options.length;
    else if (event.key === "Escape") stop();
    else if ((event.key === "Enter" && !event.ctrlKey && !event.metaKey) || event.key === "Tab") {
      choose(options[at.value] ?? options[0]!);
    } else return false;
    event.preventDefault();
    return true;
  };
  const list = options.length > 0 && (
    <ul class="path-list" id={id} role="listbox" aria-label={label}>
      {options.map((option, place) => (
        <li
          key={nameOf(option)}
          id={`${id}-${place}`}
          class="path-choice"
          role="option"
          aria-selected={place === at.value}
          onPointerDown={(event) => {
            event.preventDefault(); // the field keeps the focus
            choose(option);
          }}
        >
          {draw(option)}
        </li>
      ))}
    </ul>
  );
  const attributes = options.length
    ? ({ "aria-controls": id, "aria-activedescendant": `${id}-${at.value}`, "aria-autocomplete": "list" } as const)
    : {};
  return { onKeyDown, list, attributes };
}
