import { describe, expect, it } from "vitest";
import { hrefOf, type Route, routeOf } from "./routes";

const ROUTES: Route[] = [
  { page: "home" },
  { page: "inbox" },
  { page: "new" },
  { page: "governance" },
  { page: "settings" },
  { page: "worktrees" },
  { page: "session", session_id: "a1" },
  { page: "review", session_id: "a/1 #" },
  { page: "checkpoints", session_id: "ü" },
  { page: "task", session_id: "a1", task_id: "t2" },
  { page: "versions", group_id: "g1" },
];

describe("routes", () => {
  it.each(ROUTES)("survive a round trip through the address: %o", (place) => {
    expect(routeOf(hrefOf(place))).toEqual(place);
  });
  it.each(["", "#", "#/", "#/nowhere", "#/session", "#/session/", "#/versions", "#/%E0%A4%A", "#main"])(
    "that are unknown lead home: %s",
    (hash) => expect(routeOf(hash)).toEqual({ page: "home" }),
  );
});
