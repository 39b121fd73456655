/** Files that the user marked as viewed. A file that changes is unmarked. */
import { useState } from "preact/hooks";

import { loadValue, saveValue } from "../storage";
import type { ChangedFile } from "../protocol";

export interface ViewedFiles {
  readonly has: (file: ChangedFile) => boolean;
  readonly mark: (file: ChangedFile, seen: boolean) => void;
}

export function useViewedFiles(sessionId: string): ViewedFiles {
  const storageKey = `review.seen.${sessionId}`;
  const [seen, setSeen] = useState<Readonly<Record<string, string>>>(() => recorded(loadValue<unknown>(storageKey, {})));
  return {
    has: (file) => file.digest !== "" && seen[file.path] === file.digest,
    mark: (file, now) => {
      const { [file.path]: _, ...rest } = seen;
      const next = now ? { ...rest, [file.path]: file.digest } : rest;
      setSeen(next);
      saveValue(storageKey, Object.keys(next).length > 0 ? next : undefined);
    },
  };
}

function recorded(found: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(Object(found) as object);
  return Object.fromEntries(entries.filter(([, digest]) => typeof digest === "string"));
}
