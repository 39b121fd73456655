/** The page's connection, always to the server that served the page. */
import { askForProof, storedToken } from "./access";
import type { Answers, Refusal, Requests } from "./protocol";
import { projectPath } from "./routes";
import { CONNECTION_LOST, Connection, Refused, type Socket } from "./rpc";

export { Refused } from "./rpc";

/** UTF-16 units. The server accepts frames of 1 MiB, and a unit takes at most three bytes. */
const MAX_FRAME_LENGTH = 300_000;
const TOO_LARGE = "This message is too large. Remove some images, or use smaller ones.";

export const connection = new Connection(openSocket, storedToken, askForProof);

function openSocket(): Socket {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return new WebSocket(`${scheme}://${location.host}${projectPath()}ws`) as unknown as Socket;
}

/** Sends a request to the manager. Throws `Refused`, whose message is for the user. */
export async function request<K extends keyof Requests>(
  kind: K,
  fields: Requests[K],
): Promise<Answers[K]> {
  const text = JSON.stringify({ kind, ...fields });
  if (text.length > MAX_FRAME_LENGTH) return (await upload(text)) as Answers[K];
  return connection.request(kind, fields);
}

export function call(method: string, params: object = {}): Promise<unknown> {
  return connection.call(method, params);
}

/** Sends a request over HTTP; images do not fit into a WebSocket frame. */
async function upload(body: string): Promise<unknown> {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${storedToken()}` };
  const answer = await fetch(`${projectPath()}api/do`, { method: "POST", headers, body }).catch(() => null);
  if (!answer) throw new Refused(CONNECTION_LOST);
  if (answer.status === 401) connection.refuse();
  if (answer.status === 413) throw new Refused(TOO_LARGE);
  const reply = (await answer.json().catch(() => ({}))) as { error?: Refusal };
  if (!answer.ok) throw new Refused(reply.error?.message ?? `The manager refused the request (${answer.status}).`);
  return reply;
}
