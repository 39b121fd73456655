/** Sends answers. Each names its question and the digest of what was shown. */
import { attempt } from "../attempt";
import type { Requests } from "../protocol";
import type { Suggestion } from "../transcript/row-content";
import type { Ask } from "./ask";

type Choice = NonNullable<Requests["approve_action"]["choice"]>;

export function approve(ask: Ask, how: { always?: boolean; choice?: Choice } = {}): Promise<unknown> {
  const { session_id, ts, digest } = ask;
  return attempt("approve_action", { session_id, ask_ts: ts, digest, ...how });
}

export function reject(ask: Ask, text: string, choice?: Choice): Promise<unknown> {
  const { session_id, ts } = ask;
  return attempt("reject_action", { session_id, ask_ts: ts, text, ...(choice ? { choice } : {}) });
}

export function sendReply(ask: Ask, text: string): Promise<unknown> {
  return attempt("send_words", { session_id: ask.session_id, ask_ts: ask.ts, text });
}

/** A suggestion may switch the mode first. */
export async function choose(ask: Ask, { answer, mode }: Suggestion): Promise<unknown> {
  const { session_id } = ask;
  if (mode && !(await attempt("switch_session", { session_id, mode }))) return null;
  return sendReply(ask, answer);
}

export function retry(ask: Ask): Promise<unknown> {
  return attempt("retry_session", { session_id: ask.session_id });
}
