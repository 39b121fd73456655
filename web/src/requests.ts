/** Requests to the manager as component state. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { connection, request } from "./connection";
import type { Answers, Requests } from "./protocol";

export interface Asked<T> {
  readonly answer: T | null;
  /** Why there is no answer, or no newer one. */
  readonly problem: string;
  readonly loading: boolean;
  /** Requests again; the last answer stays until the new one arrives. */
  readonly again: () => void;
}

/** Sends a request on mount, when its fields change, and after a reconnect. */
export function useAnswer<K extends keyof Requests>(
  kind: K,
  fields: Omit<Requests[K], "kind">,
): Asked<Answers[K]> {
  const key = JSON.stringify([kind, fields]);
  const [told, setTold] = useState<Told<Answers[K]>>({ key: "", answer: null, problem: "" });
  const [loading, setLoading] = useState(true);
  const [round, setRound] = useState(0);
  const connected = connection.status.value === "open";

  useEffect(() => {
    if (!connected) return;
    let wanted = true;
    setLoading(true);
    request(kind, fields)
      .then((answer) => wanted && setTold({ key, answer, problem: "" }))
      .catch((error: unknown) => {
        if (!wanted) return;
        setTold((was) => ({ key, answer: was.key === key ? was.answer : null, problem: sentence(error) }));
      })
      .finally(() => wanted && setLoading(false));
    return () => {
      wanted = false;
    };
  }, [key, round, connected]);

  const again = useCallback(() => setRound((was) => was + 1), []);
  const current = told.key === key;
  return {
    answer: current ? told.answer : null,
    problem: current ? told.problem : "",
    loading,
    again,
  };
}

interface Told<T> {
  readonly key: string;
  readonly answer: T | null;
  readonly problem: string;
}

export function sentence(error: unknown): string {
  return error instanceof Error && error.message ? error.message : String(error);
}

/** Runs one task at a time and ignores calls while one is running. Errors go to `failed`. */
export function useDoing(failed: (problem: string) => void): Doing {
  const [busy, setBusy] = useState(false);
  const under = useRef(false);
  const alive = useRef(true);
  useEffect(
    () => () => {
      alive.current = false;
    },
    [],
  );
  const run = async (work: () => Promise<void>): Promise<void> => {
    if (under.current) return;
    under.current = true;
    setBusy(true);
    try {
      await work();
    } catch (error) {
      failed(sentence(error));
    } finally {
      under.current = false;
      if (alive.current) setBusy(false);
    }
  };
  return { busy, run };
}

export interface Doing {
  readonly busy: boolean;
  readonly run: (work: () => Promise<void>) => Promise<void>;
}

/** Calls `again` periodically while the page is visible, and when it becomes visible or gets the focus. */
export function useRefresh(again: () => void, everyMs: number): void {
  useEffect(() => {
    const look = () => {
      if (!document.hidden) again();
    };
    const timer = setInterval(look, everyMs);
    document.addEventListener("visibilitychange", look);
    addEventListener("focus", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
      removeEventListener("focus", look);
    };
  }, [again, everyMs]);
}
