import { expect, it } from "vitest";
import type { FleetListing, FleetSession, FleetWorker } from "../protocol";
import { countsOf, doingOf, isOver, queueName, repositoryName, workersOf } from "./fleet-words";

const slot = (name: string, state = "ready") => ({ name, state }) as FleetWorker;
const session = (state: FleetSession["state"]) => ({ state }) as FleetSession;

it("says that a slot with a waiting session waits", () => {
  const busy = { ...slot("a"), session: "s1" };
  const known = (state: FleetSession["state"]) => [{ ...session(state), session_id: "s1" }];
  expect(doingOf(busy, known("waiting"))).toBe("waiting");
  expect(doingOf(busy, known("running"))).toBe("working");
  expect(doingOf({ ...slot("a"), session: "" }, known("waiting"))).toBe("ready");
});

it("counts the machines that are there, not their slots", () => {
  expect(workersOf([slot("a"), slot("a"), slot("b"), slot("c", "lost")])).toBe(2);
});

it("says how many sessions are not listed", () => {
  const fleet = { sessions: [session("queued")], more: 0 } as unknown as FleetListing;
  expect(countsOf(fleet)).toBe("1 session");
  expect(countsOf({ ...fleet, more: 9 })).toBe("the newest 1 of 10");
});

it("names the queue without a label", () => {
  const queue = { label: "", queued: 0, running: 0, waiting: 0, slots: 0 };
  expect([queueName(queue), queueName({ ...queue, label: "gpu" })]).toEqual(["any worker", "gpu"]);
});

it("offers to cancel only what has not ended", () => {
  expect((["queued", "running", "waiting", "completed", "failed", "cancelled"] as const).filter((each) => isOver(session(each)))).toEqual([
    "completed",
    "failed",
    "cancelled",
  ]);
});

it("shortens the address of a repository to what tells it apart", () => {
  const addresses = ["https://git.example/team/app.git", "git@git.example:team/app.git", "/srv/team/app.git/"];
  expect(addresses.map(repositoryName)).toEqual(["team/app.git", "team/app.git", "team/app.git"]);
});
