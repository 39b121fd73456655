/** Formats numbers and times. */
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function money(dollars: number): string {
  if (!dollars) return "$0";
  if (dollars < 0.01) return "<1¢";
  return `$${dollars.toFixed(dollars < 100 ? 2 : 0)}`;
}

export function tokens(count: number): string {
  if (count < 1000) return String(count);
  if (count < 999_500) return `${significant(count / 1000)}k`;
  return `${significant(count / 1_000_000)}M`;
}

export function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return counted(Math.floor(hours / 24), "day");
}

/** Elapsed time, short enough for a list. */
export function ago(then: number, now: number): string {
  const passed = now - then;
  if (passed < MINUTE) return "now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h`;
  if (passed < 7 * DAY) return `${Math.floor(passed / DAY)} d`;
  const date = new Date(then);
  const year = date.getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString(undefined, { day: "numeric", month: "short", year });
}

export function moment(then: number): string {
  return new Date(then).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function clock(then: number): string {
  return new Date(then).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count.toLocaleString()} ${count === 1 ? noun : plural}`;
}

function significant(number: number): string {
  return number < 9.95 ? number.toFixed(1).replace(/\.0$/, "") : Math.round(number).toLocaleString();
}

/** The last part of a path. */
export function folderName(path: string): string {
  return path.split(/[\\/]/).filter(Boolean).pop() ?? "";
}
