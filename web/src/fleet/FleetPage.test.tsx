import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { FleetListing, FleetSession, Row } from "../protocol";
import { FakeManager } from "../test-support/fake-manager";
import { button, click, mount } from "../test-support/mount";
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
  question: '{"tool":"x"}',
  digest: "d1",
  result: "",
  reason: "",
  code: "tool",
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

const followed = async (...rows: Row[]) => {
  await manager.waitForCall("follow_fleet");
  manager.notify("view", { follow_id: 1, seq: 9, earlier: 0, change: { added: rows } });
};

it("shows the diff of what it asks to approve, and answers once, and nothing else", async () => {
  const place = await mount(<FleetSessionPage session_id="s1" />);
  await followed({ ts: 7, type: "ask", ask: "tool", text: '{"tool":"x"}', digest: "d1", title: "Create one.txt", diff: "+one" });
  await vi.waitFor(() => expect(place.querySelector(".ask-panel")!.textContent).toContain("Create one.txt?+one"));
  expect(button(place, "Approve").disabled).toBe(true);
  place.querySelector(".ask-scroll")!.dispatchEvent(new Event("scroll"));
  await vi.waitFor(() => expect(button(place, "Approve").disabled).toBe(false));
  await click(place, "Approve");
  await vi.waitFor(() => expect(place.textContent).toContain("Answer sent."));
  await click(place, "Approve");
  expect(manager.requestsOf("answer_fleet_session")).toMatchObject([{ id: "s1", reply: "yes", digest: "d1" }]);
});

it("offers the suggestions of a question, and no yes or no", async () => {
  const question = '{"question":"Round up?","suggest":[{"answer":"Up"}]}';
  manager.answers.list_fleet = { ...fleet, sessions: [{ ...waiting, code: "followup", question, digest: "d2" }] };
  const place = await mount(<FleetSessionPage session_id="s1" />);
  await vi.waitFor(() => expect(place.textContent).toContain("Round up?"));
  expect([...place.querySelectorAll(".ask-panel button")].map((each) => each.textContent)).toEqual(["Up", ""]);
  await click(place, "Up");
  await vi.waitFor(() =>
    expect(manager.requestsOf("answer_fleet_session")).toMatchObject([{ reply: "message", text: "Up", digest: "d2" }]),
  );
});

it("says what a queued session waits for", async () => {
  manager.answers.list_fleet = { ...fleet, sessions: [{ ...waiting, state: "queued", question: "", digest: "" }] };
  const place = await mount(<FleetSessionPage session_id="s1" />);
  await vi.waitFor(() => expect(place.textContent).toContain("when a worker with the label “gpu” is free"));
});
