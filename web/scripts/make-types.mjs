// Generates src/protocol.ts from the protocol's JSON Schema: node make-types.mjs SCHEMA FILE
// Supports the part of JSON Schema that `rookery.manager.schema` uses, and fails on any other.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

// Names that would shadow those of the browser.
const RENAMED = { Error: "Refusal", Request: "AnyRequest", Image: "Picture", Comment: "LineComment" };
const NOT_TYPES = /_message$/;

export function typesOf(schema) {
  const defs = Object.entries(schema.$defs).filter(([name]) => !NOT_TYPES.test(name));
  const kinds = schema.$defs.request.anyOf.map((each) => each.$ref.split("/").pop());
  return [
    "// Made by `npm run types` from the protocol's schema. Changes belong into the Python classes.",
    ...defs.map(([name, described]) => definition(name, described)),
    tableOf("Requests", kinds, (kind) => typeName(kind)),
    tableOf("Answers", kinds, (kind) => typeName(`answer_to_${kind}`)),
    "",
  ].join("\n\n");
}

function definition(name, described) {
  const head = `${sentence(described.description, "")}export `;
  if (described.properties) return `${head}interface ${typeName(name)} ${typeOf(described, "")}`;
  return `${head}type ${typeName(name)} = ${typeOf(described, "")};`;
}

function tableOf(name, kinds, type) {
  const lines = kinds.map((kind) => `  ${kind}: ${type(kind)};`);
  return [`export interface ${name} {`, ...lines, "}"].join("\n");
}

function typeOf(described, indent) {
  if (described.$ref) return typeName(described.$ref.split("/").pop());
  if (described.anyOf) return unique(described.anyOf.map((each) => typeOf(each, indent)));
  if (described.enum) return unique(described.enum.map((each) => JSON.stringify(each)));
  if ("const" in described) return JSON.stringify(described.const);
  if (Array.isArray(described.type)) return unique(described.type.map((type) => typeOf({ type }, indent)));
  switch (described.type) {
    case undefined:
      return "unknown";
    case "string":
    case "boolean":
    case "null":
      return described.type;
    case "integer":
    case "number":
      return "number";
    case "array": {
      const item = typeOf(described.items, indent);
      return item.includes(" | ") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      return objectOf(described, indent);
    default:
      throw new Error(`No type is known for ${JSON.stringify(described)}.`);
  }
}

function objectOf(described, indent) {
  if (!described.properties) return `Record<string, ${typeOf(described.additionalProperties ?? {}, indent)}>`;
  const needed = new Set(described.required ?? []);
  const inner = `${indent}  `;
  const lines = Object.entries(described.properties).map(
    ([name, each]) =>
      `${sentence(each.description, inner)}${inner}${name}${needed.has(name) ? "" : "?"}: ${typeOf(each, inner)};`,
  );
  return lines.length ? ["{", ...lines, `${indent}}`].join("\n") : "{}";
}

function sentence(words, indent) {
  if (!words) return "";
  return `${indent}/** ${words.replace(/\s+/g, " ").replaceAll("*/", "* /")} */\n`;
}

function unique(types) {
  return [...new Set(types)].join(" | ");
}

function typeName(name) {
  const camel = name.replace(/(^|_)(\w)/g, (_, __, letter) => letter.toUpperCase());
  return RENAMED[camel] ?? camel;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [source, target] = process.argv.slice(2);
  writeFileSync(target, typesOf(JSON.parse(readFileSync(source, "utf8"))));
}
