import { expect, it } from "vitest";

import { EVERYTHING, isEverything, mayBeMore, traceRequest } from "./trace-filter";

it("requests the filtered records and how many", () => {
  expect(traceRequest({ intent: "INT-1", path: " src/a.ts ", sessionId: "s" }, 200)).toEqual({
    intent: "INT-1",
    path: "src/a.ts",
    session_id: "s",
    most: 200,
  });
});

it("offers more only if there may be more", () => {
  expect(mayBeMore(100, 100)).toBe(true);
  expect(mayBeMore(99, 100)).toBe(false);
  expect(mayBeMore(1000, 1000)).toBe(false);
});

it("recognises an empty filter", () => {
  expect(isEverything(EVERYTHING)).toBe(true);
  expect(isEverything({ ...EVERYTHING, path: "  " })).toBe(true);
  expect(isEverything({ ...EVERYTHING, intent: "x" })).toBe(false);
});
