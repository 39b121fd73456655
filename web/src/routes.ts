/** The route of the page. It is stored in the fragment of the address, so that links work. */
import { computed, signal } from "@preact/signals";

export type Route =
  | { page: "home" | "inbox" | "new" | "governance" | "settings" | "worktrees" }
  | { page: "session" | "review" | "checkpoints"; session_id: string }
  | { page: "task"; session_id: string; task_id: string }
  | { page: "versions"; group_id: string };

const PLAIN_PAGES = new Set(["inbox", "new", "governance", "settings", "worktrees"] as const);
const fragment = signal(globalThis.location?.hash ?? "");

export const route = computed(() => routeOf(fragment.value));

/** An unknown route is home. */
export function routeOf(hash: string): Route {
  const [name = "", id = "", part = "", rest = ""] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (name === "session" && id) {
    if (part === "review" || part === "checkpoints") return { page: part, session_id: id };
    if (part === "task" && rest) return { page: "task", session_id: id, task_id: rest };
    return { page: "session", session_id: id };
  }
  if (name === "versions" && id) return { page: "versions", group_id: id };
  return isPlainPage(name) ? { page: name } : { page: "home" };
}

export function hrefOf(to: Route): string {
  switch (to.page) {
    case "home":
      return "#/";
    case "session":
      return `#/session/${encodeURIComponent(to.session_id)}`;
    case "review":
    case "checkpoints":
      return `#/session/${encodeURIComponent(to.session_id)}/${to.page}`;
    case "task":
      return `#/session/${encodeURIComponent(to.session_id)}/task/${encodeURIComponent(to.task_id)}`;
    case "versions":
      return `#/versions/${encodeURIComponent(to.group_id)}`;
    default:
      return `#/${to.page}`;
  }
}

export function go(to: Route): void {
  location.hash = hrefOf(to);
}

export function watchAddress(): void {
  const update = () => {
    fragment.value = location.hash;
  };
  update();
  addEventListener("hashchange", update);
}

function isPlainPage(name: string): name is "inbox" {
  return (PLAIN_PAGES as Set<string>).has(name);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
