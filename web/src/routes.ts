/** The route of the page. It is stored in the fragment of the address, so that links work. */
import { computed, signal } from "@preact/signals";

export type Route =
  | { page: "home" | "inbox" | "new" | "governance" | "cost" | "schedules" | "settings" | "worktrees" | "fleet" }
  | { page: "session"; session_id: string; panel?: PanelName }
  | { page: "review"; session_id: string }
  | { page: "task"; session_id: string; task_id: string }
  | { page: "versions"; group_id: string }
  | { page: "fleet_session"; session_id: string };

/** The tabs beside a conversation. */
export const PANELS = ["changes", "plan", "terminal", "checkpoints", "preview"] as const;
export type PanelName = (typeof PANELS)[number];

const PLAIN_PAGES = new Set(["inbox", "new", "governance", "cost", "schedules", "settings", "worktrees", "fleet"] as const);
const fragment = signal(globalThis.location?.hash ?? "");

export const route = computed(() => routeOf(fragment.value));

/** An unknown route is home. */
export function routeOf(hash: string): Route {
  const [name = "", id = "", part = "", rest = ""] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (name === "session" && id) {
    if (part === "review") return { page: part, session_id: id };
    const panel = PANELS.find((each) => each === part);
    if (panel) return { page: "session", session_id: id, panel };
    if (part === "task" && rest) return { page: "task", session_id: id, task_id: rest };
    return { page: "session", session_id: id };
  }
  if (name === "fleet" && id) return { page: "fleet_session", session_id: id };
  if (name === "versions" && id) return { page: "versions", group_id: id };
  return isPlainPage(name) ? { page: name } : { page: "home" };
}

export function hrefOf(to: Route): string {
  switch (to.page) {
    case "home":
      return "#/";
    case "session":
      return `#/session/${encodeURIComponent(to.session_id)}${to.panel ? `/${to.panel}` : ""}`;
    case "review":
      return `#/session/${encodeURIComponent(to.session_id)}/review`;
    case "task":
      return `#/session/${encodeURIComponent(to.session_id)}/task/${encodeURIComponent(to.task_id)}`;
    case "fleet_session":
      return `#/fleet/${encodeURIComponent(to.session_id)}`;
    case "versions":
      return `#/versions/${encodeURIComponent(to.group_id)}`;
    default:
      return `#/${to.page}`;
  }
}

/** The address of the project: one server serves all projects of the user. */
export function projectPath(): string {
  return /^\/p\/[0-9a-f]{16}\//.exec(location.pathname)?.[0] ?? "/";
}

export function hrefIn(project_id: string, to: Route): string {
  return `/p/${project_id}/${hrefOf(to)}`;
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
