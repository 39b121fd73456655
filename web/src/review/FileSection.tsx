/** One changed file: its header, and its diff once it is near the viewport. */
import { useEffect, useRef, useState } from "preact/hooks";

import { request } from "../connection";
import type { ChangedFile, FileDiff, Requests } from "../protocol";
import { Badge, Button, Icon, Problem, Spinner, toastError } from "../ui";
import { visibleLine } from "../visible-text";
import { errorMessage } from "../requests";
import { KIND_WORDS, folderAndName, startsCollapsed } from "./changed-files";
import type { CommentEditor } from "./comment-editor";
import { CommentBox } from "./CommentBox";
import { keyOf, outdated } from "./comments";
import { Counts } from "./Counts";
import type { DiffView } from "./diff-rows";
import { DiffTable } from "./DiffTable";
import { contextFor, filled } from "./gaps";
import { useOnceNearViewport } from "./near-viewport";

export type Scope = NonNullable<Requests["read_diff"]["scope"]>;

export interface FileProps {
  sessionId: string;
  scope: Scope;
  file: ChangedFile;
  view: DiffView;
  editor: CommentEditor;
  seen: boolean;
  see: (seen: boolean) => void;
  /** Set where files can be applied one by one. */
  selection: { readonly on: boolean; readonly change: (on: boolean) => void } | null;
  revert: (() => void) | null;
}

export function FileSection(props: FileProps) {
  const { file, seen, see, editor } = props;
  const [opened, setOpened] = useState<boolean | null>(null);
  const section = useRef<HTMLElement>(null);
  const near = useOnceNearViewport(section);
  const open = opened ?? !(startsCollapsed(file) || seen);
  const markViewed = (now: boolean) => {
    see(now);
    setOpened(null);
  };
  const words = KIND_WORDS[file.kind];
  const { folder, name } = folderAndName(visibleLine(file.path));
  const waiting = editor.drafts.filter((draft) => draft.path === file.path).length;

  return (
    <section ref={section} class="file" data-path={file.path} aria-label={visibleLine(file.path)}>
      <header class="file-head">
        <button
          type="button"
          class="file-fold"
          aria-expanded={open}
          onClick={() => setOpened(!open)}
        >
          <Icon name={open ? "down" : "right"} />
          <span class={`file-kind ${file.kind}`} title={words.word}>
            <span aria-hidden="true">{words.sign}</span>
            <span class="spoken">{words.word}</span>
          </span>
          <span class="file-path">
            {file.old_path && file.old_path !== file.path && <span class="quiet">{visibleLine(file.old_path)} → </span>}
            <span class="quiet">{folder}</span>
            <strong>{name}</strong>
          </span>
        </button>
        {waiting > 0 && <Badge tone="careful">{waiting} not sent</Badge>}
        {file.generated && <Badge>Generated</Badge>}
        <Counts file={file} />
        <label class="file-check">
          <input type="checkbox" checked={seen} onChange={(event) => markViewed(event.currentTarget.checked)} />
          Viewed
        </label>
        {props.selection && (
          <label class="file-check">
            <input
              type="checkbox"
              checked={props.selection.on}
              onChange={(event) => props.selection?.change(event.currentTarget.checked)}
            />
            Select
          </label>
        )}
        {props.revert && (
          <Button compact kind="plain" icon="history" label={`Revert ${visibleLine(file.path)}`} onClick={props.revert} />
        )}
      </header>
      {open && (near ? <FileBody {...props} /> : <DiffPlaceholder lines={file.added + file.removed} />)}
    </section>
  );
}

/** A placeholder for a diff that is not loaded, to reduce layout shifts. */
function DiffPlaceholder({ lines }: { lines: number }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current!.style.height = `${Math.min(lines + 8, 2000) * 20}px`;
  }, [lines]);
  return <div ref={box} />;
}

function FileBody({ sessionId, scope, file, view, editor }: FileProps) {
  const { diff, problem, filling, fill, reload } = useDiff(sessionId, scope, file);
  if (problem) {
    return (
      <div class="file-note">
        <Problem words={problem} />
        <Button compact icon="retry" onClick={reload}>
          Retry
        </Button>
      </div>
    );
  }
  if (!diff) {
    return (
      <div class="file-note">
        <Spinner label={`Loading ${visibleLine(file.path)}`} />
      </div>
    );
  }
  const lost = outdated(editor.drafts, file.path, diff.lines);
  return (
    <>
      {lost.length > 0 && (
        <div class="file-note">
          <p class="quiet small">Comments on lines that have changed since:</p>
          {lost.map((draft) => (
            <CommentBox key={keyOf(draft)} draft={draft} editor={editor} />
          ))}
        </div>
      )}
      {diff.note && <p class="file-note quiet">{diff.note}</p>}
      <Pictures diff={diff} />
      {diff.lines.length > 0 && (
        <DiffTable
          path={file.path}
          lines={diff.lines}
          view={view}
          editor={editor}
          filling={filling}
          fill={fill}
        />
      )}
    </>
  );
}

function Pictures({ diff }: { diff: FileDiff }) {
  const pictures = [
    { words: "Before", uri: diff.old_image },
    { words: "After", uri: diff.new_image },
  ].filter(({ uri }) => uri.startsWith("data:image/"));
  if (pictures.length === 0) return null;
  return (
    <div class="file-pictures">
      {pictures.map(({ words, uri }) => (
        <figure key={words}>
          <figcaption class="quiet small">{words}</figcaption>
          <img src={uri} alt={`${visibleLine(diff.file.path)}, ${words.toLowerCase()}`} />
        </figure>
      ))}
    </div>
  );
}

/** The diff of a file; reloaded when the file changes. */
function useDiff(sessionId: string, scope: Scope, file: ChangedFile) {
  const [diff, setDiff] = useState<FileDiff | null>(null);
  const [problem, setProblem] = useState("");
  const [filling, setFilling] = useState<number | null>(null);
  const [round, setRound] = useState(0);
  const about = { session_id: sessionId, path: file.path, scope };

  useEffect(() => {
    let active = true;
    setProblem("");
    request("read_diff", about)
      .then((answer) => active && setDiff(answer))
      .catch((error: unknown) => active && setProblem(errorMessage(error)));
    return () => {
      active = false;
    };
  }, [sessionId, scope, file.path, file.digest, round]);

  const fill = async (at: number) => {
    if (!diff) return;
    setFilling(at);
    try {
      const wide = await request("read_diff", { ...about, context: contextFor(diff.lines, at) });
      setDiff((now) => (now === diff ? { ...wide, lines: [...filled(diff.lines, at, wide.lines)] } : now));
    } catch (error) {
      toastError(error);
    } finally {
      setFilling(null);
    }
  };
  return { diff, problem, filling, fill, reload: () => setRound((was) => was + 1) };
}
