// @vitest-environment node
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { typesOf } from "./make-types.mjs";

const SCHEMA = new URL("../../docs/schemas/manager.schema.json", import.meta.url);
const TYPES = new URL("../src/protocol.ts", import.meta.url);

it("src/protocol.ts matches the schema; if not, run: npm run types", () => {
  const schema = JSON.parse(readFileSync(SCHEMA, "utf8"));
  expect(readFileSync(TYPES, "utf8")).toBe(typesOf(schema));
});

it("a schema with an unknown type is rejected", () => {
  const schema = { $defs: { request: { anyOf: [] }, odd: { type: "colour" } } };
  expect(() => typesOf(schema)).toThrow("No type is known");
});
