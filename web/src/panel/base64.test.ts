import { expect, test } from "vitest";
import { fromBase64, toBase64 } from "./base64";

test("any bytes survive the round trip", () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  expect(fromBase64(toBase64(bytes))).toEqual(bytes);
  expect(toBase64(new Uint8Array())).toBe("");
});
