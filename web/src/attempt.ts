import { request } from "./connection";
import type { Answers, Requests } from "./protocol";
import { toastError, toast } from "./ui";

/** Sends a request for a click and shows its notes as toasts. If it fails, shows why and returns null. */
export async function attempt<K extends keyof Requests>(
  kind: K,
  fields: Requests[K],
): Promise<Answers[K] | null> {
  try {
    const answer = await request(kind, fields);
    const { notes = [], failed = [] } = (answer ?? {}) as { notes?: string[]; failed?: string[] };
    for (const note of notes) toast(note);
    for (const problem of failed) toast(problem, "bad");
    return answer;
  } catch (error) {
    toastError(error);
    return null;
  }
}
