import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { NOTHING_LISTED } from "../list";
import type { Overview } from "../protocol";
import { list } from "../store";
import { click, drawn } from "../test-support/mount";
import { FakeManager } from "../test-support/fake-manager";
import { Trust } from "./Trust";

let manager: FakeManager;
const tell = (trusted: boolean) => {
  list.value = { ...NOTHING_LISTED, overview: { project: "/home/ada/sums", trusted } as Overview };
};

beforeEach(async () => {
  manager = new FakeManager();
  await manager.welcome();
});

afterEach(() => vi.unstubAllGlobals());

it("trusting a project sends the path that is shown", async () => {
  tell(false);
  const place = await drawn(<Trust />);
  expect(place.textContent).toContain("/home/ada/sums");
  await click(place, "Trust this project");
  expect(manager.of("trust_project")).toEqual([{ kind: "trust_project", path: "/home/ada/sums" }]);
});

it("a trusted project shows no notice", async () => {
  tell(true);
  expect((await drawn(<Trust />)).textContent).toBe("");
});
