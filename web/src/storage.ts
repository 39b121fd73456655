/** Values stored in this browser. If storage is full or disabled, nothing is stored. */
import { projectPath } from "./routes";

const PREFIX = "rookery.";
/** Values that hold for all projects. */
const SHARED = new Set(["theme", "alerts", "review.view", "new-agent.own-models"]);

export function loadValue<T>(key: string, fallback: T): T {
  try {
    const text = localStorage.getItem(storageKey(key));
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

export function saveValue(key: string, value: unknown): void {
  try {
    if (value === undefined) localStorage.removeItem(storageKey(key));
    else localStorage.setItem(storageKey(key), JSON.stringify(value));
  } catch {
    // storage is full or disabled
  }
}

function storageKey(key: string): string {
  return PREFIX + (SHARED.has(key) ? "" : projectPath().replace(/^\/(p\/)?/, "")) + key;
}
