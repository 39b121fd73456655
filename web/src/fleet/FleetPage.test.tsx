import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { FleetListing, FleetSession } from "../protocol";
import { FakeManager } from "../test-support/fake-manager";
import { click, mount } from "../test-support/mount";
import FleetPage from "./FleetPage";
import FleetSessionPage from "./FleetSessionPage";

const waiting: FleetSession = {
  session_id: "s1",
  state: "waiting",
  label: "gpu",
  repo: "https://git.example/app.git",
  ref: "main",
  text: "Port the kernels",
  worker: "build-1/0/ab",
  question: "make it",
  digest: "d1",
  result: "",
  reason: "",
  code: "",
  created: 0,
  checkpoint: null,
};
const fleet: FleetListing = {
  workers: [{ executor: "build-1/0/ab", name: "build-1", labels: ["gpu"], state: "ready", session: "s1", seconds: 1 }],
  queues: [{ label: "gpu", queued: 7, running: 0, waiting: 1, slots: 1 }],
  sessions: [waiting],
  more: 0,
};
let manager: FakeManager;

beforeEach(async () => {
  manager = new FakeManager();
  manager.answers.list_fleet = fleet;
  manager.answers.follow_fleet = { follow_id: 1 };
  manager.answers.answer_fleet_session = { notes: [] };
  await manager.connect();
});

afterEach(() => vi.unstubAllGlobals());

it("lists workers, queues and sessions, each with a link", async () => {
  const place = await mount(<FleetPage />);
  await vi.waitFor(() => expect(place.textContent).toContain("Port the kernels"));
  expect([...place.querySelectorAll("tbody tr")].map((row) => row.querySelector("th")!.textContent)).toEqual([
    "build-1/0/ab",
    "gpu",
    "Port the kernels",
  ]);
  expect(place.querySelector("a")!.getAttribute("href")).toBe("#/fleet/s1");
});

it("answers the question that it shows, and no other", async () => {
  const place = await mount(<FleetSessionPage session_id="s1" />);
  await vi.waitFor(() => expect(place.textContent).toContain("make it"));
  await click(place, "Yes");
  await vi.waitFor(() =>
    expect(manager.requestsOf("answer_fleet_session")).toMatchObject([{ id: "s1", reply: "yes", digest: "d1" }]),
  );
});
