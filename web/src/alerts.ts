/**
 * Alerts the user when a session needs them and the page is in the background: in the page title
 * and, if enabled, with a browser notification.
 */
import { effect, signal } from "@preact/signals";
import { connection, request } from "./connection";
import { loadValue, saveValue } from "./storage";
import type { InboxRow } from "./protocol";
import { go, route } from "./routes";
import { inbox, list, listLoaded } from "./store";
import { visibleLine } from "./visible-text";

const KEY = "alerts";
const TITLE = "rookery";

export const NOTIFY_SETTING = "manager.notify";

/** The switch of this browser. */
export const alertsOn = signal(false);
/** The user setting, which applies to every browser. */
const notifySetting = signal(true);

export async function loadNotifySetting(): Promise<void> {
  const settings = await request("read_settings", {}).catch(() => []);
  notifySetting.value = settings.find((row) => row.key === NOTIFY_SETTING)?.value !== "false";
}

export function alertsPossible(): boolean {
  return "Notification" in globalThis && isSecureContext;
}

/** Call it from a click: browsers ask for permission only then. Returns an error message, or "". */
export async function switchAlerts(on: boolean): Promise<string> {
  if (on && !alertsPossible()) return "This browser shows notifications only over https or on localhost.";
  if (on && (await Notification.requestPermission()) !== "granted") {
    return "Notifications are blocked for this page. Allow them in the browser’s settings.";
  }
  alertsOn.value = on;
  saveValue(KEY, on);
  return "";
}

export function startAlerts(): void {
  alertsOn.value = loadValue(KEY, false) && alertsPossible() && Notification.permission === "granted";
  effect(() => {
    const waiting = inbox.value.length;
    const name = "session_id" in route.value ? list.value.rows.get(route.value.session_id)?.name : "";
    document.title = [waiting && `(${waiting})`, name && `${visibleLine(name)} ·`, TITLE].filter(Boolean).join(" ");
  });
  effect(() => {
    if (connection.status.value === "open") void loadNotifySetting();
  });
  let seen: Set<string> | null = null;
  effect(() => {
    const rows = inbox.value;
    if (!listLoaded.value) return;
    const fresh = newRows(rows, seen);
    seen = new Set(rows.map(nameOf));
    if (alertsOn.value && notifySetting.value && document.hidden) fresh.forEach(alert);
  });
}

/** Inbox rows that were not there before. None on the first call, when `seen` is null. */
export function newRows(rows: readonly InboxRow[], seen: ReadonlySet<string> | null): InboxRow[] {
  return seen ? rows.filter((row) => !seen.has(nameOf(row))) : [];
}

function nameOf(row: InboxRow): string {
  return `${row.session_id}/${row.task_id}/${row.ts}`;
}

function alert(row: InboxRow): void {
  const shown = new Notification(visibleLine(row.name), { body: sentenceOf(row), tag: row.session_id });
  shown.onclick = () => {
    focus();
    go({ page: "session", session_id: row.session_id });
    shown.close();
  };
}

function sentenceOf(row: InboxRow): string {
  switch (row.state) {
    case "waiting_approval":
      return row.title ? `Needs approval: ${visibleLine(row.title)}` : "Needs your approval.";
    case "waiting_input":
      return "Has a question for you.";
    case "completed":
      return "Done.";
    case "error":
      return "Failed.";
    default:
      return "Needs your attention.";
  }
}
