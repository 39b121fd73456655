import { describe, expect, it } from "vitest";
import { hrefIn, hrefOf, projectPath, type Route, routeOf } from "./routes";

const ROUTES: Route[] = [
  { page: "home" },
  { page: "inbox" },
  { page: "new" },
  { page: "governance" },
  { page: "settings" },
  { page: "worktrees" },
  { page: "session", session_id: "a1" },
  { page: "review", session_id: "a/1 #" },
  { page: "session", session_id: "ü", panel: "checkpoints" },
  { page: "task", session_id: "a1", task_id: "t2" },
  { page: "versions", group_id: "g1" },
  { page: "fleet" },
  { page: "fleet_session", session_id: "s1" },
];

it("a link to another project names it", () => {
  expect(hrefIn("0123456789abcdef", { page: "session", session_id: "a 1" })).toBe("/p/0123456789abcdef/#/session/a%201");
});

it.each([
  ["/", "/"],
  ["/index.html", "/"],
  ["/p/0123456789abcdef/", "/p/0123456789abcdef/"],
  ["/p/0123/", "/"],
  ["/p/../0123456789abcdef/", "/"],
])("the project is part of the path: %s", (path, found) => {
  history.replaceState(null, "", path);
  expect(projectPath()).toBe(found);
  history.replaceState(null, "", "/");
});

describe("routes", () => {
  it.each(ROUTES)("survive a round trip through the address: %o", (place) => {
    expect(routeOf(hrefOf(place))).toEqual(place);
  });
  it.each(["", "#", "#/", "#/nowhere", "#/session", "#/session/", "#/versions", "#/%E0%A4%A", "#main"])(
    "that are unknown lead home: %s",
    (hash) => expect(routeOf(hash)).toEqual({ page: "home" }),
  );
});
