/** Completes a slash command at the beginning of the prompt. Commands are the project's templates. */
import { useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";

import { request } from "../connection";
import type { KnownCommand } from "../protocol";
import { visibleLine } from "../visible-text";
import { commandsFor, commandLetters } from "./commands";
import "../session/mention-list.css";

export function useCommandPicker(field: { current: HTMLTextAreaElement | null }, write: (text: string) => void) {
  const letters = useSignal<string | null>(null);
  const known = useSignal<readonly KnownCommand[] | null>(null);
  const at = useSignal(0);
  const id = useId();
  const asked = letters.value !== null;
  useEffect(() => {
    if (!asked || known.value) return;
    request("list_commands", {}).then(
      (found) => (known.value = found),
      () => (known.value = []),
    );
  }, [asked]);

  const found = letters.value === null ? [] : commandsFor(known.value ?? [], letters.value);
  const stop = () => (letters.value = null);
  const update = () => {
    const area = field.current!;
    letters.value = commandLetters(area.value, area.selectionStart);
    at.value = 0;
  };
  const choose = (command: KnownCommand) => {
    const area = field.current!;
    const rest = area.value.replace(/^\/\S*\s?/, "");
    const text = `/${command.name} ${rest}`;
    // at once: a key that is pressed before the page is drawn again comes after it
    area.value = text;
    area.setSelectionRange(text.length, text.length);
    write(text);
    stop();
  };
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (!found.length) return false;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[event.key];
    if (step) at.value = (at.value + step + found.length) % found.length;
    else if (event.key === "Escape") stop();
    else if ((event.key === "Enter" && !event.ctrlKey && !event.metaKey) || event.key === "Tab") choose(found[at.value]!);
    else return false;
    event.preventDefault();
    return true;
  };
  /** Begins a command, for a click. */
  const open = () => {
    const area = field.current!;
    if (!area.value.startsWith("/")) write(`/${area.value}`);
    letters.value = "";
    at.value = 0;
    area.focus();
  };
  const list = found.length > 0 && (
    <ul class="path-list" id={id} role="listbox" aria-label="Commands">
      {found.map((command, place) => (
        <li
          key={command.name}
          id={`${id}-${place}`}
          class="path-choice"
          role="option"
          aria-selected={place === at.value}
          onPointerDown={(event) => {
            event.preventDefault(); // the field keeps the focus
            choose(command);
          }}
        >
          <b>/{visibleLine(command.name)}</b>
          <span class="cut quiet">{visibleLine(command.description)}</span>
        </li>
      ))}
    </ul>
  );
  const attributes = found.length
    ? ({ "aria-controls": id, "aria-activedescendant": `${id}-${at.value}`, "aria-autocomplete": "list" } as const)
    : {};
  return { update, stop, open, onKeyDown, list, attributes };
}
