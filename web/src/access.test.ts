import { afterEach, describe, expect, it, vi } from "vitest";
import { codeIn, deviceName, exchange, storedToken } from "./access";

const answering = (status: number, body: unknown) =>
  vi.fn(async () => new Response(JSON.stringify(body), { status }));

afterEach(() => {
  sessionStorage.clear();
  localStorage.clear();
  vi.unstubAllGlobals();
});

describe("the code in the address", () => {
  it.each([
    ["#launch=aB3-_x", { how: "launch", code: "aB3-_x" }],
    ["#pair=123", { how: "pair", code: "123" }],
    ["#launch=", null],
    ["#launch=a&b=c", null],
    ["#/session/launch=1", null],
    ["", null],
  ])("%s", (fragment, code) => expect(codeIn(fragment)).toEqual(code));

  it("is exchanged for a token that lasts as long as the tab", async () => {
    const fetch = answering(200, { token: "t" });
    vi.stubGlobal("fetch", fetch);
    await exchange({ how: "launch", code: "c" });
    expect(fetch).toHaveBeenCalledWith("/api/launch", expect.objectContaining({ method: "POST", body: '{"code":"c"}' }));
    expect([sessionStorage.length, localStorage.length, storedToken()]).toEqual([1, 0, "t"]);
  });

  it("is exchanged for a token that a paired device keeps", async () => {
    vi.stubGlobal("fetch", answering(200, { token: "d", device_id: "1" }));
    await exchange({ how: "pair", code: "c" });
    expect([sessionStorage.length, localStorage.length, storedToken()]).toEqual([0, 1, "d"]);
  });

  it("is rejected with a clear message if it was already used", async () => {
    vi.stubGlobal("fetch", answering(401, {}));
    await expect(exchange({ how: "launch", code: "c" })).rejects.toThrow("already used");
    expect(storedToken()).toBeNull();
  });
});

it.each([
  ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Mobile Safari/604.1", "iPhone, Safari"],
  ["Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/130.0 Mobile Safari/537.36", "Android phone, Chrome"],
  ["Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "Linux, Firefox"],
  ["something else", "A device"],
])("a device is named after its system and browser: %s", (agent, name) => expect(deviceName(agent)).toBe(name));
