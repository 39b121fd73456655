/** Actions of the list on one session: pin, tags, copy and share. */
import { signal } from "@preact/signals";
import { attempt } from "../attempt";
import type { SessionRow } from "../protocol";
import { go } from "../routes";
import { archive } from "../session/session-actions";
import { type MenuItem, toast, toastError } from "../ui";

/** The session whose tags are being edited. */
export const tagged = signal<SessionRow | null>(null);

/** The menu of a session in the list. */
export function listItems(row: SessionRow): MenuItem[] {
  return [
    ...orderItems(row),
    { words: row.archived ? "Unarchive" : "Archive", icon: "archive", act: () => void archive(row), apart: true },
  ];
}

export function orderItems(row: SessionRow): MenuItem[] {
  const { session_id, pinned } = row;
  return [
    {
      words: pinned ? "Unpin" : "Pin",
      icon: "pin",
      act: () => void attempt("pin_session", { session_id, pinned: !pinned }),
    },
    { words: "Tags…", icon: "tag", act: () => (tagged.value = row) },
    { words: "Continue in a worktree", icon: "branch", act: () => void continueInWorktree(row) },
    { words: "Copy as Markdown", icon: "copy", act: () => void copy(row) },
    ...("share" in navigator ? [{ words: "Share…", icon: "link", act: () => void share(row) } as const] : []),
  ];
}

async function continueInWorktree({ session_id }: SessionRow): Promise<void> {
  toast("Making a worktree…");
  const started = await attempt("fork_session", { session_id, where: "worktree" });
  const [made] = started?.session_ids ?? [];
  if (made) go({ page: "session", session_id: made });
}

async function copy({ session_id }: SessionRow): Promise<void> {
  const exported = await attempt("export_session", { session_id, format: "markdown" });
  if (!exported) return;
  await navigator.clipboard.writeText(exported.text).then(() => toast("Copied. Check it before you share it."), toastError);
}

async function share({ session_id, name }: SessionRow): Promise<void> {
  const exported = await attempt("export_session", { session_id, format: "markdown" });
  if (!exported) return;
  const file = new File([exported.text], exported.name.replace(/\.md$/, ".txt"), { type: "text/plain" });
  const whole = { title: name, files: [file] };
  await navigator.share(navigator.canShare?.(whole) ? whole : { title: name, text: exported.text }).catch((error: unknown) => {
    if (!(error instanceof DOMException && error.name === "AbortError")) toastError(error);
  });
}
