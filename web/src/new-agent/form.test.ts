import { beforeEach, describe, expect, it } from "vitest";

import type { KnownModel } from "../protocol";
import {
  EMPTY,
  type Form,
  modelNote,
  problemOf,
  remember,
  rememberPrompt,
  remembered,
  requestOf,
  startWords,
  withModel,
  withOffered,
} from "./form";

const form = (more: Partial<Form>): Form => ({ ...EMPTY, prompt: "Do it", ...more });
const model = (name: string, more: Partial<KnownModel> = {}): KnownModel => ({
  provider: "p",
  model: name,
  window: 0,
  images: false,
  reasons: false,
  price_in: null,
  price_out: null,
  ...more,
});

beforeEach(() => localStorage.clear());

describe("validation of the form", () => {
  it.each([
    ["an empty prompt", form({ prompt: " \n" }), "Write a prompt, or add an image."],
    ["an image is enough", form({ prompt: "", images: ["data:"] }), null],
    ["a long label", form({ label: "x".repeat(41) }), "A name can have at most 40 characters."],
    [
      "no branch chosen",
      form({ where: "worktree", origin: "existing-branch" }),
      "Choose a branch.",
    ],
    [
      "no worktree chosen",
      form({ where: "worktree", origin: "existing-worktree" }),
      "Choose a worktree.",
    ],
    ["local needs no branch", form({ origin: "existing-branch" }), null],
    ["versions create their branches", form({ origin: "existing-branch", versions: 2 }), null],
  ])("%s", (_, filled, problem) => {
    expect(problemOf(filled)).toBe(problem);
  });
});

describe("the request", () => {
  it("of a local session has no branch", () => {
    const request = requestOf(form({ base: "main", branch: "x", worktreeId: "w" }));
    expect(request).toMatchObject({ where: "local", versions: 1, models: [], auto_approve: false });
    expect(request).not.toHaveProperty("base");
    expect(request).not.toHaveProperty("branch");
    expect(request).not.toHaveProperty("worktree_id");
  });

  it.each([
    ["new-branch", { base: "main", branch: "fix" }],
    ["existing-branch", { branch: "old" }],
    ["existing-worktree", { worktree_id: "w" }],
  ] as const)("in a worktree with %s names only that", (origin, place) => {
    const filled = form({
      where: "worktree",
      origin,
      base: "main",
      branch: " fix ",
      existingBranch: "old",
      worktreeId: "w",
    });
    const { base, branch, worktree_id } = requestOf(filled);
    expect(JSON.parse(JSON.stringify({ base, branch, worktree_id }))).toEqual(place);
  });

  it("for several versions uses worktrees, each with its own model or the common one", () => {
    const filled = withModel(form({ versions: 3, model: "p/a" }), 1, "p/b");
    expect(requestOf(filled)).toMatchObject({
      where: "worktree",
      versions: 3,
      models: ["p/a", "p/b", "p/a"],
    });
    expect(startWords(filled)).toBe("Start 3 versions");
  });

  it("allows only what the user allowed", () => {
    const allowed = [null, false, true].map((autoApprove) => requestOf(form({ autoApprove })).auto_approve);
    expect(allowed).toEqual([false, false, true]);
  });

  it("names no models if all versions use the same", () => {
    expect(requestOf(form({ versions: 2, model: "p/a" })).models).toEqual([]);
  });
});

describe("the remembered form", () => {
  it("keeps choices, but no prompt and no approval", () => {
    remember(form({ versions: 2, autoApprove: true, label: "l", intent: "i" }));
    expect(remembered()).toEqual({ ...EMPTY, versions: 2 });
  });

  it("keeps the prompt until it was sent", () => {
    rememberPrompt("half a thought");
    expect(remembered().prompt).toBe("half a thought");
    rememberPrompt("");
    expect(remembered()).toEqual(EMPTY);
  });

  it.each(["{", "null", "7", '{"versions":"many","models":[1],"where":null}'])(
    "is empty if the stored value is damaged: %s",
    (text) => {
      localStorage.setItem("rookery.new-agent.choices", text);
      expect(remembered()).toEqual(EMPTY);
    },
  );

  it.each([
    [0, 1],
    [9, 4],
    [2.7, 2],
  ])("limits the number of versions: %d", (stored, versions) => {
    localStorage.setItem("rookery.new-agent.choices", JSON.stringify({ versions: stored }));
    expect(remembered().versions).toBe(versions);
  });

  it("drops models and modes that are no longer offered", () => {
    const filled = form({ model: "p/gone", models: ["p/a", "p/gone", "", ""], mode: "gone" });
    expect(withOffered(filled, [model("a")], ["code"])).toMatchObject({
      model: "",
      models: ["p/a", "", "", ""],
      mode: "",
    });
  });
});

it("shows a model's context window and price", () => {
  expect(modelNote(model("a", { window: 200_000, price_in: 3, price_out: 15 }))).toBe(
    "200k tokens, $3 in, $15 out per million tokens",
  );
  expect(modelNote(model("a"))).toBe("");
});
