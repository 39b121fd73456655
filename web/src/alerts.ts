/**
 * Alerts the user when a session needs them and the page is in the background: in the page title
 * and, if enabled, with a browser notification.
 */
import { effect, signal } from "@preact/signals";
import { deviceId } from "./access";
import { connection, request } from "./connection";
import { folderName } from "./format";
import { loadValue, saveValue } from "./storage";
import type { InboxRow } from "./protocol";
import { hrefIn, hrefOf, projectPath, route } from "./routes";
import { inbox, list, listLoaded, overview } from "./store";
import { visibleLine } from "./visible-text";

const KEY = "alerts";
const TITLE = "rookery";
const WORKER = "/service-worker.js";

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

/** Whether this browser is woken when the page is closed. */
export const pushOn = signal(false);

export function pushPossible(): boolean {
  return alertsPossible() && "PushManager" in globalThis && "serviceWorker" in navigator;
}

/** Call it from a click. Returns an error message, or "". */
export async function switchPush(on: boolean): Promise<string> {
  const problem = on ? await switchAlerts(true) : "";
  if (problem) return problem;
  try {
    const { pushManager } = await navigator.serviceWorker.ready;
    if (on) {
      const key = await request("read_push_key", {});
      const made = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
      await request("subscribe_push", { device_id: deviceId(), endpoint: made.endpoint });
    } else {
      await request("subscribe_push", { device_id: deviceId(), endpoint: "" });
      await (await pushManager.getSubscription())?.unsubscribe();
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  pushOn.value = on;
  return "";
}

/** Tells the manager the address again, which browsers change. */
async function renewPush(): Promise<void> {
  if (!pushPossible()) return;
  const { pushManager } = await navigator.serviceWorker.ready;
  const made = await pushManager.getSubscription().catch(() => null);
  pushOn.value = made !== null;
  if (made) await request("subscribe_push", { device_id: deviceId(), endpoint: made.endpoint }).catch(() => undefined);
}

export function startAlerts(): void {
  alertsOn.value = loadValue(KEY, false) && alertsPossible() && Notification.permission === "granted";
  effect(() => {
    const others = overview.value?.other_projects ?? [];
    const waiting = others.reduce((sum, each) => sum + each.counts.attention, inbox.value.length);
    const name = "session_id" in route.value ? list.value.rows.get(route.value.session_id)?.name : "";
    const project = folderName(overview.value?.project ?? "");
    const parts = [name, others.length && project, TITLE].filter(Boolean).map((part) => visibleLine(String(part)));
    document.title = `${waiting ? `(${waiting}) ` : ""}${parts.join(" · ")}`;
  });
  effect(() => {
    if (connection.status.value !== "open") return;
    void loadNotifySetting();
    void renewPush();
  });
  let seen: Set<string> | null = null;
  effect(() => {
    if (!listLoaded.value) return;
    const rows = [...inbox.value.map(alertOf), ...elsewhere()];
    const fresh = newAlerts(rows, seen);
    seen = new Set(rows.map((row) => row.id));
    if (alertsOn.value && notifySetting.value && document.hidden) fresh.forEach((row) => void alert(row));
  });
}

interface Alert {
  id: string;
  title: string;
  body: string;
  /** The address of the session. */
  place: string;
}

/** Alerts that were not there before. None on the first call, when `seen` is null. */
export function newAlerts(rows: readonly Alert[], seen: ReadonlySet<string> | null): Alert[] {
  return seen ? rows.filter((row) => !seen.has(row.id)) : [];
}

function alertOf(row: InboxRow): Alert {
  return {
    id: `${row.session_id}/${row.task_id}/${row.ts}`,
    title: visibleLine(row.name),
    body: sentenceOf(row),
    place: projectPath() + hrefOf({ page: "session", session_id: row.session_id }),
  };
}

function elsewhere(): Alert[] {
  return (overview.value?.other_projects ?? []).flatMap((project) =>
    project.waiting.map(({ session_id, name, state }) => ({
      id: `${session_id}/${state}`,
      title: `${visibleLine(name)} · ${visibleLine(project.name)}`,
      body: sentenceOf({ state, title: "" }),
      place: hrefIn(project.id, { page: "session", session_id }),
    })),
  );
}

/** Phones show notifications only through a service worker. */
async function alert({ id, title, body, place }: Alert): Promise<void> {
  const about = { body, tag: id, data: place };
  const worker = await navigator.serviceWorker?.getRegistration();
  if (worker?.active) return worker.showNotification(title, about);
  const shown = new Notification(title, about);
  shown.onclick = () => {
    focus();
    location.href = place;
    shown.close();
  };
}

/** Registers the service worker. The page works without it. */
export function startWorker(): void {
  const workers = isSecureContext ? navigator.serviceWorker : undefined;
  if (!workers) return;
  const policy = window.trustedTypes?.createPolicy("rookery-worker", { createScriptURL: () => WORKER });
  const url = (policy?.createScriptURL(WORKER) ?? WORKER) as string;
  workers.register(url, { updateViaCache: "none" }).catch(() => undefined);
  workers.addEventListener("message", ({ data }) => {
    location.hash = (data as { place: string }).place;
  });
}

function sentenceOf(row: Pick<InboxRow, "state" | "title">): string {
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
