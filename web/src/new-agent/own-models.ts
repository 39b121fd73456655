/** Model names that the user typed and no list contains; offered again later. */
import { loadValue, saveValue } from "../storage";
import type { KnownModel } from "../protocol";
import { type Form, modelName } from "./form";

const STORAGE_KEY = "new-agent.own-models";
const MAX = 6;

export function ownModels(): readonly string[] {
  const found = loadValue<unknown>(STORAGE_KEY, []);
  return Array.isArray(found) ? found.filter((each) => typeof each === "string").slice(0, MAX) : [];
}

/** Remembers the model names of a submitted form. */
export function saveOwnModels(form: Form, offered: readonly KnownModel[]): void {
  const known = new Set(offered.map(modelName));
  const named = [form.model, ...form.models.slice(0, form.versions)].filter((name) => name !== "" && !known.has(name));
  if (named.length) saveValue(STORAGE_KEY, [...new Set([...named, ...ownModels()])].slice(0, MAX));
}
