/** Requests to the manager as component state. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { connection, request } from "./connection";
import type { Answers, Requests } from "./protocol";

export interface RequestState<T> {
  readonly answer: T | null;
  /** Why there is no answer, or no newer one. */
  readonly problem: string;
  readonly loading: boolean;
  /** Requests again; the last answer stays until the new one arrives. */
  readonly reload: () => void;
}

/** Sends a request on mount, when its fields change, and after a reconnect. */
export function useRequest<K extends keyof Requests>(
  kind: K,
  fields: Requests[K],
): RequestState<Answers[K]> {
  const key = JSON.stringify([kind, fields]);
  const [reply, setReply] = useState<Reply<Answers[K]>>({ key: "", answer: null, problem: "" });
  const [loading, setLoading] = useState(true);
  const [round, setRound] = useState(0);
  const connected = connection.status.value === "open";

  useEffect(() => {
    if (!connected) return;
    let active = true;
    setLoading(true);
    request(kind, fields)
      .then((answer) => active && setReply({ key, answer, problem: "" }))
      .catch((error: unknown) => {
        if (!active) return;
        setReply((was) => ({ key, answer: was.key === key ? was.answer : null, problem: errorMessage(error) }));
      })
      .finally(() => active && setLoading(false));
    return () => {
      active = false;
    };
  }, [key, round, connected]);

  const reload = useCallback(() => setRound((was) => was + 1), []);
  const current = reply.key === key;
  return {
    answer: current ? reply.answer : null,
    problem: current ? reply.problem : "",
    loading,
    reload,
  };
}

interface Reply<T> {
  readonly key: string;
  readonly answer: T | null;
  readonly problem: string;
}

export function errorMessage(error: unknown): string {
  return error instanceof Error && error.message ? error.message : String(error);
}

/** Runs one task at a time and ignores calls while one is running. Errors go to `failed`. */
export function useAction(failed: (problem: string) => void): Action {
  const [busy, setBusy] = useState(false);
  const running = useRef(false);
  const alive = useRef(true);
  useEffect(
    () => () => {
      alive.current = false;
    },
    [],
  );
  const run = async (work: () => Promise<void>): Promise<void> => {
    if (running.current) return;
    running.current = true;
    setBusy(true);
    try {
      await work();
    } catch (error) {
      failed(errorMessage(error));
    } finally {
      running.current = false;
      if (alive.current) setBusy(false);
    }
  };
  return { busy, run };
}

export interface Action {
  readonly busy: boolean;
  readonly run: (work: () => Promise<void>) => Promise<void>;
}

/** Calls `refresh` when the page becomes visible or gets the focus, and with `everyMs` also periodically. */
export function useRefresh(refresh: () => void, everyMs?: number): void {
  useEffect(() => {
    const refreshIfVisible = () => {
      if (!document.hidden) refresh();
    };
    const timer = everyMs ? setInterval(refreshIfVisible, everyMs) : undefined;
    document.addEventListener("visibilitychange", refreshIfVisible);
    addEventListener("focus", refreshIfVisible);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", refreshIfVisible);
      removeEventListener("focus", refreshIfVisible);
    };
  }, [refresh, everyMs]);
}
