import { act } from "preact/test-utils";
import { expect, it } from "vitest";
import { click, drawn } from "../testing/drawn";
import { shortened, Toasts, toast } from "./toast";

it("hashes and references are told short", () => {
  const hash = "0123456789".repeat(4);
  expect(shortened(`Kept as refs/rookery/keep/a-1 (${hash}).`)).toBe("Kept as a-1 (0123456789).");
});

it("something can be done about what is told, once", async () => {
  const place = await drawn(<Toasts />);
  let undone = 0;
  await act(() => toast("Archived.", "usual", { words: "Undo", act: () => undone++ }));
  await click(place, "Undo");
  expect([undone, place.textContent]).toEqual([1, ""]);
});
