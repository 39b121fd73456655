import { attempt } from "../attempt";
import { counted } from "../format";
import type { Requests, SessionRow } from "../protocol";
import { sessions } from "../store";
import { Button, confirm, toast } from "../ui";
import { searchSessions } from "./session-groups";
import { selectAll, selected, stopSelecting } from "./selection";

type Change = Requests["change_sessions"]["action"];

const DONE: Record<Change, string> = {
  archive: "archived",
  unarchive: "unarchived",
  mark_read: "marked as read",
  stop: "stopped",
};

/** What to do with the selected sessions. */
export function BulkBar({ words }: { words: string }) {
  if (!selected.value) return null;
  const chosen = sessions.value.filter((row) => selected.value!.has(row.session_id));
  const listed = searchSessions(sessions.value, words).filter((row) => !row.archived);
  const act = (action: Change, rows: SessionRow[]) => () => void change(action, rows);
  const running = chosen.filter((row) => row.flags.is_active);
  return (
    <div class="bulk-bar" role="toolbar" aria-label="Selected sessions">
      <div class="bulk-line">
        <span class="grow">{counted(chosen.length, "session")} selected</span>
        <Button kind="plain" compact onClick={() => selectAll(listed.map((row) => row.session_id))}>
          Select all
        </Button>
        <Button kind="plain" compact icon="cross" label="Stop selecting" onClick={stopSelecting} />
      </div>
      <div class="bulk-line">
        <Button compact disabled={!chosen.length} onClick={act("mark_read", chosen)}>
          Mark as read
        </Button>
        <Button compact disabled={!chosen.length} onClick={act("archive", chosen)}>
          Archive
        </Button>
        <Button compact kind="danger" disabled={!running.length} onClick={act("stop", running)}>
          Stop
        </Button>
      </div>
    </div>
  );
}

async function change(action: Change, rows: SessionRow[]): Promise<void> {
  const session_ids = rows.map((row) => row.session_id);
  const sure =
    action !== "stop" ||
    (await confirm({
      title: `Stop ${counted(rows.length, "session")}?`,
      words: "They can be resumed.",
      yes: "Stop",
      danger: true,
    }));
  if (!sure || !(await attempt("change_sessions", { action, session_ids }))) return;
  stopSelecting();
  const undo = { words: "Undo", act: () => void attempt("change_sessions", { action: "unarchive", session_ids }) };
  toast(`${counted(rows.length, "session")} ${DONE[action]}.`, "usual", action === "archive" ? undo : undefined);
}
