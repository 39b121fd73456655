import { describe, expect, it } from "vitest";
import { approvalText, commandText, visibleLine, visibleText, withoutAnsi } from "./visible-text";

describe("showing untrusted text", () => {
  it.each([
    ["bidirectional overrides", "a\u202eb", "a<U+202E>b"],
    ["isolates", "\u2066x\u2069", "<U+2066>x<U+2069>"],
    ["zero-width characters", "a\u200bb\ufeff", "a<U+200B>b<U+FEFF>"],
    ["tags", "a\u{e0041}", "a<U+E0041>"],
    ["control characters", "a\u001b[31m\u0007", "a␛[31m␇"],
    ["C1", "a\u009bb", "a\ufffdb"],
    ["lone surrogates", "a\ud800b", "a<U+D800>b"],
    ["lone carriage returns", "safe\rrm", "safe␍rm"],
    ["line ends", "a\r\nb", "a\nb"],
    ["emoji selectors", "rm a\ufe0f ☀\ufe0f 1\ufe0f\u20e3", "rm a<U+FE0F> ☀\ufe0f 1\ufe0f\u20e3"],
    ["ordinary text", "Grüße, 東京 🏰 👩\u200d💻\n\tend", "Grüße, 東京 🏰 👩\u200d💻\n\tend"],
  ])("%s", (_, text, shown) => expect(visibleText(text)).toBe(shown));

  it("private-use characters are spelled out in approvals", () => {
    expect([visibleText("a\ue000"), approvalText("a\ue000")]).toEqual(["a\ue000", "a<U+E000>"]);
  });

  it("long runs of spaces are marked or counted", () => {
    expect(commandText("ls    x")).toBe("ls␣␣␣␣x");
    expect(commandText("ls   x")).toBe("ls   x");
    expect(commandText(`ls${" ".repeat(200)}; rm`)).toBe("ls<200 blanks>; rm");
    expect(commandText("ls \nrm\t")).toBe("ls␣\nrm␉");
    expect(commandText("rm a\u00a0b\u3000")).toBe("rm a<U+00A0>b<U+3000>");
    expect(commandText(`ls${"\u2003".repeat(300)}; rm`)).toBe("ls<300 blanks>; rm");
    expect(commandText("ls\r\nrm")).toBe("ls␍\nrm");
  });

  it("long runs of blank lines are counted", () => {
    expect(commandText("ls\n\n\nrm")).toBe("ls\n\n\nrm");
    expect(commandText(`ls${"\n".repeat(300)}rm`)).toBe("ls\n<299 blank lines>\nrm");
    expect(commandText(`${" \t\r\n".repeat(50)}rm`)).toBe("<50 blank lines>\nrm");
  });

  it("a name is one line", () => expect(visibleLine("a\nb\tc")).toBe("a␊b␉c"));

  it("escape sequences are removed from command output", () => {
    expect(withoutAnsi("\u001b[1;32mok\u001b[0m \u001b]0;title\u0007done")).toBe("ok done");
  });
});
