/** Completes a slash command at the beginning of the prompt. Commands are the project's templates. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { request } from "../connection";
import type { KnownCommand } from "../protocol";
import { useCompletion } from "../session/completion";
import { visibleLine } from "../visible-text";
import { commandsFor, commandLetters } from "./commands";

export function useCommandPicker(field: { current: HTMLTextAreaElement | null }, write: (text: string) => void) {
  const letters = useSignal<string | null>(null);
  const known = useSignal<readonly KnownCommand[] | null>(null);
  const asked = letters.value !== null;
  useEffect(() => {
    if (!asked || known.value) return;
    request("list_commands", {}).then(
      (found) => (known.value = found),
      () => (known.value = []),
    );
  }, [asked]);

  const stop = () => (letters.value = null);
  const update = () => {
    const area = field.current!;
    letters.value = commandLetters(area.value, area.selectionStart);
  };
  /** Begins a command, for a click. */
  const open = () => {
    const area = field.current!;
    if (!area.value.startsWith("/")) write(`/${area.value}`);
    letters.value = "";
    area.focus();
  };
  const completion = useCompletion({
    field,
    write,
    label: "Commands",
    options: letters.value === null ? [] : commandsFor(known.value ?? [], letters.value),
    nameOf: (command) => command.name,
    draw: (command) => (
      <>
        <b>/{visibleLine(command.name)}</b>
        <span class="cut quiet">{visibleLine(command.description)}</span>
      </>
    ),
    completed: (text, { name }) => {
      const whole = `/${name} ${text.replace(/^\/\S*\s?/, "")}`;
      return { text: whole, caret: whole.length };
    },
    stop,
  });
  return { update, stop, open, ...completion };
}
