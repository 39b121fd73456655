/** Which tab stands beside the conversation, and how wide it is; remembered in this browser. */
import { signal } from "@preact/signals";
import { PANELS, type PanelName } from "../routes";
import { loadValue, saveValue } from "../storage";

export interface PanelState {
  readonly open: boolean;
  readonly tab: PanelName;
  readonly width: number;
}

export const MIN_WIDTH = 320;
export const USUAL_WIDTH = 440;
/** The conversation keeps at least this much. */
export const MIN_REST = 360;
const KEY = "panel";

export const panelState = signal<PanelState>(readPanelState(loadValue<unknown>(KEY, null)));

/** The stored state, where it makes sense. */
export function readPanelState(stored: unknown): PanelState {
  const { open, tab, width } = (stored ?? {}) as Partial<Record<keyof PanelState, unknown>>;
  return {
    open: open === true,
    tab: PANELS.find((each) => each === tab) ?? "changes",
    width: typeof width === "number" && Number.isFinite(width) ? Math.max(MIN_WIDTH, width) : USUAL_WIDTH,
  };
}

export function changePanel(change: Partial<PanelState>): void {
  panelState.value = { ...panelState.value, ...change };
  saveValue(KEY, panelState.value);
}

/** A width that leaves room for the conversation, `room` being the room for both. */
export function fittingWidth(width: number, room: number): number {
  return Math.round(Math.max(MIN_WIDTH, Math.min(width, room - MIN_REST)));
}
