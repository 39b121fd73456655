/** The state of the page: the list of sessions, always followed, and the tasks on screen. */
import { computed, effect, signal } from "@preact/signals";
import { connection } from "./connection";
import { changedList, inOrder, NOTHING_LISTED, type SessionList } from "./list";
import type { ListChange, SessionChange, SessionRow } from "./protocol";
import type { Subscription } from "./rpc";
import { versionNumbers } from "./sessions/session-groups";
import { TaskView } from "./view";

const FIRST_ROWS = 200;
const MORE_ROWS = 200;
const MAX_WAIT = 5_000;

export const list = signal<SessionList>(NOTHING_LISTED);
/** Whether the list has arrived. */
export const listLoaded = signal(false);
export const sessions = computed(() => inOrder(list.value));
/** Version numbers by session; only sessions with several versions have one. */
export const versions = computed(() => versionNumbers(sessions.value));
export const inbox = computed(() => list.value.inbox);
export const overview = computed(() => list.value.overview);

export function sessionOf(id: string): SessionRow | undefined {
  return list.value.rows.get(id);
}

export function followList(): Subscription {
  let stale = true;
  return connection.follow("follow_list", {}, {
    restart: () => {
      stale = true;
    },
    onMessage: (change) => {
      list.value = changedList(stale ? NOTHING_LISTED : list.value, change as ListChange);
      listLoaded.value = true;
      stale = false;
    },
    ended: () => undefined,
  });
}

/** Asks the manager to look for sessions started in a terminal. */
export function refreshOnFocus(): void {
  addEventListener("focus", () => void connection.call("refresh").catch(() => undefined));
}

export interface FollowedTask {
  view: TaskView;
  /** Loads earlier rows. Resolves when they have arrived. */
  widen(): Promise<void>;
  stop(): void;
}

/** Follows a session's task, or one of its sub-tasks. */
export function followTask(session_id: string, task_id?: string): FollowedTask {
  return followRows("follow_session", { session_id, ...(task_id ? { task_id } : {}) });
}

/** Follows a session of the fleet. */
export function followFleet(session_id: string): FollowedTask {
  return followRows("follow_fleet", { session_id });
}

function followRows(method: string, about: object): FollowedTask {
  const view = new TaskView();
  const subscription = connection.follow(method, { ...about, tail: FIRST_ROWS }, {
    restart: () => view.restart(),
    onMessage: (change) => view.apply(change as SessionChange),
    ended: (problem) => {
      view.ended.value = problem;
    },
  });
  return {
    view,
    widen: async () => {
      const before = view.earlier.value;
      await subscription.ask("widen", { most: MORE_ROWS });
      await waitUntil(() => view.earlier.value !== before);
    },
    stop: subscription.stop,
  };
}

/** Resolves when the condition holds, or after a timeout in case the change never arrives. */
function waitUntil(holds: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(finish, MAX_WAIT);
    const stop = effect(() => {
      if (holds()) queueMicrotask(finish);
    });
    function finish(): void {
      clearTimeout(timer);
      stop();
      resolve();
    }
  });
}
