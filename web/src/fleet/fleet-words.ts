import { counted } from "../format";
import type { FleetListing, FleetQueue, FleetSession, FleetWorker } from "../protocol";
import type { Tone } from "../ui";

const TONES: Record<FleetSession["state"], Tone> = {
  queued: "rest",
  running: "accent",
  waiting: "careful",
  completed: "good",
  failed: "bad",
  cancelled: "rest",
  unreadable: "bad",
};

export function toneOf(state: FleetSession["state"]): Tone {
  return TONES[state];
}

export function queuedWords({ label }: Pick<FleetSession, "label">): string {
  return label ? `It starts when a worker with the label “${label}” is free.` : "It starts when a worker is free.";
}

/** The last two parts of its address, which tell repositories apart. */
export function repositoryName(address: string): string {
  return address.split(/[/:]/).filter(Boolean).slice(-2).join("/");
}

/** The number of machines: each has several slots. */
export function workersOf(slots: readonly FleetWorker[]): number {
  return new Set(slots.filter((each) => each.state !== "lost").map((each) => each.name)).size;
}

/** What a slot does. One with a waiting session takes no other. */
export function doingOf(slot: FleetWorker, sessions: readonly FleetSession[]): string {
  if (slot.state !== "ready" || !slot.session) return slot.state;
  const waits = sessions.some((each) => each.session_id === slot.session && each.state === "waiting");
  return waits ? "waiting" : "working";
}

export function queueName(queue: FleetQueue): string {
  return queue.label || "any worker";
}

export function countsOf(fleet: FleetListing): string {
  const all = fleet.sessions.length + fleet.more;
  return fleet.more ? `the newest ${fleet.sessions.length} of ${all}` : counted(all, "session");
}

/** Whether the session has ended, so that nothing can be answered or cancelled. */
export function isOver(session: FleetSession): boolean {
  return ["completed", "failed", "cancelled"].includes(session.state);
}
