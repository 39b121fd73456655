/** The state of the form for a new session: validation, request, and what is remembered. */
import { loadValue, saveValue } from "../storage";
import type { KnownModel, Requests } from "../protocol";

export const MAX_VERSIONS = 4;
export const MAX_IMAGES = 4;
export const MAX_LABEL_LENGTH = 40;

export type Origin = "new-branch" | "existing-branch" | "existing-worktree";

export interface Form {
  readonly prompt: string;
  /** Data URIs. */
  readonly images: readonly string[];
  readonly label: string;
  readonly where: "local" | "worktree";
  readonly versions: number;
  readonly model: string;
  /** One per version; "" means `model`. */
  readonly models: readonly string[];
  readonly mode: string;
  readonly origin: Origin;
  readonly base: string;
  /** The name of the new branch; "" derives it from the prompt. */
  readonly branch: string;
  readonly existingBranch: string;
  readonly worktreeId: string;
  /** Null until the settings are loaded; null means ask. */
  readonly autoApprove: boolean | null;
  readonly intent: string;
}

export const EMPTY: Form = {
  prompt: "",
  images: [],
  label: "",
  where: "local",
  versions: 1,
  model: "",
  models: ["", "", "", ""],
  mode: "",
  origin: "new-branch",
  base: "",
  branch: "",
  existingBranch: "",
  worktreeId: "",
  autoApprove: null,
  intent: "",
};

/** Several versions need a worktree and a branch each. */
export function whereItRuns(form: Form): "local" | "worktree" {
  return form.versions > 1 ? "worktree" : form.where;
}

export function originOf(form: Form): Origin {
  return form.versions > 1 ? "new-branch" : form.origin;
}

/** What the user must correct before the session can start, or null. */
export function problemOf(form: Form): string | null {
  if (form.prompt.trim() === "" && form.images.length === 0) {
    return "Write a prompt, or add an image.";
  }
  if (form.label.length > MAX_LABEL_LENGTH) {
    return `A name can have at most ${MAX_LABEL_LENGTH} characters.`;
  }
  if (whereItRuns(form) === "local") return null;
  if (originOf(form) === "existing-branch" && form.existingBranch === "") {
    return "Choose a branch.";
  }
  if (originOf(form) === "existing-worktree" && form.worktreeId === "") {
    return "Choose a worktree.";
  }
  return null;
}

export function requestOf(form: Form): Requests["start_sessions"] {
  return {
    prompt: form.prompt,
    images: [...form.images],
    label: form.label.trim(),
    where: whereItRuns(form),
    versions: form.versions,
    model: form.model,
    models: modelsOf(form),
    mode: form.mode,
    auto_approve: form.autoApprove === true,
    intent: form.intent,
    ...(whereItRuns(form) === "worktree" ? placeOf(form) : {}),
  };
}

function placeOf(form: Form): Pick<Requests["start_sessions"], "base" | "branch" | "worktree_id"> {
  switch (originOf(form)) {
    case "new-branch":
      return { base: form.base, branch: form.branch.trim() };
    case "existing-branch":
      return { branch: form.existingBranch };
    case "existing-worktree":
      return { worktree_id: form.worktreeId };
  }
}

function modelsOf(form: Form): string[] {
  const chosen = form.models.slice(0, form.versions);
  const differ = form.versions > 1 && chosen.some((model) => model !== "");
  return differ ? chosen.map((model) => model || form.model) : [];
}

export function withModel(form: Form, version: number, model: string): Form {
  return { ...form, models: form.models.map((was, at) => (at === version ? model : was)) };
}

/** The model's name in a request. */
export function modelName(model: KnownModel): string {
  return `${model.provider}/${model.model}`;
}

/** Context window and price. */
export function modelNote(model: KnownModel): string {
  const notes: string[] = [];
  if (model.window > 0) notes.push(`${Math.round(model.window / 1000)}k tokens`);
  if (model.price_in != null && model.price_out != null) {
    notes.push(`$${model.price_in} in, $${model.price_out} out per million tokens`);
  }
  return notes.join(", ");
}

export function startWords(form: Form): string {
  return form.versions === 1 ? "Start session" : `Start ${form.versions} versions`;
}

/** Choices to remember for the next session. Prompts and approvals are not remembered. */
const REMEMBERED = [
  "where",
  "versions",
  "model",
  "models",
  "mode",
  "origin",
  "base",
] as const;
const CHOICES = "new-agent.choices";
const DRAFT = "new-agent.prompt";

export function remembered(): Form {
  const prompt = loadValue<unknown>(DRAFT, "");
  return { ...EMPTY, ...storedChoices(), prompt: typeof prompt === "string" ? prompt : "" };
}

export function remember(form: Form): void {
  saveValue(CHOICES, Object.fromEntries(REMEMBERED.map((name) => [name, form[name]])));
}

export function rememberPrompt(prompt: string): void {
  saveValue(DRAFT, prompt || undefined);
}

function storedChoices(): Partial<Form> {
  const found = Object(loadValue<unknown>(CHOICES, {})) as Record<string, unknown>;
  const fitting = REMEMBERED.filter((name) => isLike(EMPTY[name], found[name]));
  const choices = Object.fromEntries(fitting.map((name) => [name, found[name]])) as Partial<Form>;
  return { ...choices, versions: clamped(choices.versions ?? 1) };
}

function isLike(usual: unknown, found: unknown): boolean {
  if (!Array.isArray(usual)) return typeof found === typeof usual;
  const texts = Array.isArray(found) && found.every((each) => typeof each === "string");
  return texts && found.length === usual.length;
}

function clamped(versions: number): number {
  return Math.min(Math.max(Math.trunc(versions) || 1, 1), MAX_VERSIONS);
}

/** Clears choices that are no longer offered. */
export function withOffered(
  form: Form,
  models: readonly KnownModel[],
  modes: readonly string[],
  own: readonly string[] = [],
): Form {
  const names = new Set([...models.map(modelName), ...own]);
  const known = (model: string) => (names.has(model) ? model : "");
  return {
    ...form,
    model: known(form.model),
    models: form.models.map(known),
    mode: modes.includes(form.mode) ? form.mode : "",
  };
}
