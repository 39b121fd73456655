import { expect, test } from "vitest";
import { fittingWidth, readPanelState } from "./panel-state";

test.each([
  [null, { open: false, tab: "changes", width: 440 }],
  [{ open: true, tab: "terminal", width: 500 }, { open: true, tab: "terminal", width: 500 }],
  [{ open: "yes", tab: "nonsense", width: "wide" }, { open: false, tab: "changes", width: 440 }],
  [{ open: true, tab: "plan", width: 10 }, { open: true, tab: "plan", width: 320 }],
])("a stored state %j is read as %j", (stored, read) => {
  expect(readPanelState(stored)).toEqual(read);
});

test.each([
  [500, 1200, 500],
  [900, 1200, 840],
  [100, 1200, 320],
  [500, 400, 320],
])("of a width of %i in %i, %i are used", (width, room, used) => {
  expect(fittingWidth(width, room)).toBe(used);
});
