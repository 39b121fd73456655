import { afterEach, expect, it } from "vitest";
import { actFor, type Keys, listenToKeys, SHORTCUTS, useKeys } from "./keys";
import { drawn } from "./testing/drawn";

const pressed: string[] = [];
const keysFor = (...names: string[]): Keys => Object.fromEntries(names.map((name) => [name, () => pressed.push(name)]));

function Holder({ keys }: { keys: Keys }) {
  useKeys(keys);
  return null;
}

function press(keys: string, pause = 10): string[] {
  let at = 1_000_000 * (1 + pressed.length);
  pressed.length = 0;
  for (const key of keys.split(" ")) actFor(key, (at += pause))?.();
  return [...pressed];
}

afterEach(() => drawn(null));

it("keys do what they are held for, alone or one after the other", async () => {
  await drawn(<Holder keys={keysFor("j", "g i", "g g")} />);
  expect(press("j")).toEqual(["j"]);
  expect(press("j g i")).toEqual(["j", "g i"]);
  expect(press("g g")).toEqual(["g g"]);
  expect(press("g j")).toEqual(["j"]);
  expect(press("x")).toEqual([]);
  expect(press("g i", 2_000)).toEqual([]);
});

it("what is nearest holds its keys first, and gives them back", async () => {
  const outer: string[] = [];
  const outside = { a: () => outer.push("a"), b: () => outer.push("b") };
  const both = (inside: boolean) => (
    <>
      <Holder keys={outside} />
      {inside && <Holder keys={keysFor("a")} />}
    </>
  );
  await drawn(both(true));
  press("a b");
  expect(outer).toEqual(["b"]);
  await drawn(both(false));
  press("a");
  expect(outer).toEqual(["b", "a"]);
});

it("do nothing while something is edited, wherever the focus is", async () => {
  listenToKeys();
  const form = (editing: boolean) => (
    <>
      <Holder keys={keysFor("j")} />
      <div data-editing={editing || undefined} />
    </>
  );
  const typed = () => {
    pressed.length = 0;
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
    return [...pressed];
  };
  await drawn(form(true));
  expect(typed()).toEqual([]);
  await drawn(form(false));
  expect(typed()).toEqual(["j"]);
});

it("no key is told twice", () => {
  for (const { keys } of SHORTCUTS) expect(new Set(keys.map(([key]) => key)).size).toBe(keys.length);
});
