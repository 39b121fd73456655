import { render } from "preact";
import { describe, expect, it } from "vitest";
import { breakable } from "./breakable";

function drawn(text: string): HTMLElement {
  const place = document.createElement("div");
  render(<p>{breakable(text)}</p>, place);
  return place;
}

describe("untrusted text", () => {
  it.each(["", "a few words", "x".repeat(499)])("is unchanged if it has line break opportunities: %s", (text) => {
    expect(drawn(text).innerHTML).toBe(`<p>${text}</p>`);
  });

  it("gets line break opportunities in long words, and stays the same text", () => {
    const text = `before ${"x".repeat(1700)} after`;
    const place = drawn(text);
    expect(place.textContent).toBe(text);
    expect(place.querySelectorAll("wbr").length).toBe(3);
  });
});
