import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { SessionRow } from "../protocol";
import { click, mount, press, type } from "../test-support/mount";
import { FakeManager } from "../test-support/fake-manager";
import { QueuedMessages } from "./QueuedMessages";

const row = { session_id: "s1", undelivered: [] as unknown[] } as SessionRow;
const queue = [{ message_id: "m1", text: "Mind the linter", images: [] }];
let manager: FakeManager;

beforeEach(async () => {
  manager = new FakeManager();
  await manager.connect();
});

afterEach(() => vi.unstubAllGlobals());

it("an edited message gets the focus and the keys, and Enter saves it", async () => {
  const place = await mount(<QueuedMessages row={row} queue={queue} />);
  await click(place, "Edit");
  const field = place.querySelector("textarea")!;
  expect([document.activeElement, field.value]).toEqual([field, "Mind the linter"]);
  expect(field.closest("[data-editing]")).not.toBeNull();
  await type(field, "Mind the types");
  await press(field, "Enter");
  await vi.waitFor(() => expect(place.querySelector("textarea")).toBeNull());
  expect(manager.requestsOf("edit_queued")).toMatchObject([{ session_id: "s1", message_id: "m1", text: "Mind the types" }]);
});

it("Escape cancels the edit", async () => {
  const place = await mount(<QueuedMessages row={row} queue={queue} />);
  await click(place, "Edit");
  await type(place.querySelector("textarea")!, "Other words");
  await press(place.querySelector("textarea")!, "Escape");
  expect(place.textContent).toContain("Mind the linter");
  expect(manager.requests).toEqual([]);
});
