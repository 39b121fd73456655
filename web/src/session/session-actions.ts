/** Actions on a session. */
import { attempt } from "../attempt";
import type { Requests, SessionRow } from "../protocol";
import { go } from "../routes";
import { confirm, toast } from "../ui";
import { visibleLine } from "../visible-text";
import { downloadFile } from "./download";

export function cancel({ session_id }: SessionRow): void {
  void attempt("cancel_session", { session_id });
}

export function resume({ session_id }: SessionRow): void {
  void attempt("resume_session", { session_id });
}

export function retry({ session_id }: SessionRow): void {
  void attempt("retry_session", { session_id });
}

/** The action of the `s` key. */
export function stopOrResume(row: SessionRow): void {
  if (row.flags.show_cancel_button) cancel(row);
  else if (row.flags.show_retry_button) retry(row);
  else if (row.flags.show_resume_button) resume(row);
}

export async function fork(session_id: string, ts?: number): Promise<void> {
  const started = await attempt("fork_session", { session_id, ...(ts === undefined ? {} : { ts }) });
  const [made] = started?.session_ids ?? [];
  if (made) go({ page: "session", session_id: made });
}

export async function exportAs(session_id: string, format: NonNullable<Requests["export_session"]["format"]>): Promise<void> {
  const exported = await attempt("export_session", { session_id, format });
  if (exported) downloadFile(exported.name, exported.text);
}

export async function archive({ session_id, archived, name }: SessionRow): Promise<void> {
  const done = await attempt("archive_session", { session_id, archived: !archived });
  if (!done) return;
  if (archived) return toast("Unarchived.");
  const undo = () => void attempt("archive_session", { session_id, archived: false });
  toast(`Archived “${visibleLine(name)}”.`, "usual", { words: "Undo", act: undo });
}

export async function remove({ session_id, name, flags }: SessionRow): Promise<void> {
  const running = flags.is_active ? " Its process is stopped." : "";
  const sure = await confirm({
    title: "Remove this session from the list?",
    words: `“${name}” is hidden from all lists.${running} Its conversation and its worktree are kept.`,
    yes: "Remove",
    danger: true,
  });
  if (sure && (await attempt("remove_session", { session_id }))) go({ page: "home" });
}

/** Opens the session's folder in the user's editor, on the computer that runs the manager. */
export function openInEditor(session_id: string): void {
  void attempt("open_editor", { session_id });
}
