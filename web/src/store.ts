/** What the page knows: the list, which it always follows, and the tasks it is looking at. */
import { computed, effect, signal } from "@preact/signals";
import { connection } from "./connection";
import { changedList, inOrder, NOTHING_LISTED, type SessionList } from "./list";
import type { ListChange, SessionChange, SessionRow } from "./protocol";
import type { Following } from "./rpc";
import { versionNumbers } from "./sessions/finding";
import { TaskView } from "./view";

const FIRST_ROWS = 200;
const MORE_ROWS = 200;
const LONGEST_WAIT = 5_000;

export const list = signal<SessionList>(NOTHING_LISTED);
/** Whether the list was told at all yet. */
export const listTold = signal(false);
export const sessions = computed(() => inOrder(list.value));
/** Which version each session is, if it is one of several. */
export const versions = computed(() => versionNumbers(sessions.value));
export const inbox = computed(() => list.value.inbox);
export const overview = computed(() => list.value.overview);

export function sessionOf(id: string): SessionRow | undefined {
  return list.value.rows.get(id);
}

export function followList(): Following {
  let stale = true;
  return connection.follow("follow_list", {}, {
    restart: () => {
      stale = true;
    },
    hear: (news) => {
      list.value = changedList(stale ? NOTHING_LISTED : list.value, news as ListChange);
      listTold.value = true;
      stale = false;
    },
    ended: () => undefined,
  });
}

/** The manager looks for sessions of a terminal when somebody comes back to the page. */
export function refreshOnFocus(): void {
  addEventListener("focus", () => void connection.call("refresh").catch(() => undefined));
}

export interface FollowedTask {
  view: TaskView;
  /** Bring rows from before the window. It is done when they are here. */
  widen(): Promise<void>;
  stop(): void;
}

/** Follows a session's task, or one that works for it. */
export function followTask(session_id: string, task_id?: string): FollowedTask {
  const view = new TaskView();
  const about = { session_id, ...(task_id ? { task_id } : {}), tail: FIRST_ROWS };
  const following = connection.follow("follow_session", about, {
    restart: () => view.restart(),
    hear: (news) => view.apply(news as SessionChange),
    ended: (problem) => {
      view.ended.value = problem;
    },
  });
  return {
    view,
    widen: async () => {
      const before = view.earlier.value;
      await following.ask("widen", { most: MORE_ROWS });
      await until(() => view.earlier.value !== before);
    },
    stop: following.stop,
  };
}

/** Until something is so; but not for ever, because it may never be told. */
function until(holds: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(finish, LONGEST_WAIT);
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
