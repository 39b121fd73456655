import { expect, it } from "vitest";

import { withFiles } from "./pictures";

const picture = (name: string, type = "image/png", content = "x") => new File([content], name, { type });

it("reads images as data URIs", async () => {
  const { images, problems } = await withFiles([], [picture("a.png")]);
  expect(images).toEqual([`data:image/png;base64,${btoa("x")}`]);
  expect(problems).toEqual([]);
});

it("accepts four images at most and says so", async () => {
  const { images, problems } = await withFiles(["1", "2", "3"], [picture("a.png"), picture("b.png")]);
  expect(images).toHaveLength(4);
  expect(problems).toEqual(["A message can have at most 4 images."]);
});

it("skips files that are no images or too large", async () => {
  const large = picture("large.png", "image/png", "x".repeat(5 * 1024 * 1024 + 1));
  const { images, problems } = await withFiles([], [picture("a.svg", "image/svg+xml"), large, picture("b.png")]);
  expect(images).toHaveLength(1);
  expect(problems).toEqual([
    "a.svg is not a supported image (PNG, JPEG, GIF or WebP).",
    "large.png is larger than 5 MB.",
  ]);
});
