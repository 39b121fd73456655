/** Filters for the records of the ledger. */
import type { Requests } from "../protocol";

export interface TraceFilter {
  readonly intent: string;
  readonly path: string;
  readonly sessionId: string;
}

export const EVERYTHING: TraceFilter = { intent: "", path: "", sessionId: "" };
export const RECORDS_AT_ONCE = 100;
/** The manager returns at most this many. */
export const MAX_RECORDS = 1_000;

export function traceRequest(filter: TraceFilter, most: number): Requests["read_trace"] {
  return { intent: filter.intent, path: filter.path.trim(), session_id: filter.sessionId, most };
}

/** A full page means that there may be more. */
export function mayBeMore(shown: number, most: number): boolean {
  return shown >= most && most < MAX_RECORDS;
}

export function isEverything(filter: TraceFilter): boolean {
  return filter.intent === "" && filter.path.trim() === "" && filter.sessionId === "";
}
