import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { actFor, type Keys, listenToKeys, SHORTCUTS, useKeys } from "./keys";
import { mount } from "./test-support/mount";

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

afterEach(() => mount(null));

it("a shortcut runs its action, as one key or as a pair", async () => {
  await mount(<Holder keys={keysFor("j", "g i", "g g")} />);
  expect(press("j")).toEqual(["j"]);
  expect(press("j g i")).toEqual(["j", "g i"]);
  expect(press("g g")).toEqual(["g g"]);
  expect(press("g j")).toEqual(["j"]);
  expect(press("x")).toEqual([]);
  expect(press("g i", 2_000)).toEqual([]);
});

it("the innermost component gets a key first and releases it when unmounted", async () => {
  const outer: string[] = [];
  const outside = { a: () => outer.push("a"), b: () => outer.push("b") };
  const both = (inside: boolean) => (
    <>
      <Holder keys={outside} />
      {inside && <Holder keys={keysFor("a")} />}
    </>
  );
  await mount(both(true));
  press("a b");
  expect(outer).toEqual(["b"]);
  await mount(both(false));
  press("a");
  expect(outer).toEqual(["b", "a"]);
});

beforeAll(listenToKeys);

it("shortcuts do nothing while something is being edited, wherever the focus is", async () => {
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
  await mount(form(true));
  expect(typed()).toEqual([]);
  await mount(form(false));
  expect(typed()).toEqual(["j"]);
});

it("no shortcut is listed twice", () => {
  for (const { keys } of SHORTCUTS) expect(new Set(keys.map(([key]) => key)).size).toBe(keys.length);
});

describe("keys pressed on the page", () => {
  let at = 10_000_000;

  /** Presses keys with a pause in milliseconds between them, then waits a second. */
  function typed(keys: string, apart = 50, more: KeyboardEventInit = {}): string[] {
    pressed.length = 0;
    vi.useFakeTimers();
    at += 10_000;
    for (const key of keys) {
      const event = new KeyboardEvent("keydown", { key, bubbles: true, ...more });
      Object.defineProperty(event, "timeStamp", { value: (at += apart) });
      document.body.dispatchEvent(event);
      vi.advanceTimersByTime(apart);
    }
    vi.advanceTimersByTime(1_000);
    vi.useRealTimers();
    return [...pressed];
  }

  it.each(["stop", "yes", "rename it", "as easy as that", "a test", "ads"])("do nothing if they are typed as words: %s", async (words) => {
    await mount(<Holder keys={keysFor("a", "s", "e", "y", "d", "t", "h", "c")} />);
    expect(typed(words)).toEqual([]);
  });

  it("act if they are pressed alone", async () => {
    await mount(<Holder keys={keysFor("a", "s", "j", "g i")} />);
    expect(typed("a")).toEqual(["a"]);
    expect(typed("jjj")).toEqual(["j", "j", "j"]);
    expect(typed("gi")).toEqual(["g i"]);
    expect(typed("as", 2_000)).toEqual(["a", "s"]);
  });

  it("act once if they are pressed twice quickly", async () => {
    await mount(<Holder keys={keysFor("a")} />);
    expect(typed("aa")).toEqual(["a"]);
  });

  it("do nothing while they are held", async () => {
    await mount(<Holder keys={keysFor("a", "j")} />);
    expect(typed("aj", 2_000, { repeat: true })).toEqual([]);
  });

  it("do nothing if they were pressed before the component appeared", async () => {
    at = 0;
    await mount(<Holder keys={keysFor("a")} />);
    const event = new KeyboardEvent("keydown", { key: "a", bubbles: true });
    Object.defineProperty(event, "timeStamp", { value: performance.now() - 50 });
    pressed.length = 0;
    vi.useFakeTimers();
    document.body.dispatchEvent(event);
    vi.advanceTimersByTime(1_000);
    vi.useRealTimers();
    expect(pressed).toEqual([]);
  });
});
