/** The state of the comments in a review. */
import { useEffect, useState } from "preact/hooks";

import { type Draft, type Place, saveDrafts, storedDrafts, keyOf, withDraft, withoutDraft } from "./comments";

export interface CommentEditor {
  readonly drafts: readonly Draft[];
  /** The key of the comment that is being edited. */
  readonly open: string | null;
  readonly write: (place: Place) => void;
  readonly change: (draft: Draft) => void;
  readonly drop: (place: Place) => void;
  readonly close: () => void;
  readonly clear: () => void;
}

export function useCommentEditor(sessionId: string): CommentEditor {
  const [drafts, setDrafts] = useState(() => storedDrafts(sessionId));
  const [open, setOpen] = useState<string | null>(null);
  useEffect(() => saveDrafts(sessionId, drafts), [drafts]);
  return {
    drafts,
    open,
    write: (place) => setOpen(keyOf(place)),
    change: (draft) => setDrafts((was) => withDraft(was, draft)),
    drop: (place) => {
      setDrafts((was) => withoutDraft(was, place));
      setOpen(null);
    },
    close: () => setOpen(null),
    clear: () => {
      setDrafts([]);
      setOpen(null);
    },
  };
}
