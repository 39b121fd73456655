/** The changes of a session: read them, comment on them, revert or apply them; a page, or a panel. */
import { useEffect, useRef, useState } from "preact/hooks";

import { request } from "../connection";
import { counted } from "../format";
import { loadValue, saveValue } from "../storage";
import { NARROW, useMedia } from "../media";
import type { ChangedFile, Review, SessionRow } from "../protocol";
import { hrefOf } from "../routes";
import { WorktreeRemoved } from "../session/WorktreeRemoved";
import { isWorktreeRemoved, appearanceOf, wordsOf } from "../states";
import { sessionOf } from "../store";
import { Badge, Button, Empty, LinkButton, Notice, toastError, confirm } from "../ui";
import { visibleLine } from "../visible-text";
import { ApplyDialog } from "../worktrees/ApplyDialog";
import { FinishDialog } from "../worktrees/FinishDialog";
import { Loaded } from "../ui/PageFrame";
import { toastDone } from "../worktrees/worktree-actions";
import { statsWords } from "../worktrees/worktree-words";
import { CommentsBar } from "./CommentsBar";
import { FileNav } from "./FileNav";
import { FileSection, type Scope } from "./FileSection";
import { type Shown, WorktreeActions } from "./WorktreeActions";
import { useRequest, useRefresh } from "../requests";
import { filtered, stillChanged, sums } from "./changed-files";
import { type CommentEditor, useCommentEditor } from "./comment-editor";
import type { DiffView } from "./diff-rows";
import { goTo, useReviewKeys } from "./review-keys";
import { type ViewedFiles, useViewedFiles } from "./viewed-files";
import "./review.css";

const SCOPES: readonly { readonly id: Scope; readonly words: string; readonly title: string }[] = [
  { id: "branch", words: "Branch", title: "All changes on the branch" },
  { id: "staged", words: "Staged", title: "Staged changes" },
  { id: "unstaged", words: "Unstaged", title: "Unstaged changes" },
  { id: "session", words: "Session", title: "Changes made by this session" },
];

export default function ReviewPage({ session_id, embedded = false }: { session_id: string; embedded?: boolean }) {
  const row = sessionOf(session_id);
  // without a worktree there is no separate branch to compare
  const [chosen, setScope] = useState<Scope | null>(null);
  const scope = chosen ?? (row && !row.worktree_id ? "session" : "branch");
  const review = useRequest("review_changes", { session_id, scope });
  useRefresh(review.reload);
  const revision = row?.changes.revision;
  const state = row?.state;
  useEffect(() => {
    if (review.answer) review.reload();
  }, [revision, state]);

  const narrow = useMedia(NARROW) || embedded;
  const [view, setView] = useState<DiffView>(() => (loadValue<unknown>("review.view", "") === "split" ? "split" : "unified"));
  const chooseView = (next: DiffView) => {
    setView(next);
    saveValue("review.view", next);
  };
  const editor = useCommentEditor(session_id);
  const seen = useViewedFiles(session_id);
  const [words, setWords] = useState("");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [shown, setShown] = useState<Shown>(null);
  const body = useRef<HTMLDivElement>(null);

  const files = filtered(review.answer?.files ?? [], words);
  const marked = stillChanged(selected, review.answer?.files ?? []);
  useReviewKeys(body, files, !embedded);
  const go = (path: string) => goTo(body.current!, path);
  const closeAndReload = () => {
    setShown(null);
    setSelected(new Set());
    review.reload();
  };

  const actions = row?.worktree_id && (
    <WorktreeActions row={row} marked={marked.size} show={setShown} changed={review.reload} />
  );
  return (
    <div class={embedded ? "review embedded" : "review"}>
      {embedded ? (
        <div class="review-summary">
          <Summary row={row} review={review.answer} embedded />
          <span class="grow" />
          {actions}
        </div>
      ) : (
        <header class="page-head review-head">
          <LinkButton kind="plain" icon="left" label="Back to session" href={hrefOf({ page: "session", session_id })} />
          <div class="grow">
            <h1 class="cut">Review{row ? `: ${visibleLine(row.name)}` : ""}</h1>
            <Summary row={row} review={review.answer} />
          </div>
          {actions}
        </header>
      )}
      <div class="review-tools">
        <div class="choice-bar" role="group" aria-label="Changes to show">
          {SCOPES.map(({ id, words: name, title }) => (
            <button
              key={id}
              type="button"
              class="choice"
              aria-pressed={scope === id}
              title={title}
              onClick={() => setScope(id)}
            >
              {name}
            </button>
          ))}
        </div>
        <span class="grow" />
        {!narrow && (
          <Button
            kind="plain"
            icon={view === "split" ? "list" : "columns"}
            onClick={() => chooseView(view === "split" ? "unified" : "split")}
          >
            {view === "split" ? "Unified" : "Split"}
          </Button>
        )}
        {embedded && (
          <LinkButton kind="plain" icon="expand" label="Open as a page" href={hrefOf({ page: "review", session_id })} />
        )}
        <Button kind="plain" icon="retry" label="Refresh" busy={review.loading && !review.answer} onClick={review.reload} />
      </div>
      <div class="review-body" ref={body}>
        <Loaded of={review} waiting="Loading changes…">
          {(answer) => (
            <>
              {row && isWorktreeRemoved(row) && <WorktreeRemoved />}
              {answer.notes.map((note) => (
                <Notice key={note} tone="careful" icon="alert">
                  {visibleLine(note)}
                </Notice>
              ))}
              {answer.files.length === 0 ? (
                <Empty icon="diff">
                  <p>{emptyText(scope, row)}</p>
                </Empty>
              ) : (
                <div class="review-columns">
                  {!embedded && (
                    <FileNav
                      files={files}
                      total={answer.files.length}
                      words={words}
                      filter={setWords}
                      commented={new Set(editor.drafts.map((draft) => draft.path))}
                      seen={seen.has}
                      narrow={narrow}
                      go={go}
                    />
                  )}
                  <div class="review-files">
                    {files.length === 0 && <Empty icon="search">No files match the filter.</Empty>}
                    {files.map((file) => (
                      <ReviewedFile
                        key={`${scope} ${file.path}`}
                        sessionId={session_id}
                        scope={scope}
                        file={file}
                        view={narrow ? "unified" : view}
                        editor={editor}
                        seen={seen}
                        selected={row?.worktree_id ? marked : null}
                        select={setSelected}
                        reverted={review.reload}
                      />
                    ))}
                  </div>
                </div>
              )}
            </>
          )}
        </Loaded>
      </div>
      <CommentsBar sessionId={session_id} editor={editor} go={go} />
      {shown === "apply" && row?.worktree_id && (
        <ApplyDialog
          worktreeId={row.worktree_id}
          name={visibleLine(row.name)}
          paths={[...marked]}
          known={scope === "branch" ? review.answer?.files.map((file) => file.path) : []}
          close={() => setShown(null)}
          applied={closeAndReload}
        />
      )}
      {shown === "finish" && row?.worktree_id && (
        <FinishDialog
          worktreeId={row.worktree_id}
          branch={visibleLine(row.branch)}
          close={() => setShown(null)}
          finished={closeAndReload}
        />
      )}
    </div>
  );
}

function Summary({
  row,
  review,
  embedded,
}: {
  row: SessionRow | undefined;
  review: Review | null;
  embedded?: boolean;
}) {
  const { added, removed } = sums(review?.files ?? []);
  return (
    <div class="line-of small quiet">
      {row && !embedded && (
        <Badge tone={appearanceOf(row.state).tone} icon={appearanceOf(row.state).icon}>
          {wordsOf(row)}
        </Badge>
      )}
      {row?.branch && !embedded && <span class="mono cut wide-only">{visibleLine(row.branch)}</span>}
      {review && (
        <>
          <span>{counted(review.files.length, "file")}</span>
          <span class="mono">
            <span class="added-count">+{added}</span> <span class="removed-count">−{removed}</span>
          </span>
          {row?.worktree_id && <span class="review-stats">{statsWords({ ...review.stats, files: 0 })}</span>}
        </>
      )}
    </div>
  );
}

function ReviewedFile({
  sessionId,
  scope,
  file,
  view,
  editor,
  seen,
  selected,
  select,
  reverted,
}: {
  sessionId: string;
  scope: Scope;
  file: ChangedFile;
  view: DiffView;
  editor: CommentEditor;
  seen: ViewedFiles;
  selected: ReadonlySet<string> | null;
  select: (paths: ReadonlySet<string>) => void;
  reverted: () => void;
}) {
  const change = (on: boolean) => {
    const rest = [...(selected ?? [])].filter((path) => path !== file.path);
    select(new Set(on ? [...rest, file.path] : rest));
  };
  // only files that differ from the base can be reverted
  const revertible = (scope === "branch" || scope === "session") && file.digest !== "";
  return (
    <FileSection
      sessionId={sessionId}
      scope={scope}
      file={file}
      view={view}
      editor={editor}
      seen={seen.has(file)}
      see={(now) => seen.mark(file, now)}
      selection={selected && { on: selected.has(file.path), change }}
      revert={revertible ? () => void revertFile(sessionId, file, reverted) : null}
    />
  );
}

async function revertFile(sessionId: string, file: ChangedFile, reverted: () => void): Promise<void> {
  const path = visibleLine(file.path);
  const added = file.kind === "added";
  const sure = await confirm({
    title: added ? `Delete ${path}?` : `Revert ${path}?`,
    words: added
      ? "The agent added this file. A copy is kept under Worktrees, Saved work."
      : "The file gets its earlier content. A copy of the current one is kept under Worktrees, Saved work.",
    yes: added ? "Delete" : "Revert",
    danger: true,
  });
  if (!sure) return;
  try {
    const done = await request("revert_file", { session_id: sessionId, path: file.path, digest: file.digest });
    toastDone(done, added ? `Deleted ${path}.` : `Reverted ${path}.`);
  } catch (error) {
    toastError(error);
  }
  reverted();
}

function emptyText(scope: Scope, row: SessionRow | undefined): string {
  if (row && isWorktreeRemoved(row)) return "Its changes were removed with its worktree.";
  const working = row?.flags.is_active ? " The agent is working; the changes appear here." : "";
  switch (scope) {
    case "staged":
      return `No staged changes.${working}`;
    case "unstaged":
      return `No unstaged changes.${working}`;
    case "session":
      return `This session has not changed any files.${working}`;
    case "branch":
      return `No changes on this branch.${working}`;
  }
}
