/** The words on the chips of a new session. */
import { type Form, originOf, whereItRuns } from "./form";

export type ChipId = "place" | "versions" | "model" | "mode" | "more";

export function chipWords(form: Form, modes: readonly { slug: string; name: string }[]): Record<ChipId, string> {
  return {
    place: placeWords(form),
    versions: form.versions === 1 ? "1 version" : `${form.versions} versions`,
    model: modelWords(form),
    mode: form.mode ? (modes.find((mode) => mode.slug === form.mode)?.name ?? form.mode) : "Default mode",
    more: form.label.trim() || form.intent || "More",
  };
}

function placeWords(form: Form): string {
  if (whereItRuns(form) === "local") return "Project";
  switch (originOf(form)) {
    case "new-branch":
      return form.versions > 1 ? "New worktrees" : form.branch.trim() || "New worktree";
    case "existing-branch":
      return form.existingBranch || "Choose a branch";
    case "existing-worktree":
      return form.worktreeId ? "Existing worktree" : "Choose a worktree";
  }
}

function modelWords(form: Form): string {
  const used = new Set(form.models.slice(0, form.versions).map((model) => model || form.model));
  if (form.versions > 1 && used.size > 1) return `${used.size} models`;
  const [model = ""] = form.versions > 1 ? used : [form.model];
  return model.slice(model.indexOf("/") + 1) || "Default model";
}
