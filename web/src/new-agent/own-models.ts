/** Model names that the user typed and no list contains; offered again later. */
import { keep, kept } from "../storage";
import type { KnownModel } from "../protocol";
import { type Form, modelName } from "./form";

const SHELF = "new-agent.own-models";
const MOST = 6;

export function ownModels(): readonly string[] {
  const found = kept<unknown>(SHELF, []);
  return Array.isArray(found) ? found.filter((each) => typeof each === "string").slice(0, MOST) : [];
}

/** Remembers the model names of a submitted form. */
export function keepOwnModels(form: Form, offered: readonly KnownModel[]): void {
  const known = new Set(offered.map(modelName));
  const named = [form.model, ...form.models.slice(0, form.versions)].filter((name) => name !== "" && !known.has(name));
  if (named.length) keep(SHELF, [...new Set([...named, ...ownModels()])].slice(0, MOST));
}
