import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { NOTHING_LISTED } from "../list";
import type { Overview } from "../protocol";
import { list } from "../store";
import { click, mount } from "../test-support/mount";
import { FakeManager } from "../test-support/fake-manager";
import { Trust } from "./Trust";

let manager: FakeManager;
const setTrusted = (trusted: boolean) => {
  list.value = { ...NOTHING_LISTED, overview: { project: "/home/ada/sums", trusted } as Overview };
};

beforeEach(async () => {
  manager = new FakeManager();
  await manager.connect();
});

afterEach(() => vi.unstubAllGlobals());

it("trusting a project sends the path that is shown", async () => {
  setTrusted(false);
  const place = await mount(<Trust />);
  expect(place.textContent).toContain("/home/ada/sums");
  await click(place, "Trust this project");
  expect(manager.requestsOf("trust_project")).toEqual([{ kind: "trust_project", path: "/home/ada/sums" }]);
});

it("a trusted project shows no notice", async () => {
  setTrusted(true);
  expect((await mount(<Trust />)).textContent).toBe("");
});
