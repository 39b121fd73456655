import { afterEach, describe, expect, it, vi } from "vitest";
import { askForProof, codeIn, deviceName, exchange, storedToken } from "./access";

const answering = (status: number, body: unknown) =>
  vi.fn(async (_path: string, _request: RequestInit) => new Response(JSON.stringify(body), { status }));

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

  it("is exchanged for a token that all tabs share", async () => {
    const fetch = answering(200, { token: "t", device_id: "1" });
    vi.stubGlobal("fetch", fetch);
    await exchange({ how: "launch", code: "c" });
    await exchange({ how: "launch", code: "d" });
    const sent = fetch.mock.calls.map(([path, { body }]) => [path, JSON.parse(body as string)]);
    expect(sent).toEqual([
      ["/api/launch", { code: "c", name: expect.any(String), device_id: "" }],
      ["/api/launch", { code: "d", name: expect.any(String), device_id: "1" }],
    ]);
    expect([sessionStorage.length, storedToken()]).toEqual([0, "t"]);
  });

  it("is rejected with a clear message if it was already used", async () => {
    vi.stubGlobal("fetch", answering(401, {}));
    await expect(exchange({ how: "launch", code: "c" })).rejects.toThrow("already used");
    expect(storedToken()).toBeNull();
  });
});

describe("before the token is sent", () => {
  /** A server that knows the token `known`, at an origin. */
  const serverWith = (known: string, origin: string) =>
    vi.fn(async (_path: string, { body }: RequestInit) => {
      const { nonce } = JSON.parse(body as string) as { nonce: string };
      const bytes = (text: string) => new TextEncoder().encode(text);
      const secret = await crypto.subtle.digest("SHA-256", bytes(known));
      const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
      const proof = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(`${origin} ${nonce}`)));
      return new Response(JSON.stringify({ proof: [...proof].map((byte) => byte.toString(16).padStart(2, "0")).join("") }));
    });

  it.each([
    ["the manager", serverWith("t", location.origin), "known"],
    ["a manager at another port", serverWith("t", "http://127.0.0.1:1"), "stranger"],
    ["a program that does not know the token", serverWith("x", location.origin), "stranger"],
    ["a program with another answer", answering(200, {}), "stranger"],
    ["a web page", vi.fn(async () => new Response("<p>")), "stranger"],
    ["nothing", vi.fn(() => Promise.reject(new Error())), "stranger"],
    ["a manager that forgot this browser", answering(401, {}), "forgotten"],
  ])("%s is asked for a proof", async (_, fetch, found) => {
    localStorage.setItem("rookery.token", "t");
    vi.stubGlobal("fetch", fetch);
    expect(await askForProof()).toBe(found);
  });
});

it.each([
  ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Mobile Safari/604.1", "iPhone, Safari"],
  ["Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/130.0 Mobile Safari/537.36", "Android phone, Chrome"],
  ["Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "Linux, Firefox"],
  ["something else", "A device"],
])("a device is named after its system and browser: %s", (agent, name) => expect(deviceName(agent)).toBe(name));
