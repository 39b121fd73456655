/**
 * Gets the page's access token. The link that opened the page carries a one-time code in its
 * fragment, which browsers send to no server. The code is exchanged for a token and removed from
 * the address.
 */
const TOKEN = "rookery.token";

export type Code = { how: "launch" | "pair"; code: string };

export function codeIn(fragment: string): Code | null {
  const found = /^#(launch|pair)=([\w-]+)$/.exec(fragment);
  return found ? { how: found[1] as Code["how"], code: found[2]! } : null;
}

export function storedToken(): string | null {
  return sessionStorage.getItem(TOKEN) ?? localStorage.getItem(TOKEN);
}

/** Throws an `Error` with a message for the user if the code is rejected. */
export async function exchange({ how, code }: Code): Promise<void> {
  const body = how === "launch" ? { code } : { code, name: deviceName(navigator.userAgent) };
  const answer = await fetch(`/api/${how}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => null);
  if (!answer) throw new Error("Cannot reach the manager. Is `rookery manager` still running?");
  if (!answer.ok) throw new Error("This link has expired or was already used. Each link works once.");
  const { token } = (await answer.json()) as { token: string };
  // a paired phone keeps its token; a launched page keeps it until the tab is closed
  (how === "pair" ? localStorage : sessionStorage).setItem(TOKEN, token);
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
