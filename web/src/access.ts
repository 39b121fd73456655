/**
 * Gets the page's access token. The link that opened the page carries a one-time code in its
 * fragment, which browsers send to no server. The code is exchanged for a token and removed from
 * the address. All tabs share the token, and it outlives the manager.
 */
export const TOKEN = "rookery.token";
const DEVICE = "rookery.device";

export type Code = { how: "launch" | "pair"; code: string };

export function codeIn(fragment: string): Code | null {
  const found = /^#(launch|pair)=([\w-]+)$/.exec(fragment);
  return found ? { how: found[1] as Code["how"], code: found[2]! } : null;
}

export function storedToken(): string | null {
  return localStorage.getItem(TOKEN);
}

/** The id of this browser in the list of devices. */
export function deviceId(): string {
  return localStorage.getItem(DEVICE) ?? "";
}

/** `forgotten`: the manager does not know this browser. `stranger`: this is not the manager. */
export type Proof = "known" | "forgotten" | "stranger";

/**
 * Asks the server to prove that it knows the token. Another program may have taken the port of the
 * manager, and must not get the token.
 */
export async function askForProof(): Promise<Proof> {
  // without https there is no cryptography in the browser, except on this machine
  if (!crypto.subtle) return "known";
  const nonce = crypto.randomUUID();
  const answer = await post("/api/prove", { device_id: localStorage.getItem(DEVICE) ?? "", nonce });
  if (answer?.status === 401) return "forgotten";
  const { proof } = ((await answer?.json().catch(() => null)) ?? {}) as { proof?: string };
  return proof && (await isProof(proof, `${location.origin} ${nonce}`)) ? "known" : "stranger";
}

async function isProof(proof: string, challenge: string): Promise<boolean> {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const secret = await crypto.subtle.digest("SHA-256", bytes(storedToken() ?? ""));
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const given = Uint8Array.from(proof.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return crypto.subtle.verify("HMAC", key, given, bytes(challenge));
}

function post(path: string, body: object): Promise<Response | null> {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => null);
}

/** Throws an `Error` with a message for the user if the code is rejected. */
export async function exchange({ how, code }: Code): Promise<void> {
  const before = how === "launch" ? { device_id: localStorage.getItem(DEVICE) ?? "" } : {};
  const answer = await post(`/api/${how}`, { code, name: deviceName(navigator.userAgent), ...before });
  if (!answer) throw new Error("Cannot reach the manager. Is `rookery manager` still running?");
  if (!answer.ok) throw new Error("This link has expired or was already used. Each link works once.");
  const { token, device_id } = (await answer.json()) as { token: string; device_id: string };
  localStorage.setItem(DEVICE, device_id);
  localStorage.setItem(TOKEN, token);
}

const DEVICES: [RegExp, string][] = [
  [/iPhone/, "iPhone"],
  [/iPad/, "iPad"],
  [/Android.*Mobile/, "Android phone"],
  [/Android/, "Android tablet"],
  [/Mac OS X/, "Mac"],
  [/Windows/, "Windows"],
  [/Linux/, "Linux"],
];
const BROWSERS: [RegExp, string][] = [
  [/Firefox|FxiOS/, "Firefox"],
  [/Edg/, "Edge"],
  [/Chrom|CriOS/, "Chrome"],
  [/Safari/, "Safari"],
];

/** The name of this device in the list of paired devices. */
export function deviceName(agent: string): string {
  const named = (table: [RegExp, string][]) => table.find(([mark]) => mark.test(agent))?.[1];
  return [named(DEVICES) ?? "A device", named(BROWSERS)].filter(Boolean).join(", ");
}
