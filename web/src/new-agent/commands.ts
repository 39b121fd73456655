/** Slash commands in a prompt. */
import type { KnownCommand } from "../protocol";

const MOST = 8;

/** The letters of the command that is being typed at the caret, or null. */
export function commandLetters(text: string, caret: number): string | null {
  return /^\/(\S*)$/.exec(text.slice(0, caret))?.[1] ?? null;
}

/** Commands that begin with the letters, then those that contain them. */
export function commandsFor(commands: readonly KnownCommand[], letters: string): KnownCommand[] {
  const wanted = letters.toLowerCase();
  const place = (command: KnownCommand) => command.name.toLowerCase().indexOf(wanted);
  const found = commands.filter((command) => place(command) >= 0);
  return found.sort((one, other) => Number(place(one) > 0) - Number(place(other) > 0)).slice(0, MOST);
}
