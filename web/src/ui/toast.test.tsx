import { act } from "preact/test-utils";
import { expect, it } from "vitest";
import { click, mount } from "../test-support/mount";
import { Toasts, toast } from "./toast";

it("a toast's action runs once", async () => {
  const place = await mount(<Toasts />);
  let undone = 0;
  await act(() => toast("Archived.", "usual", { words: "Undo", act: () => undone++ }));
  await click(place, "Undo");
  expect([undone, place.textContent]).toEqual([1, ""]);
});
