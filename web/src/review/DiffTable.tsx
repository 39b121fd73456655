/** The lines of a diff. A long diff is drawn in pieces, and only the pieces near the viewport. */
import { useEffect, useMemo, useRef } from "preact/hooks";

import { sanitised } from "../html";
import type { DiffLine } from "../protocol";
import { visibleLine } from "../visible-text";
import { CommentBox } from "./CommentBox";
import type { CommentEditor } from "./comment-editor";
import { type Draft, keyOf, placeOf, plainText } from "./comments";
import { type DiffRow, type DiffView, piecesOf, rowsOf } from "./diff-rows";
import { hiddenLines } from "./gaps";
import { useNearViewport } from "./near-viewport";

const LINE_HEIGHT = 20;
const COLUMNS = { unified: 3, split: 4 };
const SIGNS: Readonly<Record<DiffLine["kind"], string>> = { same: " ", added: "+", removed: "−", gap: "" };

export interface DiffProps {
  path: string;
  lines: readonly DiffLine[];
  view: DiffView;
  editor: CommentEditor;
  /** The index of the gap that is loading, or null. */
  filling: number | null;
  fill: (at: number) => void;
}

export function DiffTable(props: DiffProps) {
  const { path, lines, view } = props;
  const pieces = useMemo(() => piecesOf(rowsOf(lines, view)), [lines, view]);
  return (
    <table class={`review-diff ${view}`} aria-label={`Changes in ${visibleLine(path)}`} onKeyDown={onArrowKey}>
      <colgroup>
        {view === "unified" ? (
          <>
            <col class="line-cell-column" />
            <col class="line-cell-column" />
            <col />
          </>
        ) : (
          <>
            <col class="line-cell-column" />
            <col />
            <col class="line-cell-column" />
            <col />
          </>
        )}
      </colgroup>
      {pieces.map((rows, at) => (
        <Piece key={at} rows={rows} first={at === 0} {...props} />
      ))}
    </table>
  );
}

/** The up and down arrows move between lines. */
function onArrowKey(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const from = event.target as HTMLElement;
  if (!step || !from.matches(".line-button")) return;
  event.preventDefault();
  const buttons = [...(from.closest("table")?.querySelectorAll<HTMLElement>(".line-button") ?? [])];
  buttons[buttons.indexOf(from) + step]?.focus();
}

function Piece({ rows, first, ...props }: DiffProps & { rows: DiffRow[]; first: boolean }) {
  const body = useRef<HTMLTableSectionElement>(null);
  const near = useNearViewport(body);
  const height = useRef(rows.length * LINE_HEIGHT);
  useEffect(() => {
    if (near && body.current && body.current.offsetHeight > 0) height.current = body.current.offsetHeight;
  });
  return (
    <tbody ref={body}>
      {near
        ? rows.map((row, at) => <Row key={at} row={row} first={first && at === 0} {...props} />)
        : [<RowsPlaceholder key="unseen" height={height.current} columns={COLUMNS[props.view]} />]}
    </tbody>
  );
}

/** A placeholder as tall as the lines that are not drawn. */
function RowsPlaceholder({ height, columns }: { height: number; columns: number }) {
  const cell = useRef<HTMLTableCellElement>(null);
  useEffect(() => {
    // the content security policy blocks style attributes, but not this
    cell.current!.style.height = `${height}px`;
  }, [height]);
  return (
    <tr>
      <td ref={cell} colSpan={columns} />
    </tr>
  );
}

type RowProps = DiffProps & { row: DiffRow; first: boolean };

function Row(props: RowProps) {
  switch (props.row.kind) {
    case "gap":
      return <Gap at={props.row.at} {...props} />;
    case "line":
      return <Unified line={props.row.line} {...props} />;
    case "pair":
      return <Split left={props.row.left} right={props.row.right} {...props} />;
  }
}

function Gap({ at, lines, view, filling, fill }: RowProps & { at: number }) {
  const hidden = hiddenLines(lines, at);
  const words = hidden === null ? "Show following lines" : `Show ${hidden} unchanged lines`;
  return (
    <tr class="review-gap">
      <td colSpan={COLUMNS[view]}>
        <button type="button" class="gap-button" aria-busy={filling === at} disabled={filling !== null} onClick={() => fill(at)}>
          {filling === at ? "Loading…" : hidden === 1 ? "Show 1 unchanged line" : words}
        </button>
      </td>
    </tr>
  );
}

function Unified({ line, path, editor, first }: RowProps & { line: DiffLine }) {
  const removed = line.kind === "removed";
  const button = <LineButton line={line} path={path} editor={editor} first={first} />;
  return (
    <>
      <tr class={`review-row ${line.kind}`}>
        <td class="line-cell">{removed ? button : <LineNumber of={line.old} />}</td>
        <td class="line-cell">{removed ? null : button}</td>
        <Code line={line} />
      </tr>
      <Comments lines={[line]} path={path} editor={editor} columns={COLUMNS.unified} />
    </>
  );
}

function Split({
  left,
  right,
  path,
  editor,
  first,
}: RowProps & { left: DiffLine | null; right: DiffLine | null }) {
  const own = left?.kind === "removed";
  const places = [own ? left : null, right].filter((line) => line !== null);
  return (
    <>
      <tr class="review-row">
        <td class={`line-cell ${left?.kind ?? "nothing"}`}>
          {own ? <LineButton line={left} path={path} editor={editor} first={first} /> : <LineNumber of={left?.old} />}
        </td>
        <Code line={left} />
        <td class={`line-cell ${right?.kind ?? "nothing"}`}>
          {right && <LineButton line={right} path={path} editor={editor} first={first && !own} />}
        </td>
        <Code line={right} />
      </tr>
      <Comments lines={places} path={path} editor={editor} columns={COLUMNS.split} />
    </>
  );
}

function Code({ line }: { line: DiffLine | null }) {
  if (!line) return <td class="review-code nothing" />;
  return (
    <td class={`review-code ${line.kind}`}>
      <span class="line-sign">{SIGNS[line.kind]}</span>
      <code class="code" dangerouslySetInnerHTML={sanitised(line.html)} />
    </td>
  );
}

function LineNumber({ of }: { of: number | null | undefined }) {
  return <span class="line-number">{of}</span>;
}

/** Starts a comment on its line. */
function LineButton({
  line,
  path,
  editor,
  first,
}: {
  line: DiffLine;
  path: string;
  editor: CommentEditor;
  first: boolean;
}) {
  const place = placeOf(path, line);
  if (!place) return null;
  return (
    <button
      type="button"
      class="line-button"
      // one tab stop per file; the arrow keys move between lines
      tabIndex={first ? 0 : -1}
      aria-label={`Comment on ${place.old ? "removed line" : "line"} ${place.line}`}
      onClick={() => editor.write(place)}
    >
      {place.line}
    </button>
  );
}

function Comments({
  lines,
  path,
  editor,
  columns,
}: {
  lines: readonly DiffLine[];
  path: string;
  editor: CommentEditor;
  columns: number;
}) {
  const drafts = lines.flatMap((line) => draftAt(line, path, editor) ?? []);
  if (drafts.length === 0) return null;
  return (
    <tr class="review-comments">
      <td colSpan={columns}>
        {drafts.map((draft) => (
          <CommentBox key={keyOf(draft)} draft={draft} editor={editor} />
        ))}
      </td>
    </tr>
  );
}

function draftAt(line: DiffLine, path: string, { drafts, open }: CommentEditor): Draft | null {
  const place = placeOf(path, line);
  if (!place || (drafts.length === 0 && open === null)) return null;
  const key = keyOf(place);
  const quote = plainText(line.html);
  const draft = drafts.find((each) => keyOf(each) === key && (each.quote === quote || open === key));
  return draft ?? (open === key ? { ...place, text: "", quote } : null);
}
