// @vitest-environment node
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { typesOf } from "./make-types.mjs";

const SCHEMA = new URL("../../docs/schemas/manager.schema.json", import.meta.url);
const TYPES = new URL("../src/protocol.ts", import.meta.url);

it("the types are those of the protocol; if not: npm run types", () => {
  const schema = JSON.parse(readFileSync(SCHEMA, "utf8"));
  expect(readFileSync(TYPES, "utf8")).toBe(typesOf(schema));
});

it("a schema that says more than is known is refused", () => {
  const schema = { $defs: { request: { anyOf: [] }, odd: { type: "colour" } } };
  expect(() => typesOf(schema)).toThrow("No type is known");
});
