import { render } from "preact";
import { describe, expect, it } from "vitest";
import { breakable } from "./breakable";

function drawn(text: string): HTMLElement {
  const place = document.createElement("div");
  render(<p>{breakable(text)}</p>, place);
  return place;
}

describe("a text that others wrote", () => {
  it.each(["", "a few words", "x".repeat(499)])("is left alone where it can be broken: %s", (text) => {
    expect(drawn(text).innerHTML).toBe(`<p>${text}</p>`);
  });

  it("can be broken where it has no blanks, and stays the same text", () => {
    const text = `before ${"x".repeat(1700)} after`;
    const place = drawn(text);
    expect(place.textContent).toBe(text);
    expect(place.querySelectorAll("wbr").length).toBe(3);
  });
});
